"""Group a batch's rollouts by task for reinforcement learning, and compare two batches by task.

A rollout that was not measured is masked: it shifts no baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from classifier.batches import Entry, TaskRepeat, by_number, task_repeats
from classifier.statistics import Interval, paired_interval

MIN_VALID = 2  # one rollout compares with nothing


class Member(NamedTuple):
    """One rollout of a group.

    ``wanted`` is how many repeats of its task its registration asked for, ``retry`` whether its
    verdict advises to run it again, ``skipped`` whether an open breaker did not admit it,
    ``given_up`` whether its batch ended without its outcome. ``revision`` is the number of times
    that the group had settled when this rollout's end settled it; None if it did not. ``no_score``
    says why its rewards hold no score.
    """

    entry: Entry
    wanted: int | None = None
    retry: bool = False
    skipped: bool = False
    given_up: bool = False
    revision: int | None = None
    no_score: str | None = None

    @property
    def final(self) -> bool:
        """True if the rollout's verdict stands, or none is to come."""
        judged = self.entry.health is not None and not self.entry.provisional
        return judged or self.skipped or self.given_up

    @property
    def reward(self) -> float | None:
        """The reward that counts, once it is final."""
        return self.entry.score if self.final else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The repeats of one task, one place each in every tuple, by their numbers.

    ``wanted`` is the number of repeats as registered, else of those seen. ``settled``: all of
    them are final. ``revision`` counts the times that it has settled; ``final``: it is not expected
    to settle again. Of attempts at a repeat the one that counts is in ``rollout_ids``, as in a
    batch's score. A masked repeat is not ``valid``, and has no reward. ``baseline`` is the mean of
    the valid rewards, ``std`` their standard deviation (ddof 1); None over too few. ``resample``
    repeats failed in a way that advises to run them again. ``drop``: even with those, and the ones
    to come, fewer than the required number can be valid. ``no_score`` says why rewards of one of
    them hold no score.
    """

    task: str
    wanted: int
    settled: bool
    revision: int
    final: bool
    rollout_ids: tuple[str, ...]
    repeats: tuple[int | None, ...]
    rewards: tuple[float | None, ...]
    valid: tuple[bool, ...]
    baseline: float | None
    std: float | None
    resample: int
    drop: bool
    no_score: str | None = None


def group(
    task: str,
    members: Iterable[Member],
    *,
    min_valid: int = MIN_VALID,
    ended: bool = False,
) -> Group:
    """Group every attempt at every repeat of one task, given the oldest first.

    Arguments:
        min_valid: fewer valid rollouts than this are of no use.
        ended: whether the batch has been declared over: repeats that have not begun will not.
    """
    by_id = {member.entry.rollout_id: member for member in members}
    repeats = sorted(task_repeats(member.entry for member in by_id.values()), key=by_number)
    counted = [by_id[slot.counted.rollout_id] for slot in repeats]
    closed = [_is_closed(slot, by_id) for slot in repeats]
    rewards = tuple(member.reward for member in counted)
    baseline, std = _mean_and_std([reward for reward in rewards if reward is not None])
    asked_for = [m.wanted for m in by_id.values() if m.wanted is not None]
    wanted = max(asked_for, default=len(repeats))
    missing = 0 if ended else max(0, wanted - len(repeats))
    settled = missing == 0 and all(closed)
    masked = [(over, m.retry) for over, m in zip(closed, counted, strict=True) if m.reward is None]
    lost = sum(over and not retry for over, retry in masked)
    resample = sum(over and retry for over, retry in masked)
    return Group(
        task=task,
        wanted=wanted,
        settled=settled,
        revision=max((m.revision or 0 for m in by_id.values()), default=0) or int(settled),
        final=settled and (ended or (bool(asked_for) and resample == 0)),
        rollout_ids=tuple(member.entry.rollout_id for member in counted),
        repeats=tuple(member.entry.repeat for member in counted),
        rewards=rewards,
        valid=tuple(reward is not None for reward in rewards),
        baseline=baseline,
        std=std,
        resample=resample,
        drop=len(rewards) + missing - lost < min_valid,
        no_score=next((m.no_score for m in counted if m.no_score is not None), None),
    )


def _is_closed(slot: TaskRepeat, by_id: Mapping[str, Member]) -> bool:
    """Return True if the attempt that counts is settled: it and all before it are final."""
    last = slot.attempts.index(slot.counted)
    return all(by_id[attempt.rollout_id].final for attempt in slot.attempts[: last + 1])


def _mean_and_std(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return both; exact for equal values, where rounding would leave a spread."""
    size = len(values)
    if not values:
        return None, None
    if min(values) == max(values):
        return values[0], 0.0 if size > 1 else None
    mean = _finite(math.fsum(value / size for value in values))
    if mean is None:
        return None, None
    length = math.hypot(*(value - mean for value in values))
    return mean, _finite(length / math.sqrt(size - 1))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# --- comparison ---
