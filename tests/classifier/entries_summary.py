"""A batch summarised from all of its entries at once: what the summary from sums is held to.

Each figure is computed from the slots themselves, in the plainest way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from math import fsum
from operator import attrgetter
from typing import Any, NamedTuple

from classifier.batch_parts import BatchParts
from classifier.batch_summary import (
    Check,
    Excused,
    NamedSlots,
    ReportedCounts,
    ScoredBatch,
    check_of,
)
from classifier.batches import (
    Entry,
    RewardSpan,
    Scores,
    TaskRepeat,
    counted_check,
    counted_with,
    excused,
    last_reported,
    one_of,
    picked,
    problems,
    repeat_of,
    scored_before,
    task_repeats,
    unmeasured_by,
    zero_of,
)
from classifier.diagnostics import Diagnostic, kinds
from classifier.statistics import (
    Cluster,
    Exclusion,
    Interval,
    PassAt,
    Passed,
    Repeat,
    TaskMean,
    Zeros,
    exclusion_of,
    interval_of,
    pass_at_of,
)
from classifier.totals import sum_known
from classifier.validity.serving import BatchFinding

_UNTESTED = Exclusion()
_NO_PARTS = BatchParts()


def summarize(
    entries: Sequence[Entry],
    across: Sequence[BatchFinding] = (),
    *,
    parts: BatchParts = _NO_PARTS,
) -> ScoredBatch:
    """Summarise a batch from the entry of every attempt in it, and what differs between them."""
    batch = task_repeats(entries)
    found = exclusions(batch)

    def each(name: str) -> Iterable[Any]:
        return map(attrgetter(name), entries)

    levels, checks = _found(each("validity"))
    diagnosed = _diagnosed(chain.from_iterable(each("diagnostics")))
    return ScoredBatch(
        scores=scores(batch),
        check=check(batch, found, across, parts),
        exclusion=found,
        summaries=tuple(kind.summary(count) for kind, count in diagnosed.items()),
        health=_tally(each("health")),
        subcategory=_tally(each("subcategory")),
        fingerprint=_tally(each("fingerprint")),
        input_tokens=sum_known(each("input_tokens")),
        output_tokens=sum_known(each("output_tokens")),
        total_tokens=sum_known(each("total_tokens")),
        cost_usd=sum_known(each("cost_usd")),
        pending=sum(each("provisional")),
        diagnostics={kind.field: count for kind, count in diagnosed.items()},
        validity=levels,
        validity_checks=checks,
        calls=sum_known(each("summed_calls")),
        tokens_known_calls=sum_known(each("tokens_known_calls")),
        cost_known_calls=sum_known(each("cost_known_calls")),
        across=tuple(across),
    )


def exclusions(batch: Sequence[TaskRepeat]) -> Exclusion:
    """Test whether what is left out of the score strikes hard tasks, by `exclusion`.

    Each slot is a repeat of its task; what a later attempt filled is not left out.
    """
    repeats = (repeat_of(slot) for slot in batch)
    return exclusion(repeat for repeat in repeats if repeat is not None)


def check(
    batch: Sequence[TaskRepeat],
    found: Exclusion = _UNTESTED,
    across: Sequence[BatchFinding] = (),
    parts: BatchParts = _NO_PARTS,
) -> Check:
    """Check a batch: one line for each slot that is no measurement, suspect or cherry-picked.

    A failed attempt with a successful retry does not count against the batch. ``found`` are
    its `exclusions`, with a line for each lane on which they bias the mean.
    """
    lines = list[str]()
    for slot in batch:
        lines += problems(slot.counted, slot.name)
        if scored_before(slot):
            lines.append(picked(slot.name))
    unknown = Excused(sum(map(excused, batch)), len(batch))
    attempts = [each for slot in batch for each in slot.attempts]
    return check_of(
        lines,
        _counted_all_the_same(batch),
        found,
        across,
        excused=unknown,
        unearned=sum(bool(each.unearned) for each in attempts),
        parts=parts,
        ones=ones(batch),
    )


def ones(batch: Sequence[TaskRepeat]) -> ReportedCounts:
    """Count the repeats that read as a score above 0, and those that measure nothing."""
    found = [entry for slot in batch if (entry := one_of(slot)) is not None]
    causes = Counter(unmeasured_by(each) for each in found if each.scoreable != "yes")
    ordered = dict(sorted(causes.items(), key=lambda item: (-item[1], item[0])))
    return ReportedCounts(reported=len(found), not_measured=causes.total(), by_cause=ordered)


def _counted_all_the_same(batch: Sequence[TaskRepeat]) -> dict[str, NamedSlots]:
    """Return the slots that count in spite of a finding, by its level."""
    named: dict[str, list[str]] = {}
    for slot in batch:
        if (level := counted_with(slot)) is not None:
            named.setdefault(level, []).append(counted_check(slot.counted))
    return {level: NamedSlots(names, len(names)) for level, names in named.items()}


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    return _tally_of(Counter(names))


def _tally_of(counts: Counter[str | None]) -> dict[str, int]:
    return {name: count for name, count in counts.most_common() if name is not None}


def _found(entries: Iterable[str | None]) -> tuple[dict[str, int], dict[str, int]]:
    """Count rollouts by the worst level of what was found, and by check, most frequent first."""
    levels: Counter[str | None] = Counter()
    checks: Counter[str | None] = Counter()
    for names, count in Counter(entries).items():
        if names is not None:
            level, *found = names.split()
            levels[level] += count
            checks.update(dict.fromkeys(found, count))
    return _tally_of(levels), _tally_of(checks)


def _diagnosed(diagnostics: Iterable[Diagnostic]) -> dict[type[Diagnostic], int]:
    counts = Counter(map(type, diagnostics))
    return {kind: counts[kind] for kind in kinds() if counts[kind]}


# --- scores ---


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def scores(
    batch: Sequence[TaskRepeat], *, reward_range: tuple[float, float] | None = None
) -> Scores:
    """Compute the scores of these slots.

    Arguments:
        reward_range: the least and the greatest reward, as registered.
    """
    known = _known(slot.counted.score for slot in batch)
    total, unscored = len(batch), len(batch) - len(known)
    scoreable = sum(slot.counted.scoreable == "yes" for slot in batch)
    seen = RewardSpan(min(known, default=None), max(known, default=None), reward_range)
    bounds = seen.bounds
    retried = [slot for slot in batch if len(slot.attempts) > 1]
    filled = [slot.counted for slot in retried if slot.counted is not slot.attempts[0]]
    tasks = by_task(batch)
    tried = [
        TaskRewards(tuple(_known(slot.counted.score for slot in each)), len(each)) for each in tasks
    ]
    return Scores(
        total=total,
        scoreable=scoreable,
        scored=len(known),
        coverage=len(known) / total if total else None,
        score_all=_mean([*known, *[0.0] * unscored]),
        score_effective=_mean(known),
        score_reported=_mean(_known(map(last_reported, batch))),
        score_worst=_mean([*known, *[bounds[0]] * unscored]) if bounds else None,
        score_best=_mean([*known, *[bounds[1]] * unscored]) if bounds else None,
        score_first=_mean(_known(slot.attempts[0].score for slot in batch) if retried else known),
        score_retried=_mean(_known(entry.score for entry in filled)),
        retried=len(retried),
        retried_after_score=tuple(slot.name for slot in retried if scored_before(slot)),
        score_ci=score_interval(task.rewards for task in tried),
        pass_at=pass_at(tried),
    )


def by_task(batch: Sequence[TaskRepeat]) -> list[list[TaskRepeat]]:
    """Group slots by task, the oldest first; one without a task is alone."""
    tasks: dict[tuple[bool, str], list[TaskRepeat]] = {}
    for slot in batch:
        task = slot.counted.task
        key = (False, slot.name) if task is None else (True, task)
        tasks.setdefault(key, []).append(slot)
    return list(tasks.values())


class ReportedZeros(NamedTuple):
    """The repeats that the runner scored 0: how many, and those that measure nothing."""

    reported: int
    not_measured: tuple[Entry, ...]

    @property
    def by_cause(self) -> dict[str, int]:
        """Count what measures nothing by `unmeasured_by`, the most frequent first."""
        causes = Counter(map(unmeasured_by, self.not_measured))
        return dict(sorted(causes.items(), key=lambda item: (-item[1], item[0])))


def reported_zeros(batch: Iterable[TaskRepeat]) -> ReportedZeros:
    """Find the zeros of a batch; a repeat that is not finished is none yet."""
    zeros = [entry for slot in batch if (entry := zero_of(slot)) is not None]
    return ReportedZeros(len(zeros), tuple(entry for entry in zeros if entry.score is None))


# --- statistics of rewards that are not added up yet ---


def score_interval(tasks: Iterable[Sequence[float]]) -> Interval | None:
    """Return the interval of the mean over all rewards; None if nothing tells its spread.

    Where rewards are 0 or 1 it is Wilson's, by the effective number of repeats (Kott and Carr
    1997; Franco et al. 2019, doi:10.1093/jssam/smy019); else Student's t with the variance of
    the mean between tasks (Liang and Zeger 1986).

    Arguments:
        tasks: the rewards that count of each task's repeats.
    """
    known = [list(rewards) for rewards in tasks if rewards]
    every = [reward for rewards in known for reward in rewards]
    return interval_of(
        [Cluster(len(rewards), sum(rewards)) for rewards in known],
        binary=all(reward in (0.0, 1.0) for reward in every),
        bounded=all(0 <= reward <= 1 for reward in every),
    )


def exclusion(repeats: Iterable[Repeat]) -> Exclusion:
    """Test the exclusions of a batch: one comparison for each lane that had some."""
    by_task: dict[str, list[Repeat]] = {}
    for repeat in repeats:
        by_task.setdefault(repeat.task, []).append(repeat)
    tasks = [task for group in by_task.values() if (task := _task(group)) is not None]
    return exclusion_of(tasks, _zeros(each for group in by_task.values() for each in group))


def _task(repeats: Sequence[Repeat]) -> TaskMean | None:
    """Return a task that was repeated and kept some; None for any other."""
    scores = [each.score for each in repeats if each.score is not None]
    if len(repeats) < 2 or not scores:
        return None
    lanes = frozenset(each.lane for each in repeats if each.excluded)
    return TaskMean(fsum(scores) / len(scores), lanes)


def _zeros(repeats: Iterable[Repeat]) -> Zeros:
    counts = {True: [0, 0], False: [0, 0]}
    for each in repeats:
        if each.known is not None:
            counts[each.excluded][each.known != 0] += 1
    return Zeros(*counts[True], *counts[False])


class TaskRewards(NamedTuple):
    """One task: the rewards of its repeats that count, and how many repeats it has."""

    rewards: tuple[float, ...]
    repeats: int


def pass_at(tried: Iterable[TaskRewards]) -> tuple[PassAt, ...] | None:
    """Estimate pass@k for 1, 2, 4, … and the most repeats that a task has.

    None if no task was repeated, or where rewards are not 0 or 1: then nothing passes.
    """
    tasks = list(tried)
    if any(reward not in (0.0, 1.0) for task in tasks for reward in task.rewards):
        return None
    return pass_at_of(
        Passed(task.repeats, len(task.rewards), task.rewards.count(1.0)) for task in tasks
    )
