"""95 % intervals of a score and of a paired difference, over tasks.

Repeats of one task depend on each other: what is drawn at random are tasks. Nothing is resampled,
so that a batch of any size has its interval at once, and the same rewards have the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Interval: TypeAlias = tuple[float, float]

Z = 1.959963984540054  # 97.5 % of the normal distribution lies below
_T = {1: 12.706204736432095, 2: 4.302652729911275}  # of Student's t; the expansion is off there
_BINARY = (0.0, 1.0)


class Cluster(NamedTuple):
    """Tasks alike: how many of their rewards count, the sum of those, and how many such tasks."""

    size: int
    total: float
    tasks: int = 1


def score_interval(tasks: Iterable[Sequence[float]]) -> Interval | None:
    """Return the interval of the mean over all rewards; None where nothing tells its spread.

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
        binary=_are_binary(every),
        bounded=_within_0_and_1(every),
    )


def interval_of(clusters: Sequence[Cluster], *, binary: bool, bounded: bool) -> Interval | None:
    """Return the same of rewards that are added up by task.

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


def wilson(share: float, of: float) -> Interval:
    """Return Wilson's interval of a share (Wilson 1927), which holds at 0 and 1 as well.

    ``of`` is the number of independent observations, not always whole.
    """
    scale = 1 + Z**2 / of
    centre = (share + Z**2 / (2 * of)) / scale
    half = Z / scale * math.sqrt(share * (1 - share) / of + Z**2 / (4 * of**2))
    # At 0 and 1 the bound is exact; rounding would leave it beside.
    return (
        0.0 if share == 0 else max(0.0, centre - half),
        1.0 if share == 1 else min(1.0, centre + half),
    )


def paired_interval(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """Return the interval of the mean of second minus first; None where nothing tells its spread.

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
    found = _student(mean, variance, len(differences))
    if found is None or not _within_0_and_1(values):
        return found
    return max(-1.0, found[0]), min(1.0, found[1])


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
