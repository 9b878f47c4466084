"""Calls, tokens, cost and seconds of a batch, by model, upstream, role or task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from classifier.totals import sum_known
from proxy.control.pricing import PriceTable
from proxy.control.queries import Queries, unknown_batch
from proxy.store import statistics
from proxy.store.batches import CallSum, call_sums, usage_sums

DEFAULT = ("model", "upstream", "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """What calls add up to; None where none of them says.

    Of the ``calls``, ``failures`` failed, and ``billable`` used tokens, as far as is known: of
    these ``tokens_known_calls`` are in the sums of tokens, ``cost_known_calls`` in ``cost_usd``.
    ``seconds`` are those in which the calls were under way.
    """

    calls: int
    failures: int
    billable_calls: int
    tokens_known_calls: int
    cost_known_calls: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    seconds: float | None


class UsageService:
    """Adds up a batch's calls."""

    def __init__(self, *, queries: Queries, prices: PriceTable) -> None:
        self._queries = queries
        self._prices = prices

    async def of_batch(self, batch: str, *, by: Sequence[str] = DEFAULT) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/usage`, the most expensive first.

        Arguments:
            by: names of `proxy.store.batches.DIMENSIONS`.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        found = await self._read(batch, by)
        return await self._queries.run(self._summed, batch, by, found)

    async def tables(self, batch: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return a batch's usage by each of these names alone, of one reading of its calls.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        found = await self._read(batch, names)
        tables = {
            name: [each._replace(group=each.group[place : place + 1]) for each in found]
            for place, name in enumerate(names)
        }
        return {
            name: await self._queries.run(self._summed, batch, [name], sums)
            for name, sums in tables.items()
        }

    async def _read(self, batch: str, by: Sequence[str]) -> list[CallSum]:
        found = [] if "task" in by else await self._queries.read(usage_sums, batch, by)
        if "task" in by or not await self._queries.run(self._one_price_each, found):
            found = await self._queries.read(call_sums, batch, by)
        if not found and await self._queries.read(statistics.span, batch) is None:
            raise unknown_batch(batch)
        return found

    def _summed(self, batch: str, by: Sequence[str], found: Sequence[CallSum]) -> dict[str, Any]:
        groups: dict[tuple[str | None, ...], list[CallSum]] = {}
        for each in found:
            groups.setdefault(each.group, []).append(each)
        items = [
            {**dict(zip(by, group, strict=True)), **asdict(self._sums(parts))}
            for group, parts in groups.items()
        ]
        items.sort(key=lambda item: (-(item["cost_usd"] or 0), -item["calls"], _names(item, by)))
        return {"batch": batch, "by": list(by), "items": items, "sum": asdict(self._sums(found))}

    def _sums(self, parts: Sequence[CallSum]) -> CallTotals:
        priced = [(each, self._cost(each)) for each in parts if each.to_price.calls]
        known = [(each.to_price.calls, cost) for each, cost in priced if cost is not None]
        costs = [*(each.stated_usd for each in parts), *(cost for _, cost in known)]
        return CallTotals(
            calls=sum(each.calls for each in parts),
            failures=sum(each.failures for each in parts),
            billable_calls=sum(each.used for each in parts),
            tokens_known_calls=sum(each.counted for each in parts),
            cost_known_calls=sum(each.stated for each in parts) + sum(count for count, _ in known),
            input_tokens=sum_known(each.tokens.inputs for each in parts),
            output_tokens=sum_known(each.tokens.outputs for each in parts),
            total_tokens=sum_known(each.tokens.total for each in parts),
            cost_usd=sum_known(costs),
            seconds=sum_known(each.seconds for each in parts),
        )

    def _one_price_each(self, found: Sequence[CallSum]) -> bool:
        return all(
            self._prices.holds(each.upstream, each.model, each.day, above=each.to_price.above)
            for each in found
            if each.to_price.calls
        )

    def _cost(self, each: CallSum) -> float | None:
        sums = each.to_price
        return self._prices.of_sums(
            each.upstream,
            each.model,
            each.day,
            calls=sums.calls,
            inputs=sums.inputs or 0,
            cached=sums.cached or 0,
            written=sums.written or 0,
            outputs=sums.outputs or 0,
            above=sums.above,
        )


def _names(item: dict[str, Any], by: Sequence[str]) -> list[str]:
    return [item[name] or "" for name in by]
