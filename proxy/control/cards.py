"""Measurement cards of batches, and calls that a card discloses."""

from __future__ import annotations

from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from classifier.card import CardMaker, DisclosureMaker, Stated
from proxy.control.listing import export_batch
from proxy.control.queries import Service


async def card(service: Service, batch: str, *, harness: str | None = None) -> dict[str, Any]:
    """Make a batch's card of its export, as `classifier.card.card_of` does of the file.

    A rollout at a time, so that agents' calls get their turn between two.

    Arguments:
        harness: name and version of what ran the agents.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = metadata.version("truezero")
    maker = CardMaker(
        Stated(
            batch=batch,
            truezero=version,
            classifier=version,  # they are released together
            policy=service.policy,
            origins={
                name: urlsplit(each.url).netloc
                for name, each in service.upstreams.items()
                if each.url is not None
            },
            harness=harness,
        )
    )
    async for records in await export_batch(service, batch):
        await service.run(maker.add, records)
    return await service.run(maker.card)


async def disclose(service: Service, batch: str, *, seed: str, leaves: int) -> dict[str, Any]:
    """Disclose calls of a batch that a word draws.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    disclosure = DisclosureMaker(batch)
    async for records in await export_batch(service, batch):
        await service.run(disclosure.add, records)
    return await service.run(disclosure.disclose, seed=seed, leaves=leaves)
