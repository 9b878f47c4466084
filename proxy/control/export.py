"""Export of rollouts, outcomes and exchanges: all that judging them again takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from classifier import codec
from proxy.control.listing import Listing
from proxy.control.loader import RolloutLoader
from proxy.control.pricing import PriceTable
from proxy.control.queries import Queries, unknown_batch
from truezero.models.lists import ListParameters


class Exporter:
    """Exports rollouts one after another."""

    def __init__(
        self, *, queries: Queries, listing: Listing, loader: RolloutLoader, prices: PriceTable
    ) -> None:
        self._queries = queries
        self._listing = listing
        self._loader = loader
        self._prices = prices

    async def export(self, asked: ListParameters) -> AsyncIterator[list[dict[str, Any]]]:
        """Export the rollouts of a list.

        Returns:
            The records of one rollout after another.

        Raises:
            Refusal: 404 for a batch without rollouts; 422 if ``after`` is not a cursor of the list.
        """
        pages = self._listing.ids(asked)
        first: list[str] = await anext(pages, [])
        if not first and asked.model_fields_set == {"batch"}:
            raise unknown_batch(", ".join(asked.batch))
        return self._pages(first, pages)

    async def _pages(
        self, first: Sequence[str], others: AsyncIterator[list[str]]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        for rollout_id in first:
            yield await self._queries.run(self._records, rollout_id)
        async for page in others:
            for rollout_id in page:
                yield await self._queries.run(self._records, rollout_id)

    def _records(self, rollout_id: str) -> list[dict[str, Any]]:
        """Encode a rollout, its outcome and its calls."""
        rollout = self._loader.load(rollout_id).rollout
        records = [{"record": "rollout", **codec.encode_rollout(rollout)}]
        if rollout.outcome is not None:
            owner = {"record": "outcome", "rollout_id": rollout.id}
            records.append({**owner, **codec.encode_outcome(rollout.outcome)})
        exchanges = self._prices.encode(rollout.exchanges)
        return records + [{"record": "exchange", **exchange} for exchange in exchanges]
