"""Reports on batches: usage and cost, groups for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from classifier.totals import sum_known
from proxy.control.pricing import PriceTable
from proxy.control.queries import (
    Service,
    unknown_batch,
)
from proxy.store import statistics
from proxy.store.batches import CallSum, call_sums, usage_sums

# --- calls, tokens, cost and seconds, by model, upstream, role or task -------------------------


DEFAULT = ("model", "upstream", "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The totals of some calls; a total is None if no call states it.

    Of the ``calls``, ``failures`` failed, and ``billable`` used tokens, as far as is known: of
    these ``tokens_known_calls`` are in the sums of tokens, ``cost_known_calls`` in ``cost_usd``;
    ``special_calls`` are not, for their tier or paid tools.
    ``seconds`` is the sum of the calls' durations.
    """

    calls: int
    failures: int
    billable_calls: int
    tokens_known_calls: int
    cost_known_calls: int
    special_calls: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    seconds: float | None


async def usage(service: Service, batch: str, *, by: Sequence[str] = DEFAULT) -> dict[str, Any]:
    """Return the response to `GET /batches/{id}/usage`, the most expensive first.

    Arguments:
        by: names of `proxy.store.batches.DIMENSIONS`.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    sums = await _call_sums(service, batch, by)
    return await service.run(_added_up, service.prices, batch, by, sums)


async def usage_tables(
    service: Service, batch: str, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return a batch's usage by each of these names alone. Its calls are read once.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    sums = await _call_sums(service, batch, names)
    tables = {
        name: [each._replace(group=each.group[place : place + 1]) for each in sums]
        for place, name in enumerate(names)
    }
    return {
        name: await service.run(_added_up, service.prices, batch, [name], of_name)
        for name, of_name in tables.items()
    }


async def _call_sums(service: Service, batch: str, by: Sequence[str]) -> list[CallSum]:
    sums = [] if "task" in by else await service.read(usage_sums, batch, by)
    if "task" in by or not await service.run(_one_price_each, service.prices, sums):
        sums = await service.read(call_sums, batch, by)
    if not sums and await service.read(statistics.span, batch) is None:
        raise await unknown_batch(service, batch)
    return sums


def _added_up(
    prices: PriceTable, batch: str, by: Sequence[str], sums: Sequence[CallSum]
) -> dict[str, Any]:
    by_group: dict[tuple[str | None, ...], list[CallSum]] = {}
    for each in sums:
        by_group.setdefault(each.group, []).append(each)
    items = [
        {**dict(zip(by, group, strict=True)), **asdict(call_totals(prices, parts))}
        for group, parts in by_group.items()
    ]
    items.sort(key=lambda item: (-(item["cost_usd"] or 0), -item["calls"], _names(item, by)))
    total = asdict(call_totals(prices, sums))
    return {"batch": batch, "by": list(by), "items": items, "sum": total}


def call_totals(prices: PriceTable, parts: Sequence[CallSum]) -> CallTotals:
    """Add up sums of calls, those without a stated cost at the prices of their days."""
    priced = [(each, _cost(prices, each)) for each in parts if each.to_price.calls]
    calculated = [(each.to_price.calls, cost) for each, cost in priced if cost is not None]
    costs = [*(each.stated_usd for each in parts), *(cost for _, cost in calculated)]
    return CallTotals(
        calls=sum(each.calls for each in parts),
        failures=sum(each.failures for each in parts),
        billable_calls=sum(each.used for each in parts),
        tokens_known_calls=sum(each.counted for each in parts),
        cost_known_calls=sum(each.stated for each in parts) + sum(count for count, _ in calculated),
        special_calls=sum(each.special for each in parts),
        input_tokens=sum_known(each.tokens.inputs for each in parts),
        output_tokens=sum_known(each.tokens.outputs for each in parts),
        total_tokens=sum_known(each.tokens.total for each in parts),
        cost_usd=sum_known(costs),
        seconds=sum_known(each.seconds for each in parts),
    )


def _one_price_each(prices: PriceTable, sums: Sequence[CallSum]) -> bool:
    return all(
        prices.holds(each.upstream, each.model, each.day, above=each.to_price.above)
        for each in sums
        if each.to_price.calls
    )


def _cost(prices: PriceTable, each: CallSum) -> float | None:
    unpriced = each.to_price
    return prices.of_sums(
        each.upstream,
        each.model,
        each.day,
        calls=unpriced.calls,
        inputs=unpriced.inputs or 0,
        cached=unpriced.cached or 0,
        written=unpriced.written or 0,
        outputs=unpriced.outputs or 0,
        above=unpriced.above,
    )


def _names(item: dict[str, Any], by: Sequence[str]) -> list[str]:
    return [item[name] or "" for name in by]


# --- runs: who starts a batch's rollouts --------------------------------------------------------


async def begin_run(service: Service, batch: str, run: str) -> dict[str, Any]:
    """Record that a run of a batch begins: it starts rollouts."""
    begin = service.database.runs.begin
    runs, ended = await service.run(begin, batch, run, now=service.now())
    return {"batch": batch, "open_runs": runs.open, "ended": ended}


async def end_run(service: Service, batch: str, run: str | None) -> dict[str, Any]:
    """Record that a run of a batch is over, or all of them.

    Raises:
        Refusal: 404 for a batch of which there is neither a rollout nor a run.
    """
    stored = service.database.runs
    if not await service.run(stored.any_of, batch):
        raise await unknown_batch(service, batch)
    runs, ended = await service.run(stored.end, batch, run, now=service.now())
    return {"batch": batch, "open_runs": runs.open, "ended": ended}
