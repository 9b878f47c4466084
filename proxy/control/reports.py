"""Reports on batches: comparison, repeats to run again, usage and cost, groups for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection

from classifier.reruns import (
    Rerun,
    RerunItem,
    RerunReason,
    UnscoredRepeat,
    never_started,
    to_rerun,
)
from classifier.totals import sum_known
from classifier.verdicts import Policy
from proxy.control.judge import current_version
from proxy.control.pricing import PriceTable
from proxy.control.queries import (
    Service,
    cursor_name,
    cursor_number,
    cursor_whole,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
    unknown_batch,
)
from proxy.store import groups, statistics
from proxy.store.batch_versions import BatchVersion
from proxy.store.batches import CallSum, call_sums, usage_sums
from proxy.store.groups import SlotCursor

# --- repeats to run again ----------------------------------------------------------------------


_ITEM = tuple(field.name for field in fields(RerunItem))

Items: TypeAlias = dict[RerunReason, list[dict[str, Any]]]


class RepeatCursor(NamedTuple):
    """The place of a repeat that was never started: after all others, by task and number."""

    task: str
    repeat: int


class Totals(NamedTuple):
    """The number of repeats that run, and of those to run again by reason."""

    running: int
    counts: Mapping[RerunReason, int]


class PageCursor(NamedTuple):
    """The item before a page, and the version of the batch that the pages before it counted."""

    version: int
    began_at: float
    item: SlotCursor | RepeatCursor


async def rerun(service: Service, batch: str) -> dict[str, Any]:
    """Sort the repeats without a score by the action that each needs.

    Returns:
        The response to `GET /batches/{id}/rerun` with everything in it.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await current_version(service, batch)
    cached = service.reruns.current(batch, version)
    if cached is not None:
        return cached
    reruns = await service.read(_all, batch, service.policy)
    service.reruns.store(batch, version, reruns)
    return reruns


async def rerun_page(
    service: Service, batch: str, *, after: str | None, limit: int
) -> dict[str, Any]:
    """Return the same with the items of one page; counts are over everything.

    Counts are made once for all pages that follow the first, however fast the batch changes.

    Arguments:
        after: the `next` of the page before.

    Raises:
        Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
    """
    begin = None if after is None else _read_cursor(after)
    version = await current_version(service, batch)
    version, totals = await _totals(service, batch, version, begin)
    before = None if begin is None else begin.item
    items, following = await service.read(_rerun_page, batch, service.policy, before, limit)
    counts = dict(totals.counts)
    for reason, listed in items.items():  # some may be newer than the counts
        counts[reason] = max(counts.get(reason, 0), len(listed))
    next_cursor = None if following is None else _cursor(version, following)
    return {**_reruns(batch, totals.running, counts, items), "next": next_cursor}


async def _totals(
    service: Service, batch: str, version: BatchVersion, begin: PageCursor | None
) -> tuple[BatchVersion, Totals]:
    """Return the counts of a version: of this one, or one since the first page was read."""
    cached: tuple[BatchVersion, Totals] | None = service.rerun_counts.get(batch)
    if cached is not None and _serves(cached[0], version, begin):
        return cached
    totals = await service.read(_count, batch, service.policy)
    service.rerun_counts.store(batch, version, totals)
    return version, totals


def _serves(cached: BatchVersion, now: BatchVersion, begin: PageCursor | None) -> bool:
    if begin is None or begin.began_at != now.began_at:
        return cached == now
    return cached.began_at == now.began_at and cached.number >= begin.version


def _listed(
    connection: Connection, batch: str, policy: Policy, after: SlotCursor | RepeatCursor | None
) -> Iterator[tuple[SlotCursor | RepeatCursor, UnscoredRepeat]]:
    """Yield the repeats without a score: started ones, oldest first, then those never started."""
    since, repeat = after if isinstance(after, RepeatCursor) else ("", -1)
    if not isinstance(after, RepeatCursor):
        for cursor, attempts in groups.unscored(connection, batch, after=after):
            yield cursor, to_rerun(attempts, policy)
    for task in groups.lacking(connection, batch, since=since):
        for unscored in never_started(task, after=repeat if task.task == since else -1):
            yield RepeatCursor(task.task, unscored.item.repeat or 0), unscored


