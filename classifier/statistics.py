"""Statistics of a batch over its tasks: 95 % intervals, bias by exclusion, and pass@k.

Repeats of one task depend on each other: what is drawn at random are tasks. Nothing is resampled,
so that a batch of any size has its interval at once, and the same rewards have the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple, TypeAlias

# --- intervals ---
#
# Of a score, and of a paired difference.


Interval: TypeAlias = tuple[float, float]

Z = 1.959963984540054  # 97.5 % of the normal distribution lies below
_T = {1: 12.706204736432095, 2: 4.302652729911275}  # of Student's t; the expansion is off there
_BINARY = (0.0, 1.0)


class Cluster(NamedTuple):
    """Tasks alike: how many of their rewards count, the sum of those, and how many such tasks."""

    size: int
    total: float
    tasks: int = 1


def interval_of(clusters: Sequence[Cluster], *, binary: bool, bounded: bool) -> Interval | None:
    """Return the interval of the mean over all rewards; None if nothing tells its spread.

    Where rewards are 0 or 1 it is Wilson's, by the effective number of repeats (Kott and Carr
    1997; Franco et al. 2019, doi:10.1093/jssam/smy019); else Student's t with the variance of
    the mean between tasks (Liang and Zeger 1986).

    Arguments:
        binary: every reward is 0 or 1.
        bounded: none is less than 0 or more than 1.
    """
    size = sum(each.size * each.tasks for each in clusters)
    if not size:
        return None
    mean = sum(each.total * each.tasks for each in clusters) / size
    if binary:
        return wilson(mean, _effective(clusters, mean, size))
    count = sum(each.tasks for each in clusters)
    return _student(mean, _variance(clusters, mean, size), count, bounded=bounded)


def wilson(share: float, of: float, *, z: float = Z) -> Interval:
    """Return Wilson's interval of a share (Wilson 1927), which holds at 0 and 1 as well.

    ``of`` is the number of independent observations, not always whole; ``z`` the quantile of the
    normal distribution up to which it reaches, by default that of 95 %.
    """
    scale = 1 + z**2 / of
    centre = (share + z**2 / (2 * of)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / of + z**2 / (4 * of**2))
    # At 0 and 1 the bound is exact; rounding would leave it beside.
    return (
        0.0 if share == 0 else max(0.0, centre - half),
        1.0 if share == 1 else min(1.0, centre + half),
    )


def paired_interval(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """Return the interval of the mean of second minus first; None if nothing tells its spread.

    Where all are 0 or 1 it is Newcombe's (1998, method 10), which has a width also where no pair
    differs; else Student's t over the differences.

    Arguments:
        pairs: what each task scored in one batch and in the other.
    """
    values = [value for pair in pairs for value in pair]
    if not values:
        return None
    if _are_binary(values):
        return _newcombe(pairs)
    differences = [Cluster(1, second - first) for first, second in pairs]
    mean = sum(each.total for each in differences) / len(differences)
    variance = _variance(differences, mean, len(differences))
    interval = _student(mean, variance, len(differences))
    if interval is None or not _within_0_and_1(values):
        return interval
    return max(-1.0, interval[0]), min(1.0, interval[1])


def student_t(df: int) -> float:
    """Return the 97.5 % quantile of Student's t, to one part in a thousand.

    By the expansion 26.7.5 of Abramowitz and Stegun (1964).
    """
    if df in _T:
        return _T[df]
    terms = (
        Z,
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
        (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92_160,
    )
    return math.fsum(term / df**power for power, term in enumerate(terms))


def _are_binary(values: Iterable[float]) -> bool:
    return all(value in _BINARY for value in values)


def _within_0_and_1(values: Iterable[float]) -> bool:
    return all(0 <= value <= 1 for value in values)


def _variance(clusters: Sequence[Cluster], mean: float, size: int) -> float | None:
    """Return the variance of the mean between clusters; None of a single one."""
    count = sum(each.tasks for each in clusters)
    if count < 2:
        return None
    excesses = [(each.total - mean * each.size, each.tasks) for each in clusters]
    squares = sum(excess * excess * tasks for excess, tasks in excesses)  # ** might raise
    return count / (count - 1) * squares / size**2


def _effective(clusters: Sequence[Cluster], mean: float, size: int) -> float:
    """Return how many independent rewards would tell as much, at most as many as there are.

    Where nothing tells how much repeats of a task depend on each other, they do entirely.
    """
    count = sum(each.tasks for each in clusters)
    if count == size:
        return size
    variance = _variance(clusters, mean, size)
    if variance is None or mean in _BINARY:
        return count
    alone = mean * (1 - mean)
    return alone / variance if variance > alone / size else size


def _student(
    mean: float, variance: float | None, count: int, *, bounded: bool = False
) -> Interval | None:
    if not variance or not math.isfinite(mean + variance):
        return None
    half = student_t(count - 1) * math.sqrt(variance)
    if bounded:
        return max(0.0, mean - half), min(1.0, mean + half)
    return mean - half, mean + half


def _newcombe(pairs: Sequence[tuple[float, float]]) -> Interval:
    count = len(pairs)
    both = sum(first == second == 1 for first, second in pairs)
    neither = sum(first == second == 0 for first, second in pairs)
    only_first = sum(first > second for first, second in pairs)
    only_second = count - both - neither - only_first
    of_first, of_second = both + only_first, both + only_second
    before, after = of_first / count, of_second / count
    low_before, high_before = wilson(before, count)
    low_after, high_after = wilson(after, count)
    margins = of_first * (count - of_first) * of_second * (count - of_second)
    product = float(both * neither - only_first * only_second)
    if product > 0:
        product = max(product - count / 2, 0.0)
    phi = product / math.sqrt(margins) if margins else 0.0
    return (
        after - before - _joined(after - low_after, high_before - before, phi),
        after - before + _joined(high_after - after, before - low_before, phi),
    )


def _joined(one: float, other: float, phi: float) -> float:
    return math.sqrt(one**2 - 2 * phi * one * other + other**2)


# --- exclusion ---
#
# The test that the excluded rollouts of a batch bias its mean.
#
# Failures cause zeros, so zeros among the excluded prove nothing. What biases a mean is failures
# that strike hard tasks: the kept repeats of tasks that had an exclusion are compared with those of
# tasks that had none. It sees nothing where every repeat with a low score is excluded: then what is
# kept of each task is alike.


LEAST_TASKS = 5  # on each side, or nothing is said
SIGNIFICANCE = 0.01
_EXACT = 20_000  # subsets up to which all of them are counted
_DRAWS = 200_000  # values drawn for one lane, so that a batch of any size is tested in 0.2 s
_SAMPLES = (999, 9_999)  # least and most permutations that are drawn
_TIE = 1e-9  # floating-point sums that differ by less are equal
_SEED = 20_261_122  # a test of the same rewards gives the same p


class Repeat(NamedTuple):
    """One repeat of a task, as it counts: kept with its score, or excluded by its lane.

    ``score`` is None if it is not kept, ``excluded`` whether its verdict removed it,
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
class ExclusionEffect:
    """One lane's tasks with an exclusion beside the tasks without any; p after Holm."""

    lane: str | None
    tasks: int
    mean: float
    other_tasks: int
    other_mean: float
    p: float

    @property
    def significant(self) -> bool:
        """True if the difference is more than chance explains."""
        return self.p < SIGNIFICANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """The effect of a batch's exclusions on its mean.

    ``bias`` is None if too few tasks have repeats on either side; ``p`` is the smallest of
    the ``comparisons``, the most significant of which is the first. ``fisher_p`` compares
    zeros among the reported rewards of excluded and kept repeats, and decides nothing.
    """

    comparisons: tuple[ExclusionEffect, ...] = ()
    fisher_p: float | None = None

    @property
    def p(self) -> float | None:
        """The smallest p after Holm; None if nothing could be compared."""
        return self.comparisons[0].p if self.comparisons else None

    @property
    def bias(self) -> bool | None:
        """True if exclusions strike other tasks than chance would, None if nothing was compared."""
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


