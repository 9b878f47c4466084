"""Measurement cards of batches."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from classifier.card import CardMaker, Stated
from proxy.control.listing import export_batch
from proxy.control.queries import Service, version


async def card(service: Service, batch: str, *, harness: str | None = None) -> dict[str, Any]:
    """Make a batch's card of its export, as `classifier.card.card_of` does of the file.

    Agents' calls get their turn between some rollouts and the next.

    Arguments:
        harness: name and version of what ran the agents.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    maker = CardMaker(
        Stated(
            batch=batch,
            truezero=version(),
            classifier=version(),  # they are released together
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
