"""Causes by upstream and model: how often, since when, in which batches."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from classifier.fingerprints import Lane
from proxy.control.queries import Queries
from proxy.control.threads import run_in_thread
from proxy.control.timeline import round_step
from proxy.store import statistics

_STEPS = 30  # of a trend, roughly

Facts = Mapping[str, Any]


class CauseKey(NamedTuple):
    """What one line of the page is about; None is unknown."""

    fingerprint: str
    subcategory: str | None
    cause: str | None
    upstream: str | None
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseStats:
    """How many rollouts a cause struck; times in epoch seconds.

    ``recent`` counts those of the window, ``trend`` the same by step, oldest first. ``batches``
    are the names of those struck, the latest first, and ``alone`` rollouts of no batch.
    """

    key: CauseKey
    rollouts: int
    recent: int
    trend: Sequence[int]
    batches: Sequence[str]
    alone: int
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CausePage:
    """All causes, those that struck most rollouts of the window first.

    A step of a trend has ``step_s`` seconds, the first begins at ``start`` (epoch seconds).
    """

    items: Sequence[CauseStats]
    step_s: int
    start: int


class CauseService:
    """Reads causes.

    Arguments:
        wall: seconds since the epoch.
    """

    def __init__(self, *, queries: Queries, wall: Callable[[], float]) -> None:
        self._queries = queries
        self._wall = wall

    async def page(self, since: float, until: float | None = None) -> CausePage:
        """Return all causes, with their trend from ``since`` on.

        Arguments:
            since: in epoch seconds, as is ``until``, by default now.
        """
        now = self._wall()
        ended = now if until is None else min(until, now)
        step_s = round_step((ended - since) / _STEPS)
        last = int(now // step_s) + 1 if ended == now else math.ceil(ended / step_s)
        # The last seconds hold no whole step at their begin; a range that was asked for is whole.
        first = math.ceil(since / step_s) if until is None else int(since // step_s)
        steps = range(first, max(last, first + 1))
        rows = await self._queries.read(statistics.causes)
        over_time = await self._queries.read(
            statistics.causes_over_time, since=steps.start * step_s, step_s=step_s
        )
        items = await run_in_thread(_summed, rows, over_time, steps)
        return CausePage(items=items, step_s=step_s, start=steps.start * step_s)


def _summed(
    rows: Iterable[Facts],
    over_time: Iterable[Facts],
    steps: range,
) -> list[CauseStats]:
    groups: defaultdict[CauseKey, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[key_of(row)].append(row)
    trends: defaultdict[CauseKey, Counter[int]] = defaultdict(Counter)
    for row in over_time:
        trends[key_of(row)][row["step"]] += row["rollouts"]
    found = [
        _stats(key, group, [trends[key][step] for step in steps]) for key, group in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.recent, -each.rollouts, each.key.fingerprint))


def _stats(key: CauseKey, rows: Sequence[Facts], trend: Sequence[int]) -> CauseStats:
    seen: dict[str, float] = {}
    for row in rows:
        if row["batch"] is not None:
            seen[row["batch"]] = max(row["last_seen"], seen.get(row["batch"], 0.0))
    return CauseStats(
        key=key,
        rollouts=sum(row["rollouts"] for row in rows),
        recent=sum(trend),
        trend=trend,
        batches=sorted(seen, key=lambda name: (-seen[name], name)),
        alone=sum(row["rollouts"] for row in rows if row["batch"] is None),
        first_seen=min(row["first_seen"] for row in rows),
        last_seen=max(row["last_seen"] for row in rows),
    )


def key_of(row: Facts) -> CauseKey:
    """Return what a row is about; ``lane`` is as in a verdict, None where there is none."""
    lane = Lane() if row["lane"] is None else Lane.read(row["lane"])
    return CauseKey(row["fingerprint"], row["subcategory"], row["cause"], lane.upstream, lane.model)
