"""Data of the dashboard beyond REST: batches at a glance, timelines, earlier runs, tasks."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from classifier.batches import RewardSpan, TaskRepeat, by_number, task_repeats
from classifier.figures import figures_of
from classifier.groups import Member, TaskTotal
from proxy.control import batches
from proxy.control.listing import reported_in, rollout_rows
from proxy.control.queries import Service, run_in_thread
from proxy.control.upstreams import STEPS, Facts, Timeline, build_timeline
from proxy.store import statistics
from proxy.store.batches import newest
from proxy.store.listing import ITEM
from proxy.store.statistics import InFlight, ServiceCounts
from proxy.store.tables import verdicts
from truezero.models.batches import ListParameters

BATCHES = 20  # on one page
NAMELESS_S = 3600  # within which calls that named no rollout are counted

Row = TypeVar("Row")
Item = TypeVar("Item")

_LISTED = (
    *ITEM,
    verdicts.c.held_s,
    verdicts.c.verdict,
)
_FROM_VERDICT = (
    "error", "rule", "doomed", "failed_requests", "total_requests", "recovered_requests", "retry",
    "references",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPage(Generic[Item]):
    """One page of many: ``number`` from 1, ``total`` items in all."""

    items: Sequence[Item]
    number: int
    size: int
    total: int

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, math.ceil(self.total / self.size))

    @property
    def first(self) -> int:
        """The number of the first item on the page, from 1; 0 on an empty page."""
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last(self) -> int:
        """The number of the last item on the page."""
        return (self.number - 1) * self.size + len(self.items)


class ListedBatch(NamedTuple):
    """A batch as a list selects and sorts it; ``last_at``: when its last rollout began."""

    name: str
    last_at: float
    state: batches.BatchState

    @property
    def valid(self) -> bool:
        """True if it is a valid measurement."""
        return self.state.summary.check.valid

    @property
    def running(self) -> int:
        """Its rollouts that have not ended."""
        return self.state.counts["running"]


class BatchOrder(StrEnum):
    """The value by which batches are ordered; those alike are the newest first."""

    NAME = "batch"
    SCORE = "score"
    MEASURED = "measured"
    ZEROS = "zeros"
    COST = "cost"
    LAST = "last"


class BatchKind(StrEnum):
    """The batches that a list shows."""

    ALL = "all"
    INVALID = "invalid"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesPage(NumberedPage[Facts]):
    """One page of a view of the newest batches.

    ``counts`` are the batches of each kind, of which the view has the ``looked_at`` newest.
    ``earlier`` has for each batch of the page those before it in its series (`series_of`), oldest
    first, with their scores over measured repeats (None if there are none). ``measured``,
    ``repeats``, ``false_zeros``, ``zeros``, ``cost_usd`` (None: no batch has a cost) and
    ``unpriced`` (calls in no cost) are of all batches of the view. ``beside`` is counted over the
    whole service, ``refused`` are requests that were refused, by code: no verdict has them.
    """

    counts: Mapping[BatchKind, int]
    looked_at: int
    earlier: Mapping[str, Sequence[tuple[str, float | None]]]
    beside: ServiceCounts
    refused: Mapping[str, int]
    measured: int
    repeats: int
    false_zeros: int
    zeros: int
    cost_usd: float | None
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """The filter of a list of batches: a kind, and names that have all words of a text.

    ``among``: names that the list consists of; None: of any.
    """

    kind: BatchKind = BatchKind.ALL
    among: Collection[str] | None = None
    order: BatchOrder = BatchOrder.LAST
    descending: bool = True
    text: str = ""


async def known_batches(service: Service) -> list[ListedBatch]:
    """Return the newest batches, as many as `newest_batches` lists."""
    rows = await service.read(newest, limit=_NEWEST)
    states = await batches.states(service, [row["batch"] for row in rows])
    return [
        ListedBatch(row["batch"], row["last_at"], states[row["batch"]])
        for row in rows
        if row["batch"] in states
    ]


def batches_in(known: Sequence[ListedBatch], query: BatchQuery) -> list[ListedBatch]:
    """Return the batches of a view in its order."""
    words = query.text.casefold().split()
    view = [
        each
        for each in known
        if _KINDS[query.kind](each)
        and (query.among is None or each.name in query.among)
        and all(word in each.name.casefold() for word in words)
    ]
    if query.order is not BatchOrder.LAST or not query.descending:
        view = sort_known(view, _BATCH_VALUES[query.order], descending=query.descending)
    return view


_ALL_BATCHES = BatchQuery()


async def batch_page(
    service: Service, number: int = 1, query: BatchQuery = _ALL_BATCHES
) -> BatchesPage:
    """Return a page of a list of batches with their summaries; ``number`` counts from 1."""
    return await service.run(_batch_page, service, await known_batches(service), number, query)


def _batch_page(
    service: Service, known: Sequence[ListedBatch], number: int, query: BatchQuery
) -> BatchesPage:
    view = batches_in(known, query)
    begin = (number - 1) * BATCHES
    shown = view[begin : begin + BATCHES]
    summed = [each.state.summary for each in view]
    costs = [each.cost_usd for each in summed if each.cost_usd is not None]
    scores = {each.name: each.state.summary.scores.score_effective for each in known}
    before = _earlier(list(scores), [each.name for each in shown])
    since = service.now() - NAMELESS_S
    return BatchesPage(
        items=batch_rows(shown),
        number=number,
        size=BATCHES,
        total=len(view),
        counts={each: sum(map(is_of, known)) for each, is_of in _KINDS.items()},
        looked_at=len(known),
        earlier={
            batch: [(name, scores[name]) for name in names] for batch, names in before.items()
        },
        measured=sum(each.scores.scored for each in summed),
        repeats=sum(each.parts.planned for each in summed),
        false_zeros=sum(each.zeros.not_measured for each in summed),
        zeros=sum(each.zeros.reported for each in summed),
        cost_usd=math.fsum(costs) if costs else None,
        unpriced=sum((each.calls or 0) - (each.cost_known_calls or 0) for each in summed),
        beside=service.database.read(statistics.service_counts, nameless_since=since),
        refused=dict(sorted(service.refused_calls().items())),
    )


def batch_rows(view: Sequence[ListedBatch]) -> list[Facts]:
    """Return the figures of the batches of a view, and if each is ``valid``."""
    return [
        {
            "batch": each.name,
            "last_at": each.last_at,
            "summary": {**figures_of(each.state), "valid": each.valid},
        }
        for each in view
    ]


_KINDS: Mapping[BatchKind, Callable[[ListedBatch], bool]] = {
    BatchKind.ALL: lambda _: True,
    BatchKind.INVALID: lambda each: not each.valid and not each.running,
    BatchKind.RUNNING: lambda each: bool(each.running),
}


def sort_known(rows: Iterable[Row], value: Callable[[Row], Any], *, descending: bool) -> list[Row]:
    """Sort rows by a value of each, those without one last; alike ones stay in order."""
    given = list(rows)
    known = [each for each in given if value(each) is not None]
    known.sort(key=value, reverse=descending)
    return [*known, *(each for each in given if value(each) is None)]


async def in_flight(service: Service, batch: str) -> InFlight:
    """Count a batch's calls in flight, and tell when the oldest began."""
    return await service.read(statistics.in_flight, batch)