def _count(connection: Connection, batch: str, policy: Policy) -> Totals:
    listed = _listed(connection, batch, policy, None)
    counts = Counter(unscored.reason for _, unscored in listed)
    running = counts.pop(None, 0)
    return Totals(running, {reason: n for reason, n in counts.items() if reason is not None})


def _all(connection: Connection, batch: str, policy: Policy) -> dict[str, Any]:
    running, items = 0, Items()
    for _, (reason, item) in _listed(connection, batch, policy, None):
        if reason is None:
            running += 1
        else:
            items.setdefault(reason, []).append(_encoded(item))
    counts = {reason: len(several) for reason, several in items.items()}
    return {**_reruns(batch, running, counts, items), "next": None}


def _rerun_page(
    connection: Connection,
    batch: str,
    policy: Policy,
    after: SlotCursor | RepeatCursor | None,
    limit: int,
) -> tuple[Items, SlotCursor | RepeatCursor | None]:
    """Return the items of a page, and the cursor of the last one if more follow."""
    listed = _listed(connection, batch, policy, after)
    waiting = ((cursor, each) for cursor, each in listed if each.reason is not None)
    items, last = Items(), after
    for cursor, (reason, item) in islice(waiting, limit):
        assert reason is not None
        items.setdefault(reason, []).append(_encoded(item))
        last = cursor
    return items, last if next(waiting, None) is not None else None


def _encoded(item: RerunItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _ITEM}


def _reruns(
    batch: str,
    running: int,
    counts: Mapping[RerunReason, int],
    items: Mapping[RerunReason, Sequence[dict[str, Any]]],
) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {kind.value: {"count": 0, "groups": []} for kind in Rerun}
    for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0].cause)):
        of_kind = kinds[reason.kind]
        of_kind["count"] += count
        of_kind["groups"].append(
            {
                "cause": reason.cause,
                "fix": reason.fix,
                "items": items.get(reason, []),
                "count": count,
            }
        )
    return {"batch": batch, "running": running, **kinds}


def _cursor(version: BatchVersion, item: SlotCursor | RepeatCursor) -> str:
    started = isinstance(item, SlotCursor)
    return encode_cursor([version.number, version.began_at, started, *item])


def _read_cursor(cursor: str) -> PageCursor:
    try:
        version, began_at, started, one, other = decode_cursor(cursor)
        item = (
            SlotCursor(cursor_number(one), cursor_name(other))
            if started
            else RepeatCursor(cursor_name(one), cursor_whole(other))
        )
        return PageCursor(cursor_whole(version), cursor_number(began_at), item)
    except (ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None


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
        raise unknown_batch(batch)
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


# --- groups for reinforcement learning ---------------------------------------------------------
# A batch's rollouts by task, over measured repeats.


async def begin_run(service: Service, batch: str, run: str) -> dict[str, Any]:
    """Record that a run of a batch begins: it starts rollouts."""
    begin = service.database.groups.begin
    runs, ended = await service.run(begin, batch, run, now=service.now())
    return {"batch": batch, "open_runs": runs.open, "ended": ended}


async def end_run(service: Service, batch: str, run: str | None) -> dict[str, Any]:
    """Record that a run of a batch is over, or all of them.

    Raises:
        Refusal: 404 for a batch of which there is neither a rollout nor a run.
    """
    stored = service.database.groups
    if not await service.run(stored.any_of, batch):
        raise unknown_batch(batch)
    runs, ended = await service.run(stored.end, batch, run, now=service.now())
    return {"batch": batch, "open_runs": runs.open, "ended": ended}
