"""pass@k: the chance that at least one of k repeats of a task passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class Tried(NamedTuple):
    """One task: the rewards of its repeats that count, and how many repeats it has."""

    rewards: tuple[float, ...]
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAt:
    """The estimate for one ``k``, the mean over ``tasks`` of the ``of`` tasks with so many repeats.

    Tasks with fewer than ``k`` measured repeats are left out of it; None where all are.
    """

    k: int
    estimate: float | None
    tasks: int
    of: int


def pass_at(tried: Iterable[Tried]) -> tuple[PassAt, ...] | None:
    """Estimate pass@k for 1, 2, 4, … and the most repeats that a task has.

    None where no task was repeated, or where rewards are not 0 or 1: then nothing passes.
    """
    tasks = list(tried)
    if any(reward not in (0.0, 1.0) for task in tasks for reward in task.rewards):
        return None
    return pass_at_of(
        Passed(task.repeats, len(task.rewards), task.rewards.count(1.0)) for task in tasks
    )


class Passed(NamedTuple):
    """Tasks alike: their repeats, of these how many were measured and passed, how many tasks."""

    repeats: int
    measured: int
    passed: int
    tasks: int = 1


def pass_at_of(tasks: Iterable[Passed]) -> tuple[PassAt, ...] | None:
    """Estimate the same of tasks that are added up, whose rewards are all 0 or 1."""
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