async def batch_detail(service: Service, batch: str) -> Facts:
    """Return a batch's summary, check, reruns and calls in flight.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    return {
        **await batches.overview(service, batch),
        "in_flight": await in_flight(service, batch),
    }


async def timeline(service: Service, batch: str) -> Timeline | None:
    """Return a batch's calls over time in about sixty steps; None if none has ended."""
    state = await service.read(statistics.pulse, batch=batch)
    points: Timeline | None = service.timelines.current(batch, state)
    if points is None:
        points = await _read_timeline(service, batch)
        if points is not None:
            service.timelines.store(batch, state, points)
    return points


async def _read_timeline(service: Service, batch: str) -> Timeline | None:
    span = await service.read(statistics.call_span, batch)
    if span is None:
        return None
    fine = max(1, math.ceil((span[1] - span[0]) / STEPS))  # from the first to the last call
    fine, rows = await service.read(statistics.calls_over_time, batch, step_s=fine)
    return build_timeline(rows, fine, bars=60) if rows else None


async def judged_rollouts(
    service: Service, parameters: ListParameters, *, fresh: bool = False, asked: bool = False
) -> tuple[Sequence[Facts], str | None]:
    """Return a page of rollouts with their verdicts, and the cursor of the next one.

    Arguments:
        fresh: stale verdicts were refreshed just before.
        asked: each has ``asked`` too, the proxy's own questions beside its failed calls: as in
            ``references`` of its verdict, with the ``model`` asked (None if it is deleted).
    """
    rows, following = await rollout_rows(service, parameters, columns=_LISTED, fresh=fresh)
    items = list(map(_rollout_item, rows))
    if not asked:
        return items, following
    of_each = [{each["series"]: each for each in item["references"] or ()} for item in items]
    models = await service.run(service.database.references.models_of, {*chain(*of_each)})
    return [
        {**item, "asked": [{**each, "model": models.get(name)} for name, each in of_one.items()]}
        for item, of_one in zip(items, of_each, strict=True)
    ], following


