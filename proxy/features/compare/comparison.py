"""Two batches compared task by task, once for each state that they are in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from classifier.batches import Scores, by_number, task_repeats
from classifier.groups import BatchComparison, TaskChange, TaskTotal, compare_batches
from proxy.control.batches import scores, task_totals
from proxy.control.judge import current_version
from proxy.control.queries import (
    Service,
    VersionedCache,
    invalid_cursor,
    run_in_thread,
    unknown_batch,
)
from proxy.features.compare import store
from proxy.store import statistics
from proxy.store.batch_versions import BatchVersion

_OF_BATCH = ("total", "scoreable", "scored", "coverage", "score_effective", "score_ci")


class ComparedBatches(NamedTuple):
    """Two batches compared, and each by itself; ``without_task`` are rollouts that name none."""

    a: Scores
    b: Scores
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
    compared = ComparedBatches(
        await scores(service, a),
        await scores(service, b),
        await service.read(store.without_task, a) + await service.read(store.without_task, b),
        await service.run(compare_batches, first, second),
    )
    made.store((a, b), versions, compared)
    return compared


async def comparison_page(
    service: Service,
    a: str,
    b: str,
    *,
    changes: Collection[str] = (),
    ordered: Callable[[Sequence[TaskChange]], Sequence[TaskChange]] | None = None,
    after: str | None = None,
    limit: int = 1000,
) -> dict[str, Any]:
    """Return the response to `GET /compare`: the numbers, and a page of tasks.

    Arguments:
        changes: only tasks with one of these changes; empty takes all.
        ordered: chooses and sorts them further; without it they stand by their change.
        after: the `next` of the page before.

    Raises:
        Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
    """
    compared = await compare(service, a, b)
    comparison = compared.comparison
    tasks: Sequence[TaskChange] = [
        each for each in comparison.tasks if not changes or each.change in changes
    ]
    if ordered is not None:
        tasks = await run_in_thread(ordered, tasks)
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
