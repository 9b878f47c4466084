"""Calls over time, and the health of each upstream in a window."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEPS = 2000  # times that a timeline is read at, at most
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """Ended calls counted over one step of time; ``at`` in epoch seconds.

    ``failed`` counts those that failed, by subcategory; ``calls`` all of them.
    """

    at: float
    calls: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Moments of equal length without a hole, oldest first; ``step_s`` is their length."""

    step_s: int
    moments: Sequence[TimelinePoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamHealth:
    """How one upstream did over a window: counts of calls, medians and tails in seconds.

    ``refused`` are the agent's own bad requests, which say nothing about the provider;
    the shares are over the other calls. ``keys`` counts calls and failures by key digest.
    """

    name: str
    origin: str
    calls: int
    refused: int
    success_share: float | None
    rate_limit_share: float | None
    failed: Mapping[str, int]
    latency_p50_s: float | None
    latency_p95_s: float | None
    first_byte_p50_s: float | None
    last_at: float
    keys: Sequence[tuple[str, int, int]]


def quantile(values: Iterable[float | None], share: float) -> float | None:
    """The value below which this share of the known values lies; None where none is known."""
    known = sorted(value for value in values if value is not None)
    return known[min(len(known) - 1, int(len(known) * share))] if known else None


def ratio(part: int, whole: int) -> float | None:
    """A part of a whole between 0 and 1; None where there is no whole."""
    return part / whole if whole else None


def key_columns(calls: Iterable[Facts]) -> list[tuple[str, int, int]]:
    """Calls and failures by key digest, most calls first."""
    total: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for call in calls:
        key = call["key_digest"] or "-"
        total[key] += 1
        failed[key] += call["subcategory"] not in (None, "rejected_request")
    return [(key, count, failed[key]) for key, count in total.most_common()]


def build_timeline(rows: Sequence[Facts], fine_s: int, bars: int) -> Timeline:
    """Rows of fine steps as at most about ``bars`` moments of a round length."""
    first, last = rows[0]["step"] * fine_s, rows[-1]["step"] * fine_s
    step_s = _round_step((last - first) / bars, at_least=fine_s)
    start = int(first // step_s)
    count = int(last // step_s) - start + 1
    calls: Counter[int] = Counter()
    failed: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        place = int(row["step"] * fine_s // step_s) - start
        calls[place] += row["calls"]
        if row["subcategory"] is not None:
            failed[place][row["subcategory"]] += row["calls"]
    moments = [
        TimelinePoint(at=(start + n) * step_s, calls=calls[n], failed=dict(failed[n]))
        for n in range(count)
    ]
    return Timeline(step_s=step_s, moments=moments)


_ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
            86_400)  # fmt: skip


def _round_step(wanted_s: float, *, at_least: int) -> int:
    needed = max(wanted_s, at_least)
    whole = math.ceil(needed / 86_400) * 86_400
    return next((step for step in _ROUND_S if step >= needed), whole)
