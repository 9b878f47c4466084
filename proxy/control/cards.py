"""Measurement cards of batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from classifier.card import CardMaker, Stated
from proxy.control.listing import export_batch
from proxy.control.queries import Service, version
from proxy.store import listing


@dataclass(frozen=True, slots=True)
class ExportReading:
    """Something that is made of a batch's export, some rollouts after another.

    Agents' calls get their turn between two steps, and whoever takes no further one stops the work.

    Arguments:
        of: rollouts of the batch when it began.
        steps: yields after each step how many rollouts were read so far.
        made: what came of it, once the steps are over.
    """

    of: int
    steps: AsyncIterator[int]
    made: Callable[[], dict[str, Any]]
    service: Service

    async def result(self) -> dict[str, Any]:
        """Take the steps that are left, and return what came of them."""
        async for _ in self.steps:
            pass
        return await self.service.run(self.made)


async def card(service: Service, batch: str, *, harness: str | None = None) -> ExportReading:
    """Make a batch's card of its export, as `classifier.card.card_of` does of the file.

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
    return await _reading(service, batch, maker.add, maker.card)


async def _reading(
    service: Service,
    batch: str,
    add: Callable[[Sequence[dict[str, Any]]], None],
    made: Callable[[], dict[str, Any]],
) -> ExportReading:
    parts = await export_batch(service, batch)
    size = await service.read(listing.size_of, batch)
    return ExportReading(size, _steps(service, parts, add), made, service)


async def _steps(
    service: Service,
    parts: AsyncIterator[list[dict[str, Any]]],
    add: Callable[[Sequence[dict[str, Any]]], None],
) -> AsyncIterator[int]:
    read = 0
    async for records in parts:
        await service.run(add, records)
        read += sum(record["record"] == "rollout" for record in records)
        yield read
