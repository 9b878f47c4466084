"""Compare two batches task by task: fixed, broken, unchanged, or unmeasured in either.

A task that one of them did not measure is never a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from classifier.batches import Slot
from classifier.intervals import Interval, paired_interval

_TIE = 1e-9  # means of repeats that differ by less are equal


class ChangeKind(StrEnum):
    """What became of a task from the first batch to the second; those to look at first."""

    BROKEN = "broken"  # it scored lower in the second
    FIXED = "fixed"  # higher
    UNMEASURED_SECOND = "unmeasured_b"
    UNMEASURED_FIRST = "unmeasured_a"
    UNMEASURED_BOTH = "unmeasured_both"
    ONLY_FIRST = "only_a"  # the second does not have it
    ONLY_SECOND = "only_b"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """How a task did in one batch: the mean ``score`` over the ``measured`` of its ``repeats``.

    ``rollout_ids`` are the attempts that count, one for each repeat. No repeat: the batch does
    not have the task.
    """

    score: float | None
    measured: int
    repeats: int
    rollout_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """One task in both batches; ``difference`` is second minus first, where both measured it."""

    task: str
    change: ChangeKind
    difference: float | None
    a: TaskScore
    b: TaskScore


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchComparison:
    """Two batches compared.

    ``score_a`` and ``score_b`` are means over the ``compared`` tasks, which both measured: each
    task counts once, however many repeats it has. ``difference`` is second minus first, with
    its 95 % interval. ``counts`` are of tasks by change. ``without_task`` are rollouts that name
    no task, and so compare with nothing.
    """

    compared: int
    score_a: float | None
    score_b: float | None
    difference: float | None
    difference_ci: Interval | None
    counts: dict[str, int]
    without_task: int
    tasks: tuple[TaskChange, ...]


_ABSENT = TaskScore(score=None, measured=0, repeats=0, rollout_ids=())


def compare_batches(first: Sequence[Slot], second: Sequence[Slot]) -> BatchComparison:
    """Compare the slots of two batches; broken tasks come first, then by name."""
    a, b = _by_task(first), _by_task(second)
    tasks = [_compared(task, a.get(task, _ABSENT), b.get(task, _ABSENT)) for task in a | b]
    order = {change: place for place, change in enumerate(ChangeKind)}
    tasks.sort(key=lambda each: (order[each.change], each.task))
    pairs = [(each.a.score, each.b.score) for each in tasks]
    both = [(before, after) for before, after in pairs if before is not None and after is not None]
    counts = Counter(each.change.value for each in tasks)
    return BatchComparison(
        compared=len(both),
        score_a=_mean([before for before, _ in both]),
        score_b=_mean([after for _, after in both]),
        difference=_mean([after - before for before, after in both]),
        difference_ci=paired_interval(both),
        counts={change.value: counts[change.value] for change in ChangeKind},
        without_task=sum(slot.counted.task is None for slot in (*first, *second)),
        tasks=tuple(tasks),
    )


def _by_task(batch: Sequence[Slot]) -> dict[str, TaskScore]:
    grouped: dict[str, list[Slot]] = {}
    for slot in batch:
        if slot.counted.task is not None:
            grouped.setdefault(slot.counted.task, []).append(slot)
    return {task: _task(each) for task, each in grouped.items()}


def _task(repeats: Sequence[Slot]) -> TaskScore:
    counted = [slot.counted for slot in sorted(repeats, key=_by_number)]
    known = [entry.score for entry in counted if entry.score is not None]
    return TaskScore(
        score=_mean(known),
        measured=len(known),
        repeats=len(counted),
        rollout_ids=tuple(entry.rollout_id for entry in counted),
    )


def _by_number(slot: Slot) -> tuple[bool, int]:
    repeat = slot.counted.repeat
    return (True, 0) if repeat is None else (False, repeat)


def _compared(task: str, a: TaskScore, b: TaskScore) -> TaskChange:
    difference = None if a.score is None or b.score is None else b.score - a.score
    return TaskChange(task=task, change=_change(a, b, difference), difference=difference, a=a, b=b)


def _change(a: TaskScore, b: TaskScore, difference: float | None) -> ChangeKind:
    if difference is None:
        return _unmeasured(a, b)
    if abs(difference) <= _TIE:
        return ChangeKind.UNCHANGED
    return ChangeKind.FIXED if difference > 0 else ChangeKind.BROKEN


def _unmeasured(a: TaskScore, b: TaskScore) -> ChangeKind:
    if not b.repeats:
        return ChangeKind.ONLY_FIRST
    if not a.repeats:
        return ChangeKind.ONLY_SECOND
    if a.score is None and b.score is None:
        return ChangeKind.UNMEASURED_BOTH
    return ChangeKind.UNMEASURED_FIRST if a.score is None else ChangeKind.UNMEASURED_SECOND


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