#
# A task that one of the batches did not measure is never a difference.


_TIE = 1e-9  # means of repeats that differ by less are equal


class ChangeKind(StrEnum):
    """The change of a task from the first batch to the second, those to look at first."""

    BROKEN = "broken"  # it scored lower in the second
    FIXED = "fixed"  # higher
    UNMEASURED_SECOND = "unmeasured_b"
    UNMEASURED_FIRST = "unmeasured_a"
    UNMEASURED_BOTH = "unmeasured_both"
    ONLY_FIRST = "only_a"  # the second does not have it
    ONLY_SECOND = "only_b"
    UNCHANGED = "unchanged"


class TaskTotal(NamedTuple):
    """One task of a batch: its repeats, those with a score, and the mean of these.

    ``repeats`` are those it was registered for or has, the greater number; ``score`` is None
    without any.
    """

    task: str
    repeats: int
    measured: int
    score: float | None


class TaskChange(NamedTuple):
    """One task in both batches, None in one that does not have it.

    ``difference`` is second minus first, where both measured it.
    """

    task: str
    change: ChangeKind
    difference: float | None
    a: TaskTotal | None
    b: TaskTotal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchComparison:
    """Two batches compared.

    ``score_a`` and ``score_b`` are means over the ``compared`` tasks, which both measured: each
    task counts once, however many repeats it has. ``difference`` is second minus first, with
    its 95 % interval. ``counts`` are of tasks by change.
    """

    compared: int
    score_a: float | None
    score_b: float | None
    difference: float | None
    difference_ci: Interval | None
    counts: dict[str, int]
    tasks: tuple[TaskChange, ...]


def compare_batches(first: Iterable[TaskTotal], second: Iterable[TaskTotal]) -> BatchComparison:
    """Compare the tasks of two batches; broken tasks come first, then by name."""
    a, b = ({each.task: each for each in batch} for batch in (first, second))
    by_change: dict[ChangeKind, list[TaskChange]] = {change: [] for change in ChangeKind}
    for task in sorted(a | b):
        change = _compared(task, a.get(task), b.get(task))
        by_change[change.change].append(change)
    tasks = tuple(chain.from_iterable(by_change.values()))
    pairs = [
        (each.a.score, each.b.score) for each in tasks if each.a is not None and each.b is not None
    ]
    both = [(before, after) for before, after in pairs if before is not None and after is not None]
    return BatchComparison(
        compared=len(both),
        score_a=_mean([before for before, _ in both]),
        score_b=_mean([after for _, after in both]),
        difference=_mean([after - before for before, after in both]),
        difference_ci=paired_interval(both),
        counts={change.value: len(several) for change, several in by_change.items()},
        tasks=tasks,
    )


def _compared(task: str, a: TaskTotal | None, b: TaskTotal | None) -> TaskChange:
    if a is None or b is None:
        missing = ChangeKind.ONLY_SECOND if a is None else ChangeKind.ONLY_FIRST
        return TaskChange(task, missing, None, a, b)
    if a.score is None or b.score is None:
        return TaskChange(task, _unmeasured(a, b), None, a, b)
    difference = b.score - a.score
    change = ChangeKind.FIXED if difference > 0 else ChangeKind.BROKEN
    if abs(difference) <= _TIE:
        change = ChangeKind.UNCHANGED
    return TaskChange(task, change, difference, a, b)


def _unmeasured(a: TaskTotal, b: TaskTotal) -> ChangeKind:
    if a.score is None and b.score is None:
        return ChangeKind.UNMEASURED_BOTH
    return ChangeKind.UNMEASURED_FIRST if a.score is None else ChangeKind.UNMEASURED_SECOND


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
