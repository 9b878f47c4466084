"""A batch's calls over time, counted in steps of a round length."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEPS = 2000  # steps a timeline is read in, at most
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """Ended calls of one step; ``at`` in epoch seconds.

    ``failed`` counts the failed ones by subcategory, ``calls`` all of them.
    """

    at: float
    calls: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Consecutive points ``step_s`` seconds apart, oldest first."""

    step_s: int
    points: Sequence[TimelinePoint]


def build_timeline(rows: Sequence[Facts], fine_s: int, bars: int) -> Timeline:
    """Merge rows of fine steps into about ``bars`` points a round number of seconds apart."""
    first, last = rows[0]["step"] * fine_s, rows[-1]["step"] * fine_s
    step_s = round_step((last - first) / bars, at_least=fine_s)
    start = int(first // step_s)
    count = int(last // step_s) - start + 1
    calls: Counter[int] = Counter()
    failed: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        place = int(row["step"] * fine_s // step_s) - start
        calls[place] += row["calls"]
        if row["subcategory"] is not None:
            failed[place][row["subcategory"]] += row["calls"]
    points = [
        TimelinePoint(at=(start + n) * step_s, calls=calls[n], failed=dict(failed[n]))
        for n in range(count)
    ]
    return Timeline(step_s=step_s, points=points)


_ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
            86_400)  # fmt: skip


def round_step(wanted_s: float, *, at_least: int = 1) -> int:
    """Return a round number of seconds, no less than either."""
    needed = max(wanted_s, at_least)
    whole = math.ceil(needed / 86_400) * 86_400
    return next((step for step in _ROUND_S if step >= needed), whole)
