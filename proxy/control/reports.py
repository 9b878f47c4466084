"""Reports on batches: comparison, repeats to run again, usage and cost, groups for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection

from classifier.batches import Entry, Scores, scores, slots
from classifier.groups import BatchComparison, Method, TaskChange, compare_batches, group
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
from proxy.control import judge
from proxy.control.judge import current_version
from proxy.control.pricing import PriceTable
from proxy.control.queries import (
    PAGE,
    Service,
    VersionedCache,
    cursor_name,
    cursor_number,
    cursor_whole,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
    unknown_batch,
)
from proxy.store import groups, statistics
from proxy.store.batches import BatchVersion, CallSum, call_sums, usage_sums
from proxy.store.database import Database
from proxy.store.groups import SlotPlace, Tasks

_CACHED = 8  # comparisons kept until something happens in one of their batches
_OF_BATCH = ("total", "scoreable", "scored", "coverage", "score_effective", "score_ci")


class ComparedBatches(NamedTuple):
    """Two batches compared, and each by itself."""

    a: Scores
    b: Scores
    comparison: BatchComparison


class ComparisonService:
    """Compares batches, once for each state that they are in."""

    def __init__(self, *, queries: Service) -> None:
        self._queries = queries
        self._kept = VersionedCache[
            tuple[str, str], tuple[BatchVersion, BatchVersion], ComparedBatches
        ](_CACHED)

    async def compare(self, a: str, b: str) -> ComparedBatches:
        """Compare batch ``b`` with batch ``a``.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        versions = (
            await current_version(self._queries, a),
            await current_version(self._queries, b),
        )
        kept = self._kept.current((a, b), versions)
        if kept is not None:
            return kept
        first = await self._queries.read(groups.entries, a)
        second = await self._queries.read(groups.entries, b)
        compared = await self._queries.run(_compared, first, second)
        self._kept.store((a, b), versions, compared)
        return compared

    async def page(
        self,
        a: str,
        b: str,
        *,
        changes: Collection[str] = (),
        after: str | None = None,
        limit: int = 1000,
    ) -> dict[str, Any]:
        """Return the response to `GET /compare`: the numbers, and a page of tasks.

        Arguments:
            changes: only tasks with one of these changes; empty takes all.
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
        """
        compared = await self.compare(a, b)
        return await self._queries.run(
            _comparison_page, a, b, compared, frozenset(changes), after, limit
        )


def _compared(first: Sequence[Entry], second: Sequence[Entry]) -> ComparedBatches:
    a, b = slots(first), slots(second)
    return ComparedBatches(scores(a), scores(b), compare_batches(a, b))


