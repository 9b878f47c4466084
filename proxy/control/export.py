"""Export of rollouts, outcomes and exchanges: all that judging them again takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from classifier import codec
from proxy.control.loader import RolloutLoader
from proxy.control.pricing import PriceTable
from proxy.control.queries import PAGE, Queries, unknown_batch
from proxy.store.rollouts import Rollouts
from proxy.store.types import Row


class Exporter:
    """Exports rollouts one after another."""

    def __init__(
        self, *, queries: Queries, rollouts: Rollouts, loader: RolloutLoader, prices: PriceTable
    ) -> None:
        self._queries = queries
        self._rollouts = rollouts
        self._loader = loader
        self._prices = prices

    async def export(self, *, batch: str | None = None) -> AsyncIterator[list[dict[str, Any]]]:
        """Export one batch, or everything.

        Returns:
            The records of one rollout after another.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        filters = {} if batch is None else {"batch": batch}
        first = await self._queries.run(self._rollouts.page, filters, after=None, limit=PAGE)
        if batch is not None and not first:
            raise unknown_batch(batch)
        return self._pages(filters, first)

    async def _pages(
        self, filters: Mapping[str, str], rows: Sequence[Row]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        while rows:
            for row in rows:
                yield await self._queries.run(self._records, row["id"])
            after = (rows[-1]["created_at"], rows[-1]["id"])
            rows = await self._queries.run(self._rollouts.page, filters, after=after, limit=PAGE)

    def _records(self, rollout_id: str) -> list[dict[str, Any]]:
        """Encode a rollout, its outcome and its calls."""
        rollout = self._loader.load(rollout_id).rollout
        records = [{"record": "rollout", **codec.encode_rollout(rollout)}]
        if rollout.outcome is not None:
            owner = {"record": "outcome", "rollout_id": rollout.id}
            records.append({**owner, **codec.encode_outcome(rollout.outcome)})
        exchanges = self._prices.encode(rollout.exchanges)
        return records + [{"record": "exchange", **exchange} for exchange in exchanges]