def _rollout_item(row: Facts) -> Facts:
    """Return a rollout as a list shows it, with the main fields of its verdict."""
    verdict = json.loads(row["verdict"]) if row["verdict"] else {}
    shown = {name: verdict.get(name) for name in _FROM_VERDICT}
    return {**row, **shown, "reported_reward": reported_in(row)}


# --- series: runs of the same evaluation, by their batches' names ------------------------------


_SEPARATOR = r"[-_./:@# ]+"
_DATE = r"\d{4}-?[01]\d-?[0-3]\d(?:[T_ -]?[0-2]\d[:.-]?[0-5]\d(?:[:.-]?[0-5]\d)?Z?)?"
_COMMIT = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}"
_COUNTED = r"(?:build|checkpoint|ckpt|epoch|iter|iteration|job|night|nightly|run|seed|step)"
# The end of a name that distinguishes one run from the next. A number alone does not: it may
# be a model's version.
_LAST = re.compile(
    rf"(?:(?:{_SEPARATOR}|^)(?:{_DATE}|{_COMMIT}|\d{{5,}})|(?<=[a-z])#\d+"
    rf"|((?:^|{_SEPARATOR}){_COUNTED}){_SEPARATOR.replace('+', '*')}\d+)$",
    re.IGNORECASE,
)


def series_of(batch: str) -> str:
    """Return a batch's name without the date, commit or number of its run.

    ``nightly-2026-11-21`` and ``nightly-2026-11-22`` are one series, ``step-7`` and ``step-8``
    another; ``gpt-4`` and ``gpt-5`` are two.
    """
    name, before = batch, ""
    while name != before:
        before, name = name, _LAST.sub(r"\1", name)
    return name


# --- pages of one batch ------------------------------------------------------------------------


TASKS = 100  # on one page
_NEWEST = 300  # batches among which the earlier ones of a series are looked for
_EARLIER = 12  # of them on a sparkline


class TaskRow(NamedTuple):
    """One task: its totals, its slots in the order of their repeats, and its members by id."""

    total: TaskTotal
    slots: Sequence[TaskRepeat]
    members: Mapping[str, Member]


class TaskOrder(StrEnum):
    """The value by which a batch's tasks are ordered; those alike are by their names.

    By ``measured`` those come first of which most repeats have no score.
    """

    NAME = "task"
    SCORE = "score"
    MEASURED = "measured"
    REPEATS = "repeats"


class TaskKind(StrEnum):
    """The tasks that a page lists; ZERO and ONE have the least and the greatest possible score."""

    ALL = "all"
    GAPS = "gaps"
    NONE = "none"
    ZERO = "zero"
    BETWEEN = "between"
    ONE = "one"


class ScoreRange(NamedTuple):
    """Scores from ``low`` to below ``high``; without one of them (None) also all beyond."""

    low: float | None
    high: float | None

    def holds(self, score: float | None) -> bool:
        """Return True for a score that is known, and in it."""
        if score is None or (self.low is not None and score < self.low):
            return False
        return self.high is None or score < self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """The view of a batch's tasks: a kind, scores (None: any), a part of names, and an order."""

    kind: TaskKind = TaskKind.ALL
    scores: ScoreRange | None = None
    text: str = ""
    order: TaskOrder = TaskOrder.MEASURED
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPage(NumberedPage[TaskRow]):
    """One page of a batch's tasks.

    ``counts`` are the tasks of each kind; ``repeats``, ``measured`` and ``score`` (the mean over
    tasks, None without any) are of all ``total`` tasks of the view. ``every`` task of the batch is
    in the order of their names. ``rewards`` is the span of the batch's.
    """

    counts: Mapping[TaskKind, int]
    repeats: int
    measured: int
    score: float | None
    every: Sequence[TaskTotal]
    rewards: RewardSpan


async def batch_before(service: Service, batch: str) -> tuple[str, float] | None:
    """Return the run before a batch in its series (`series_of`), and its score.

    None if there is none, or it has no score.
    """
    earlier = _earlier(await newest_batches(service), [batch])[batch]
    means = await batches.mean_scores(service, earlier[-1:])
    return next(iter(means.items()), None)


async def newest_batches(service: Service) -> list[str]:
    """List the newest batches' names."""
    return [row["batch"] for row in await service.read(newest, limit=_NEWEST)]


_ALL_TASKS = TaskQuery()