def _comparison_page(
    a: str,
    b: str,
    compared: ComparedBatches,
    changes: Collection[str],
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    comparison = compared.comparison
    tasks = [each for each in comparison.tasks if not changes or each.change in changes]
    begin = _task_place(tasks, after)
    shown = tasks[begin : begin + limit]
    return {
        "a": _of_batch(a, compared.a),
        "b": _of_batch(b, compared.b),
        "compared": comparison.compared,
        "score_a": comparison.score_a,
        "score_b": comparison.score_b,
        "difference": comparison.difference,
        "difference_ci": comparison.difference_ci,
        "counts": comparison.counts,
        "without_task": comparison.without_task,
        "tasks": [asdict(each) for each in shown],
        "next": shown[-1].task if begin + limit < len(tasks) else None,
    }


def _task_place(tasks: Sequence[TaskChange], after: str | None) -> int:
    if after is None:
        return 0
    for place, each in enumerate(tasks, 1):
        if each.task == after:
            return place
    raise invalid_cursor()


def _of_batch(name: str, found: Scores) -> dict[str, Any]:
    return {"batch": name, **{field: getattr(found, field) for field in _OF_BATCH}}


# --- repeats to run again ----------------------------------------------------------------------


_COUNTED = 50  # batches whose counts are kept for the pages that follow
_ITEM = tuple(field.name for field in fields(RerunItem))

Items: TypeAlias = dict[RerunReason, list[dict[str, Any]]]


class RepeatPlace(NamedTuple):
    """The place of a repeat that was never started: behind all slots, by task and number."""

    task: str
    repeat: int


class Totals(NamedTuple):
    """The number of repeats that run, and of those to run again by reason."""

    running: int
    counts: Mapping[RerunReason, int]


class PagePlace(NamedTuple):
    """The start of a page, and the version of the batch that the pages before it counted."""

    version: int
    began_at: float
    place: SlotPlace | RepeatPlace


class RerunService:
    """Sorts what is not measured by what is to be done about it.

    Arguments:
        policy: from how many equal failures in a row on one is deterministic.
    """

    def __init__(self, *, queries: Service, policy: Policy) -> None:
        self._queries = queries
        self._policy = policy
        self._kept = VersionedCache[str, BatchVersion, dict[str, Any]](_CACHED)
        self._counted = VersionedCache[str, BatchVersion, Totals](_COUNTED)

    async def of_batch(self, batch: str) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/rerun` with everything in it.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        version = await current_version(self._queries, batch)
        kept = self._kept.current(batch, version)
        if kept is not None:
            return kept
        made = await self._queries.read(_all, batch, self._policy)
        self._kept.store(batch, version, made)
        return made

    async def page(self, batch: str, *, after: str | None, limit: int) -> dict[str, Any]:
        """Return the same with the items of one page; counts are over everything.

        Counts are made once for all pages that follow the first, however fast the batch changes.

        Arguments:
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
        """
        begin = None if after is None else _rerun_place(after)
        version = await current_version(self._queries, batch)
        version, totals = await self._totals(batch, version, begin)
        place = None if begin is None else begin.place
        found, following = await self._queries.read(_rerun_page, batch, self._policy, place, limit)
        counts = dict(totals.counts)
        for reason, items in found.items():  # some may be newer than the counts
            counts[reason] = max(counts.get(reason, 0), len(items))
        answer = _answer(batch, totals.running, counts, found)
        answer["next"] = None if following is None else _cursor(version, following)
        return answer

    async def _totals(
        self, batch: str, version: BatchVersion, begin: PagePlace | None
    ) -> tuple[BatchVersion, Totals]:
        """Return the counts of a version: of this one, or one since the first page was read."""
        kept = self._counted.get(batch)
        if kept is not None and _serves(kept[0], version, begin):
            return kept
        made = await self._queries.read(_count, batch, self._policy)
        self._counted.store(batch, version, made)
        return version, made


def _serves(kept: BatchVersion, now: BatchVersion, begin: PagePlace | None) -> bool:
    if begin is None or begin.began_at != now.began_at:
        return kept == now
    return kept.began_at == now.began_at and kept.number >= begin.version


def _listed(
    connection: Connection, batch: str, policy: Policy, after: SlotPlace | RepeatPlace | None
) -> Iterator[tuple[SlotPlace | RepeatPlace, UnscoredRepeat]]:
    """Yield what has no score: slots, the oldest first, then what was never started."""
    since, repeat = after if isinstance(after, RepeatPlace) else ("", -1)
    if not isinstance(after, RepeatPlace):
        for place, tried in groups.unscored(connection, batch, after=after):
            yield place, to_rerun(tried, policy)
    for task in groups.lacking(connection, batch, since=since):
        for found in never_started(task, after=repeat if task.task == since else -1):
            yield RepeatPlace(task.task, found.item.repeat or 0), found


def _count(connection: Connection, batch: str, policy: Policy) -> Totals:
    found = _listed(connection, batch, policy, None)
    counts = Counter(unscored.reason for _, unscored in found)
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
    return {**_answer(batch, running, counts, items), "next": None}


def _rerun_page(
    connection: Connection,
    batch: str,
    policy: Policy,
    after: SlotPlace | RepeatPlace | None,
    limit: int,
) -> tuple[Items, SlotPlace | RepeatPlace | None]:
    """Return the items of a page, and the place of the last one where more follow."""
    listed = _listed(connection, batch, policy, after)
    waiting = ((place, each) for place, each in listed if each.reason is not None)
    items, last = Items(), after
    for place, (reason, item) in islice(waiting, limit):
        assert reason is not None
        items.setdefault(reason, []).append(_encoded(item))
        last = place
    return items, last if next(waiting, None) is not None else None


def _encoded(item: RerunItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _ITEM}


def _answer(
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


def _cursor(version: BatchVersion, place: SlotPlace | RepeatPlace) -> str:
    started = isinstance(place, SlotPlace)
    return encode_cursor([version.number, version.began_at, started, *place])


def _rerun_place(cursor: str) -> PagePlace:
    try:
        version, began_at, started, one, other = decode_cursor(cursor)
        place = (
            SlotPlace(cursor_number(one), cursor_name(other))
            if started
            else RepeatPlace(cursor_name(one), cursor_whole(other))
        )
        return PagePlace(cursor_whole(version), cursor_number(began_at), place)
    except (ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None


# --- calls, tokens, cost and seconds, by model, upstream, role or task -------------------------


DEFAULT = ("model", "upstream", "role")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The totals of some calls; a total is None if no call states it.

    Of the ``calls``, ``failures`` failed, and ``billable`` used tokens, as far as is known: of
    these ``tokens_known_calls`` are in the sums of tokens, ``cost_known_calls`` in ``cost_usd``.
    ``seconds`` is the sum of the calls' durations.
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

    def __init__(self, *, queries: Service, prices: PriceTable) -> None:
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


# --- groups for reinforcement learning ---------------------------------------------------------
# A batch's rollouts by task, over what was measured.


class GroupService:
    """Groups the rollouts of a batch, and is told whether more of them come.

    Arguments:
        wall: seconds since the epoch.
    """

    def __init__(self, *, queries: Service, database: Database, wall: Callable[[], float]) -> None:
        self._queries = queries
        self._database = database
        self._wall = wall

    async def page(
        self,
        batch: str,
        *,
        method: Method,
        min_valid: int,
        settled: bool | None = None,
        task: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return the groups of a batch's next tasks, in the order of their names.

        Arguments:
            settled: leave out groups that have not settled, or those that have; a page then
                holds fewer than ``limit`` groups, and the next one follows all the same.
            task: only this task's group.
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        # First: of a batch that has ended, what is read afterwards is all there will be.
        ended = await self._queries.run(self._database.groups.ended, batch)
        found = await self._read(batch, task, after, limit + 1)
        if found.unjudged and await judge.refresh(self._queries, among=found.unjudged[:PAGE]):
            found = await self._read(batch, task, after, limit + 1)
        if not found.members and not await self._queries.run(self._database.groups.any_of, batch):
            raise unknown_batch(batch)
        page = await self._queries.run(_group_page, found, limit, method, min_valid, settled)
        return {"items": page["items"], "ended": ended, "next": page["next"]}

    async def begin(self, batch: str, run: str) -> dict[str, Any]:
        """Note that somebody starts rollouts of a batch."""
        groups = self._database.groups
        runs, ended = await self._queries.run(groups.begin, batch, run, now=self._wall())
        return {"batch": batch, "open_runs": runs.open, "ended": ended}

    async def end(self, batch: str, run: str | None) -> dict[str, Any]:
        """Note that a run of a batch is over, or all of them.

        Raises:
            Refusal: 404 for a batch of which there is neither a rollout nor a run.
        """
        groups = self._database.groups
        if not await self._queries.run(groups.any_of, batch):
            raise unknown_batch(batch)
        runs, ended = await self._queries.run(groups.end, batch, run, now=self._wall())
        return {"batch": batch, "open_runs": runs.open, "ended": ended}

    async def _read(self, batch: str, task: str | None, after: str | None, limit: int) -> Tasks:
        groups = self._database.groups
        if task is not None:
            return await self._queries.run(groups.of_task, batch, task)
        return await self._queries.run(groups.page, batch, after=after, limit=limit)


def _group_page(
    found: Tasks,
    limit: int,
    method: Method,
    min_valid: int,
    settled: bool | None,
) -> dict[str, Any]:
    tasks, over = list(found.members), found.over_at is not None
    groups = (
        group(task, found.members[task], method=method, min_valid=min_valid, ended=over)
        for task in tasks[:limit]
    )
    return {
        "items": [asdict(one) for one in groups if settled is None or one.settled == settled],
        "next": tasks[limit - 1] if len(tasks) > limit else None,
    }
