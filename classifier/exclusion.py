"""Test whether the excluded rollouts of a batch bias its mean.

Failures cause zeros, so zeros among the excluded prove nothing. What biases a mean is failures
that strike hard tasks: the kept repeats of tasks that had an exclusion are compared with those
of tasks that had none. It sees nothing where every repeat with a low score is excluded: then
what is kept of each task is alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

LEAST_TASKS = 5  # on each side, or nothing is said
SIGNIFICANCE = 0.01
_EXACT = 20_000  # subsets up to which all of them are counted
_DRAWS = 200_000  # values drawn for one lane, so that a batch of any size is tested in 0.2 s
_SAMPLES = (999, 9_999)  # least and most permutations that are drawn
_TIE = 1e-9  # floating-point sums that differ by less are equal
_SEED = 20_261_122  # a test of the same rewards gives the same p


class Repeat(NamedTuple):
    """One repeat of a task, as it counts: kept with its score, or excluded by its lane.

    ``score`` is None where it is not kept, ``excluded`` whether its verdict removed it,
    ``reward`` what its runner reported.
    """

    task: str
    lane: str | None
    score: float | None
    excluded: bool
    reward: float | None = None

    @property
    def known(self) -> float | None:
        """The reward that is compared: of an excluded one what was reported, else its score."""
        return self.reward if self.excluded else self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One lane's tasks with an exclusion beside the tasks without any; p after Holm."""

    lane: str | None
    tasks: int
    mean: float
    other_tasks: int
    other_mean: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether the difference is more than chance explains."""
        return self.p < SIGNIFICANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """What the exclusions of a batch do to its mean.

    ``bias`` is None where too few tasks have repeats on either side; ``p`` is the smallest of
    the ``comparisons``, the most significant of which is the first. ``fisher_p`` compares
    zeros among the reported rewards of excluded and kept repeats, and decides nothing.
    """

    comparisons: tuple[Comparison, ...] = ()
    fisher_p: float | None = None

    @property
    def p(self) -> float | None:
        """The smallest p after Holm; None where nothing could be compared."""
        return self.comparisons[0].p if self.comparisons else None

    @property
    def bias(self) -> bool | None:
        """Whether exclusions strike other tasks than chance would."""
        return self.comparisons[0].significant if self.comparisons else None


class TaskMean(NamedTuple):
    """A task that was repeated: the mean of the repeats that are kept, and lanes of the others."""

    mean: float
    lanes: frozenset[str | None]


class Zeros(NamedTuple):
    """Known rewards of excluded and of kept repeats: how many are 0, and how many are not."""

    excluded_zero: int = 0
    excluded_other: int = 0
    kept_zero: int = 0
    kept_other: int = 0


def exclusion(repeats: Iterable[Repeat]) -> Exclusion:
    """Test the exclusions of a batch: one comparison for each lane that had some."""
    by_task: dict[str, list[Repeat]] = {}
    for repeat in repeats:
        by_task.setdefault(repeat.task, []).append(repeat)
    tasks = [task for group in by_task.values() if (task := _task(group)) is not None]
    return exclusion_of(tasks, _zeros(each for group in by_task.values() for each in group))


def exclusion_of(tasks: Sequence[TaskMean], zeros: Zeros) -> Exclusion:
    """Test the same where tasks and zeros are summed up already."""
    both = any(zeros[:2]) and any(zeros[2:])
    return Exclusion(comparisons=_comparisons(tasks), fisher_p=fisher_p(*zeros) if both else None)


def _task(repeats: Sequence[Repeat]) -> TaskMean | None:
    """Return a task that was repeated and kept some; None for any other."""
    kept = [each.score for each in repeats if each.score is not None]
    if len(repeats) < 2 or not kept:
        return None
    lanes = frozenset(each.lane for each in repeats if each.excluded)
    return TaskMean(math.fsum(kept) / len(kept), lanes)


def _comparisons(tasks: Sequence[TaskMean]) -> tuple[Comparison, ...]:
    clean = [task.mean for task in tasks if not task.lanes]
    lanes = {lane: None for task in tasks for lane in sorted(task.lanes, key=str)}
    struck = {lane: [task.mean for task in tasks if lane in task.lanes] for lane in lanes}
    struck = {lane: means for lane, means in struck.items() if len(means) >= LEAST_TASKS}
    if len(clean) < LEAST_TASKS or not struck:
        return ()
    adjusted = holm({lane: permutation_p(means, clean) for lane, means in struck.items()})
    compared = [
        Comparison(
            lane=lane,
            tasks=len(means),
            mean=math.fsum(means) / len(means),
            other_tasks=len(clean),
            other_mean=math.fsum(clean) / len(clean),
            p=adjusted[lane],
        )
        for lane, means in struck.items()
    ]
    return tuple(sorted(compared, key=lambda each: (each.p, str(each.lane))))


def permutation_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p of a permutation test on the difference of two means.

    All permutations are counted where there are few; else they are drawn, always the same
    ones. Where both sides are large, the sum of a random subset is normal, with the variance
    of drawing without replacement (Hájek 1960), and its tails are read from that.
    """
    fewer = min(one, other, key=len)
    values, size = sorted([*one, *other]), len(fewer)
    excess = math.fsum(fewer) - math.fsum(values) * size / len(values)
    if abs(excess) <= _TIE:
        return 1.0
    if math.comb(len(values), size) <= _EXACT:
        sums = [math.fsum(subset) for subset in combinations(values, size)]
        return _two_sided(math.fsum(fewer), sums)
    least, most = _SAMPLES
    samples = min(_DRAWS // size, most)
    if samples < least:
        return _normal_p(abs(excess), values, size)
    return _two_sided(math.fsum(fewer), [*_drawn(values, size, samples), math.fsum(fewer)])


def _drawn(values: list[float], size: int, samples: int) -> Iterator[float]:
    """Return the sums of random subsets, the same ones every time.

    A partial Fisher-Yates shuffle by the upper half of a 64-bit linear congruential generator
    (Knuth, MMIX): what is drawn has to be reproducible, in any version of any library.
    """
    shuffled, state, count = list(values), _SEED, len(values)
    for _ in range(samples):
        for place in range(size):
            state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            other = place + ((state >> 32) * (count - place) >> 32)
            shuffled[place], shuffled[other] = shuffled[other], shuffled[place]
        yield math.fsum(shuffled[:size])


def _two_sided(observed: float, sums: Sequence[float]) -> float:
    """Return twice the share of sums at least as extreme on the rarer side."""
    below = sum(each <= observed + _TIE for each in sums)
    above = sum(each >= observed - _TIE for each in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


def _normal_p(excess: float, values: Sequence[float], size: int) -> float:
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    deviation = math.sqrt(size * (count - size) / count * variance)
    return math.erfc(excess / deviation / math.sqrt(2)) if deviation else 1.0


def holm(p_values: Mapping[str | None, float]) -> dict[str | None, float]:
    """Adjust p values for their number (Holm 1979): all are true at once, or one is."""
    adjusted: dict[str | None, float] = {}
    highest = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = highest
    return adjusted


def _zeros(repeats: Iterable[Repeat]) -> Zeros:
    counts = {True: [0, 0], False: [0, 0]}
    for each in repeats:
        if each.known is not None:
            counts[each.excluded][each.known != 0] += 1
    return Zeros(*counts[True], *counts[False])


def fisher_p(a: int, b: int, c: int, d: int) -> float:
    """Return the two-sided p of Fisher's exact test on the table [[a, b], [c, d]].

    The probabilities of all tables with the same margins that are no more likely than this
    one are summed, as scipy and R do.
    """
    row, column, total = a + b, a + c, a + b + c + d
    lgamma = math.lgamma  # of n + 1 it is the logarithm of n!
    least = row + column - total
    fixed = sum(map(lgamma, (row + 1, total - row + 1, column + 1, total - column + 1)))
    fixed -= lgamma(total + 1)

    def log_probability(x: int) -> float:
        others = lgamma(row - x + 1) + lgamma(column - x + 1)
        return fixed - lgamma(x + 1) - others - lgamma(x - least + 1)

    most = log_probability(a) + 1e-7  # R's tolerance: equal ones differ by rounding
    cells = range(max(0, least), min(row, column) + 1)
    likely = [log for x in cells if (log := log_probability(x)) <= most]
    return min(1.0, math.fsum(map(math.exp, likely)))