async def task_page(
    service: Service, batch: str, number: int = 1, query: TaskQuery = _ALL_TASKS
) -> TasksPage:
    """Return a page of a batch's tasks, with every attempt at every repeat.

    Arguments:
        number: of the page, from 1.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    every = await batches.task_totals(service, batch)
    rewards = await batches.rewards(service, batch)
    view = await run_in_thread(tasks_in, every, rewards.bounds, query)
    begin = (number - 1) * TASKS
    shown = view[begin : begin + TASKS]
    scored = [each.score for each in view if each.score is not None]
    return TasksPage(
        items=await task_rows(service, batch, shown),
        number=number,
        size=TASKS,
        total=len(view),
        counts=await run_in_thread(_kinds, every, rewards.bounds),
        repeats=sum(each.repeats for each in view),
        measured=sum(each.measured for each in view),
        score=math.fsum(scored) / len(scored) if scored else None,
        every=every,
        rewards=rewards,
    )


async def task_rows(service: Service, batch: str, totals: Sequence[TaskTotal]) -> list[TaskRow]:
    """Return tasks of a batch with every attempt at every repeat; not those deleted meanwhile."""
    names = [each.task for each in totals]
    members = (await service.run(service.database.tasks.of_tasks, batch, names)).members
    return [_row(each, members[each.task]) for each in totals if each.task in members]


async def listed_tasks(service: Service, batch: str, query: TaskQuery) -> Sequence[TaskTotal]:
    """Return the totals of all tasks of a view, as `task_page` orders them.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    every = await batches.task_totals(service, batch)
    bounds = (await batches.rewards(service, batch)).bounds
    return await run_in_thread(tasks_in, every, bounds, query)


def tasks_in(
    every: Sequence[TaskTotal], bounds: tuple[float, float] | None, query: TaskQuery
) -> list[TaskTotal]:
    """Return the tasks of a view in its order; exactly the task of that name comes first.

    Those without a score come last by score.

    Arguments:
        every: task in the order of their names, in which alike ones stay.
        bounds: the least and the greatest possible reward; None: no task is of a kind by score.
    """
    wanted, scores = query.text.strip().casefold(), query.scores
    view = [
        each
        for each in every
        if (query.kind is TaskKind.ALL or query.kind in _kinds_of(each, bounds))
        and (scores is None or scores.holds(each.score))
        and (not wanted or wanted in each.task.casefold())
    ]
    if query.order is not TaskOrder.NAME:
        view = sort_known(view, _VALUES[query.order], descending=query.descending)
    elif query.descending:
        view.reverse()
    if wanted:
        view.sort(key=lambda each: each.task.casefold() != wanted)
    return view


def _kinds(
    every: Sequence[TaskTotal], bounds: tuple[float, float] | None
) -> Mapping[TaskKind, int]:
    found = Counter(kind for each in every for kind in _kinds_of(each, bounds))
    return {kind: found[kind] for kind in TaskKind} | {TaskKind.ALL: len(every)}


def _kinds_of(task: TaskTotal, bounds: tuple[float, float] | None) -> Iterator[TaskKind]:
    """Yield the kinds that a task is of, beside all of them."""
    if task.measured < task.repeats:
        yield TaskKind.GAPS
    if (score := task.score) is None:
        yield TaskKind.NONE
    elif bounds is not None:
        low, high = bounds
        if score <= low:
            yield TaskKind.ZERO
        if score >= high:
            yield TaskKind.ONE
        elif score > low:
            yield TaskKind.BETWEEN


_BATCH_VALUES: Mapping[BatchOrder, Callable[[ListedBatch], Any]] = {
    BatchOrder.NAME: lambda each: batches.by_name(each.name),
    BatchOrder.SCORE: lambda each: each.state.summary.scores.score_effective,
    BatchOrder.MEASURED: lambda each: each.state.summary.scores.scored,
    BatchOrder.ZEROS: lambda each: each.state.summary.zeros.not_measured,
    BatchOrder.COST: lambda each: each.state.summary.cost_usd,
    BatchOrder.LAST: lambda each: each.last_at,
}
_VALUES: Mapping[TaskOrder, Callable[[TaskTotal], Any]] = {
    TaskOrder.SCORE: lambda each: each.score,
    TaskOrder.MEASURED: lambda each: each.measured - each.repeats,
    TaskOrder.REPEATS: lambda each: each.repeats,
}


def _earlier(newest: Sequence[str], batches: Sequence[str]) -> dict[str, list[str]]:
    """Return by batch the names of those before it in its series, oldest first."""
    series: dict[str, list[str]] = {}
    for name in reversed(newest):
        series.setdefault(series_of(name), []).append(name)
    earlier: dict[str, list[str]] = {}
    for name in batches:
        same = series.get(series_of(name), [])
        place = same.index(name) if name in same else 0
        earlier[name] = same[max(0, place - _EARLIER) : place]
    return earlier


def _row(total: TaskTotal, members: Sequence[Member]) -> TaskRow:
    by_id = {member.entry.rollout_id: member for member in members}
    repeats = task_repeats(member.entry for member in by_id.values())
    return TaskRow(total, sorted(repeats, key=by_number), by_id)
