"""Upstreams as REST and their page show them: read from the calls of a window of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from proxy.control.queries import Queries
from proxy.control.threads import run_in_thread
from proxy.control.timeline import round_step
from proxy.control.upstream_stats import (
    CallStats,
    UpstreamStats,
    Window,
    refined,
    upstream_stats,
)
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import Upstream
from proxy.store import statistics
from proxy.store.statistics import Slice

HOUR_S = 3600
LONGEST_S = 31 * 24 * HOUR_S
SAMPLED = 4000  # inference calls that latencies and keys stand on, at most
_SLICES = 4  # of a step, from each of which some of them are taken
_STEPS = 48  # in a window, roughly
_MINUTE = 60

UpstreamFacts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """All upstreams called in a window; ``sampled`` calls of ``calls`` gave latencies and keys."""

    window: Window
    items: Sequence[UpstreamStats]
    calls: int
    sampled: int

    def to_dict(self) -> dict[str, Any]:
        """Return the response to `GET /upstreams`."""
        return {
            "since": self.window.start,
            "until": self.window.end,
            "step_s": self.window.step_s,
            "calls": self.calls,
            "sampled_calls": self.sampled,
            "items": [_item(each) for each in self.items],
        }


class UpstreamService:
    """Reports how upstreams did.

    Arguments:
        wall: seconds since the epoch.
    """

    def __init__(
        self, *, queries: Queries, upstreams: Mapping[str, Upstream], wall: Callable[[], float]
    ) -> None:
        self._queries = queries
        self._origins = {
            name: upstream.origin if upstream.url else "" for name, upstream in upstreams.items()
        }
        self._wall = wall

    async def report(
        self, since: float | None = None, *, until: float | None = None
    ) -> WindowReport:
        """Report on the calls that began at or after ``since`` (epoch seconds; an hour ago).

        Arguments:
            until: began before the end of the step that it is in; now by default.

        Raises:
            Refusal: 422 for a begin in the future or over 31 days ago, or an end before it.
        """
        window = _window(since, until, self._wall())
        rows = await self._counted(window.start, window.end, window.step_s)
        recent = []
        if window.step_s > _MINUTE:
            recent = await self._counted(window.fine_from, window.end, _MINUTE)
        sampled = await self._queries.read(statistics.samples, _slices(window, rows))
        items = await run_in_thread(
            upstream_stats, window, rows, sampled, recent=recent, origins=self._origins
        )
        return WindowReport(
            window=window,
            items=[await self._refined(item, window) for item in items],
            calls=sum(item.stats.calls for item in items),
            sampled=len(sampled),
        )

    async def _refined(self, found: UpstreamStats, window: Window) -> UpstreamStats:
        """Look for the minute where a failure began before minutes were counted."""
        since = found.stats.failing_since
        if since is None or since >= window.fine_from or window.step_s <= _MINUTE:
            return found
        around = (since - window.step_s, since + window.step_s)
        return refined(found, await self._counted(*around, _MINUTE, upstream=found.name))

    async def _counted(
        self, since: float, until: float, step_s: int, *, upstream: str | None = None
    ) -> list[UpstreamFacts]:
        rows = await self._queries.read(
            statistics.usage, since=since, until=until, step_s=step_s, upstream=upstream
        )
        return [{**row, "at": float(row["step"] * step_s)} for row in rows]


def _window(since: float | None, until: float | None, now: float) -> Window:
    began = now - HOUR_S if since is None else since
    if not now - LONGEST_S <= began < now:
        raise Refusal(422, "invalid", "since: not within the last 31 days, in epoch seconds")
    if until is not None and until <= began:
        raise Refusal(422, "invalid", "until: not after since")
    ended = now if until is None else min(until, now)
    step_s = round_step((ended - began) / _STEPS, at_least=_MINUTE)
    # What begins now is within; what begins at an end that was asked for is not.
    end = (math.floor(now / step_s) + 1 if ended == now else math.ceil(ended / step_s)) * step_s
    fine_from = end - 2 * step_s if step_s > _MINUTE else float(end)
    return Window(
        start=math.floor(began / step_s) * step_s, end=end, step_s=step_s, fine_from=fine_from
    )


def _slices(window: Window, rows: Sequence[UpstreamFacts]) -> list[Slice]:
    """Return where a sample is taken: all calls where they are few."""
    if sum(row["calls"] for row in rows) <= SAMPLED:
        return [Slice(window.start, window.end, SAMPLED)]
    steps = sorted({row["at"] for row in rows})
    length, most = window.step_s / _SLICES, max(1, SAMPLED // (_SLICES * len(steps)))
    return [
        Slice(at + n * length, at + (n + 1) * length, most) for at in steps for n in range(_SLICES)
    ]


def _item(found: UpstreamStats) -> dict[str, Any]:
    return {
        "upstream": found.name,
        "origin": found.origin,
        **_flat_stats(found.stats),
        "models": [{"model": name, **_flat_stats(stats)} for name, stats in found.models],
        "keys": [
            {"key": key, "sampled_calls": calls, "sampled_failed": failed}
            for key, calls, failed in found.keys
        ],
        "points": [asdict(point) for point in found.points],
    }


def _flat_stats(stats: CallStats) -> dict[str, Any]:
    flat = asdict(stats)
    latencies = flat.pop("latencies")
    return {**flat, "sampled_calls": latencies.pop("calls"), **latencies}
