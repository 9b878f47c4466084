"""What pages ask beside REST: batches at a glance, failures over time, how upstreams do now.

It counts and orders; every score and verdict in it is the desk's own answer.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.control.rollouts import RolloutService
from proxy.control.threads import run_in_thread
from proxy.control.timeline import (
    STEPS,
    Facts,
    Timeline,
    UpstreamHealth,
    build_timeline,
    key_columns,
    quantile,
    ratio,
)
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import Upstream
from proxy.store import dashboard as asked

BATCHES = 20  # on one page
ROLLOUTS = 100
CALLS = 200
RECENT = 10_000  # newest calls that an upstream's health is read from
WINDOWS_S = (900, 3600, 86_400)

_KEPT = 32  # timelines drawn, until something happens
_POLL_S = 0.7
_QUIET_POLLS = 20  # polls without news until a sign of life is sent


class PageChange(NamedTuple):
    """News for a page: ``changed``, or "" as a sign of life."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutListPage:
    """One page of many: ``number`` from 1, ``total`` items in all."""

    items: Sequence[Facts]
    number: int
    size: int
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are; at least 1."""
        return max(1, math.ceil(self.total / self.size))

    @property
    def first(self) -> int:
        """The number of the first item on it, from 1; 0 where there is none."""
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last(self) -> int:
        """The number of the last item on it."""
        return (self.number - 1) * self.size + len(self.items)


class Dashboard:
    """What pages ask of one process.

    Arguments:
        desk: gives every verdict and score, and asks the database.
        wall: seconds since the epoch.
        leaving: whether the process is about to end, and streams with it.
    """

    def __init__(
        self,
        *,
        desk: RolloutService,
        upstreams: Mapping[str, Upstream],
        wall: Callable[[], float],
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._desk = desk
        self._upstreams = upstreams
        self._wall = wall
        self._leaving = leaving
        self._timelines: dict[str, tuple[tuple[Any, ...], int, Timeline | None]] = {}

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._wall()

    async def batches(self, number: int = 1) -> RolloutListPage:
        """Batches with their summary and breakers, the newest first."""
        offset = (number - 1) * BATCHES
        found = await self._desk.read(asked.batches, offset=offset, limit=BATCHES)
        items = [await self._glance(row) for row in found.rows]
        return RolloutListPage(items=items, number=number, size=BATCHES, total=found.total)

    async def _glance(self, row: Facts) -> Facts:
        batch = row["batch"]
        breaker = await self._desk.breaker(batch)
        return {**row, "summary": await self._desk.batch(batch), "lanes": breaker["lanes"]}

    async def without_batch(self) -> int:
        """How many rollouts name no batch."""
        return await self._desk.read(asked.without_batch)

    async def in_flight(self, batch: str | None = None) -> int:
        """Calls open now."""
        return await self._desk.read(asked.in_flight, batch)

    async def batch(self, batch: str) -> Facts:
        """A batch summed up, with its check, breakers and calls in flight.

        Raises:
            Refusal: 404 for a batch that no rollout names.
        """
        summary, check = await self._desk.batch_and_check(batch)
        return {
            "summary": summary,
            "check": check,
            "lanes": (await self._desk.breaker(batch))["lanes"],
            "in_flight": await self.in_flight(batch),
        }

    async def timeline(self, batch: str, *, bars: int = 60) -> Timeline | None:
        """A batch's calls over time in about so many steps; None where none has ended."""
        pulse = await self._pulse(batch, None)
        known = self._timelines.get(batch)
        if known is not None and known[:2] == (pulse, bars):
            return known[2]
        drawn = await self._drawn(batch, bars)
        if len(self._timelines) >= _KEPT:
            self._timelines.pop(next(iter(self._timelines)))
        self._timelines[batch] = (pulse, bars, drawn)
        return drawn

    async def _drawn(self, batch: str, bars: int) -> Timeline | None:
        span = await self._desk.read(asked.span, batch)
        if span is None:
            return None
        fine = max(1, math.ceil((self._wall() - span[0]) / STEPS))
        rows = await self._desk.read(asked.calls_over_time, batch, step_s=fine)
        return build_timeline(rows, fine, bars) if rows else None

    async def rollouts(
        self,
        filters: Mapping[str, str],
        *,
        search: str | None = None,
        number: int = 1,
        fresh: bool = False,
    ) -> RolloutListPage:
        """Rollouts with the verdict they have, oldest first.

        Arguments:
            search: a part of a rollout's id or task.
            fresh: what has no final verdict was judged just before.
        """

        def page() -> Awaitable[asked.RolloutQuery]:
            return self._desk.read(
                asked.found,
                filters,
                search=search,
                offset=(number - 1) * ROLLOUTS,
                limit=ROLLOUTS,
            )

        if fresh:
            found = await page()
        else:
            judged = {name: value for name, value in filters.items() if value != asked.NO_BATCH}
            found = await self._desk.listed(judged, page, _ids)
        items = [_listed(row) for row in found.rows]
        return RolloutListPage(items=items, number=number, size=ROLLOUTS, total=found.total)

    async def rollout(self, rollout_id: str, *, after: str | None = None) -> Facts:
        """One rollout: facts, outcome, verdict and a page of its calls.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        verdict = await self._desk.verdict(rollout_id)
        calls = await self._desk.exchanges(rollout_id, after=after, limit=CALLS)
        row = await self._desk.read(asked.facts, rollout_id)
        if row is None:  # its only calls could not be recorded
            raise Refusal(404, "unknown_rollout", f"nothing of {rollout_id!r} could be recorded")
        outcome = json.loads(row["outcome"]) if row["outcome"] else None
        return {"facts": row, "outcome": outcome, "verdict": verdict, "calls": calls}

    async def fingerprints(self) -> Sequence[Facts]:
        """Which causes strike how many rollouts, across batches."""
        items: Sequence[Facts] = (await self._desk.fingerprints())["items"]
        return items

    async def upstreams(self, window_s: int) -> Sequence[UpstreamHealth]:
        """How each upstream asked in the last ``window_s`` seconds did, the busiest first."""
        since = self._wall() - window_s
        rows = await self._desk.read(asked.recent_calls, since=since, limit=RECENT)
        return await run_in_thread(self._healths, rows)

    def _healths(self, rows: Iterable[Facts]) -> list[UpstreamHealth]:
        by_name: defaultdict[str, list[Facts]] = defaultdict(list)
        for row in rows:
            by_name[row["upstream"]].append(row)
        ranked = sorted(by_name.items(), key=lambda item: (-len(item[1]), item[0]))
        return [self._health(name, calls) for name, calls in ranked]

    def _health(self, name: str, calls: Sequence[Facts]) -> UpstreamHealth:
        failed = Counter(call["subcategory"] for call in calls if call["subcategory"])
        refused = failed["rejected_request"]
        asked_of_it = len(calls) - refused
        durations = [call["duration_s"] for call in calls if call["subcategory"] is None]
        first_bytes = [call["first_byte_s"] for call in calls if call["subcategory"] is None]
        upstream = self._upstreams.get(name)
        return UpstreamHealth(
            name=name,
            origin=(upstream.origin if upstream and upstream.url else ""),
            calls=len(calls),
            refused=refused,
            success_share=ratio(asked_of_it - (failed.total() - refused), asked_of_it),
            rate_limit_share=ratio(failed["rate_limit"], asked_of_it),
            failed=dict(failed.most_common()),
            latency_p50_s=quantile(durations, 0.5),
            latency_p95_s=quantile(durations, 0.95),
            first_byte_p50_s=quantile(first_bytes, 0.5),
            last_at=max(call["started_at"] for call in calls),
            keys=key_columns(calls),
        )

    async def changes(
        self, *, batch: str | None = None, rollout_id: str | None = None
    ) -> AsyncIterator[PageChange]:
        """Tells whenever what a page shows has changed, and that it still listens.

        Every process sees what any of them recorded.
        """
        before, quiet = await self._pulse(batch, rollout_id), 0
        yield PageChange("")
        while not self._leaving():
            await asyncio.sleep(_POLL_S)
            now = await self._pulse(batch, rollout_id)
            quiet = 0 if now != before else quiet + 1
            if now != before:
                yield PageChange("changed")
            elif quiet % _QUIET_POLLS == 0:
                yield PageChange("")
            before = now

    async def _pulse(self, batch: str | None, rollout_id: str | None) -> tuple[Any, ...]:
        return await self._desk.read(asked.pulse, batch=batch, rollout_id=rollout_id)


def _ids(found: asked.RolloutQuery) -> list[str]:
    return [row["id"] for row in found.rows]


def _listed(row: Facts) -> Facts:
    """A rollout as a list shows it, with what its verdict says in short."""
    verdict = json.loads(row["verdict"]) if row["verdict"] else {}
    told = ("error", "rule", "doomed", "failed_requests", "total_requests", "recovered_requests",
            "retry")  # fmt: skip
    return {**row, **{name: verdict.get(name) for name in told}}
