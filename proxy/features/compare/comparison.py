"""Two batches compared task by task, once for each state that they are in."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from classifier.batches import RewardSpan, Scores, by_number, task_repeats
from classifier.groups import BatchComparison, TaskChange, TaskTotal, compare_batches
from proxy.control.batches import rewards, scores, task_totals
from proxy.control.judge import current_version
from proxy.control.queries import (
    Service,
    VersionedCache,
    invalid_cursor,
    unknown_batch,
)
from proxy.features.compare import store
from proxy.store import statistics
from proxy.store.batch_versions import BatchVersion

_ROUNDING = 1e-9
_MOST_TIMES = 100.0  # as wide as this an interval may be beside its difference
_OF_BATCH = ("total", "scoreable", "scored", "coverage", "score_effective", "score_ci")


class ComparedBatches(NamedTuple):
    """Two batches compared, and each by itself; ``without_task`` are rollouts that name none.

    ``rewards`` is the span of those of both.
    """

    a: Scores
    b: Scores
    rewards: RewardSpan
    without_task: int
    comparison: BatchComparison


class Comparisons(
    VersionedCache[tuple[str, str], tuple[BatchVersion, BatchVersion], ComparedBatches]
):
    """The comparisons that were made last, each for one state of its two batches."""

    def __init__(self) -> None:
        super().__init__(limit=8)


async def compare(service: Service, a: str, b: str) -> ComparedBatches:
    """Compare batch ``b`` with batch ``a``, once for each state that they are in.

    It reads a row for each task, and no rollouts.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    versions = await current_version(service, a), await current_version(service, b)
    made = service.state(Comparisons)
    if (cached := made.current((a, b), versions)) is not None:
        return cached
    first, second = await task_totals(service, a), await task_totals(service, b)
    spans = await rewards(service, a), await rewards(service, b)
    compared = ComparedBatches(
        await scores(service, a),
        await scores(service, b),
        _span_of_both(*spans),
        await service.read(store.without_task, a) + await service.read(store.without_task, b),
        await service.run(compare_batches, first, second),
    )
    made.store((a, b), versions, compared)
    return compared


def _span_of_both(one: RewardSpan, other: RewardSpan) -> RewardSpan:
    """Return the span of the rewards of two batches; a range only if both registered one."""
    least = [each.least for each in (one, other) if each.least is not None]
    greatest = [each.greatest for each in (one, other) if each.greatest is not None]
    ranges = [each.registered for each in (one, other) if each.registered is not None]
    both = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
    return RewardSpan(
        min(least, default=None), max(greatest, default=None), both if len(ranges) == 2 else None
    )


def by_one_repeat(task: TaskChange, reach: float | None) -> bool:
    """Return True if another reward of a single repeat could have made a task's difference.

    Arguments:
        reach: the greatest reward less the least; None: nobody knows what one repeat can do.
    """
    if reach is None or task.difference is None or task.a is None or task.b is None:
        return False
    return abs(task.difference) * min(task.a.measured, task.b.measured) <= reach + _ROUNDING


def tasks_needed(comparison: BatchComparison) -> int | None:
    """Return about how many tasks would tell a difference as this one from chance.

    Its interval narrows with the root of their number. None if the difference is told from chance
    already, is none, or is so small that no number of tasks is worth saying.
    """
    value, interval = comparison.difference, comparison.difference_ci
    if not value or interval is None or not interval[0] <= 0 <= interval[1]:
        return None
    times = (interval[1] - interval[0]) / 2 / abs(value)
    return math.ceil(comparison.compared * times**2) if 1 < times < _MOST_TIMES else None


async def comparison_page(
    service: Service,
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
    compared = await compare(service, a, b)
    comparison = compared.comparison
    tasks: Sequence[TaskChange] = [
        each for each in comparison.tasks if not changes or each.change in changes
    ]
    begin = _tasks_up_to(tasks, after)
    shown = tasks[begin : begin + limit]
    names = [each.task for each in shown]
    first = await service.read(_counted_ids, a, names)
    second = await service.read(_counted_ids, b, names)
    return {
        "a": _of_batch(a, compared.a),
        "b": _of_batch(b, compared.b),
        "compared": comparison.compared,
        "score_a": comparison.score_a,
        "score_b": comparison.score_b,
        "difference": comparison.difference,
        "difference_ci": comparison.difference_ci,
        "counts": comparison.counts,
        "without_task": compared.without_task,
        "tasks": [
            {
                **each._asdict(),
                "a": _of_task(each.a, first.get(each.task, ())),
                "b": _of_task(each.b, second.get(each.task, ())),
            }
            for each in shown
        ],
        "next": shown[-1].task if begin + limit < len(tasks) else None,
    }


def _counted_ids(connection: Connection, batch: str, tasks: Sequence[str]) -> dict[str, list[str]]:
    """Return the attempts that count of some tasks, by the numbers of their repeats."""
    counted: dict[str, list[str]] = {}
    repeats = task_repeats(store.entries(connection, batch, tasks))
    for slot in sorted(repeats, key=by_number):
        counted.setdefault(slot.counted.task or "", []).append(slot.counted.rollout_id)
    return counted


def _tasks_up_to(tasks: Sequence[TaskChange], after: str | None) -> int:
    if after is None:
        return 0
    for place, each in enumerate(tasks, 1):
        if each.task == after:
            return place
    raise invalid_cursor()


def _of_batch(name: str, scored: Scores) -> dict[str, Any]:
    return {"batch": name, **{field: getattr(scored, field) for field in _OF_BATCH}}


def _of_task(total: TaskTotal | None, rollout_ids: Sequence[str]) -> dict[str, Any]:
    """Return a task's score in one batch, with the ``rollout_ids`` that count."""
    return {
        "score": total and total.score,
        "measured": total.measured if total else 0,
        "repeats": len(rollout_ids),
        "rollout_ids": rollout_ids,
    }


async def older_first(service: Service, one: str, other: str) -> tuple[str, str]:
    """Return two batches, the one that began first before the other.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    first = await _began(service, one)
    return (one, other) if first <= await _began(service, other) else (other, one)


async def _began(service: Service, batch: str) -> float:
    span = await service.read(statistics.span, batch)
    if span is None:
        raise await unknown_batch(service, batch)
    return span[0]