def exclusion_of(tasks: Sequence[TaskMean], zeros: Zeros) -> Exclusion:
    """Test the exclusions of a batch: one comparison for each lane that had some."""
    both = any(zeros[:2]) and any(zeros[2:])
    return Exclusion(comparisons=_comparisons(tasks), fisher_p=fisher_p(*zeros) if both else None)


def _comparisons(tasks: Sequence[TaskMean]) -> tuple[ExclusionEffect, ...]:
    clean = [task.mean for task in tasks if not task.lanes]
    lanes = {lane: None for task in tasks for lane in sorted(task.lanes, key=str)}
    struck = {lane: [task.mean for task in tasks if lane in task.lanes] for lane in lanes}
    struck = {lane: means for lane, means in struck.items() if len(means) >= LEAST_TASKS}
    if len(clean) < LEAST_TASKS or not struck:
        return ()
    adjusted = holm({lane: permutation_p(means, clean) for lane, means in struck.items()})
    compared = [
        ExclusionEffect(
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


# --- pass@k ---
#
# The chance that at least one of k repeats of a task passes.


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAt:
    """The estimate for one ``k``, the mean over ``tasks`` of the ``of`` tasks with so many repeats.

    Tasks with fewer than ``k`` measured repeats are left out of it; None if all are.
    """

    k: int
    estimate: float | None
    tasks: int
    of: int


class Passed(NamedTuple):
    """Tasks alike: their repeats, of these how many were measured and passed, how many tasks."""

    repeats: int
    measured: int
    passed: int
    tasks: int = 1


def pass_at_of(tasks: Iterable[Passed]) -> tuple[PassAt, ...] | None:
    """Estimate pass@k for 1, 2, 4, … and the most repeats that a task has.

    None if no task was repeated. The rewards of the tasks are all 0 or 1.
    """
    alike = list(tasks)
    most = max((each.repeats for each in alike), default=0)
    if most < 2:
        return None
    return tuple(_at(k, alike) for k in sorted({1, *_doubling(most), most}))


@lru_cache(maxsize=4096)
def unbiased(passed: int, of: int, k: int) -> float:
    """Return the unbiased estimate of pass@k from ``of`` repeats, at least ``k``.

    1 - C(of - passed, k) / C(of, k): Chen et al. 2021, arXiv:2107.03374 §2.1.
    """
    return 1 - math.comb(of - passed, k) / math.comb(of, k)


def _doubling(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length()) if 1 << power <= most]


def _at(k: int, alike: Iterable[Passed]) -> PassAt:
    having = [each for each in alike if each.repeats >= k]
    measured = [each for each in having if each.measured >= k]
    tasks = sum(each.tasks for each in measured)
    estimates = (unbiased(each.passed, each.measured, k) * each.tasks for each in measured)
    return PassAt(
        k=k,
        estimate=math.fsum(estimates) / tasks if tasks else None,
        tasks=tasks,
        of=sum(each.tasks for each in having),
    )
