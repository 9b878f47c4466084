"""What pages show beyond REST: batches at a glance, searches, timelines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.control.batches import BatchService
from proxy.control.judge import Judge
from proxy.control.kept import Kept
from proxy.control.listing import Listing
from proxy.control.queries import Queries
from proxy.control.threads import run_in_thread
from proxy.control.timeline import STEPS, Facts, Timeline, build_timeline
from proxy.store import statistics as page_queries
from proxy.store.deployment import Deployment
from proxy.store.listing import ITEM
from proxy.store.tables import rollouts, verdicts
from truezero.models.lists import ListParameters

BATCHES = 20  # on one page
NAMELESS_S = 3600  # within which calls that named no rollout are told

_CACHED = 32  # timelines kept until something happens in their batch
_LISTED = (
    *ITEM,
    rollouts.c.skipped,
    verdicts.c.verdict,
)
_FROM_VERDICT = (
    "error", "rule", "doomed", "failed_requests", "total_requests", "recovered_requests", "retry",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPage:
    """One page of many: ``number`` from 1, ``total`` items in all."""

    items: Sequence[Facts]
    number: int
    size: int
    total: int

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, math.ceil(self.total / self.size))

    @property
    def first(self) -> int:
        """The number of the first item on the page, from 1; 0 on an empty page."""
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last(self) -> int:
        """The number of the last item on the page."""
        return (self.number - 1) * self.size + len(self.items)


class Dashboard:
    """Collects the data of pages.

    Arguments:
        wall: seconds since the epoch.
        refused: counts agents' requests that were refused since the service started, by code.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        deployment: Deployment,
        judge: Judge,
        listing: Listing,
        batches: BatchService,
        wall: Callable[[], float],
        refused: Callable[[], Mapping[str, int]],
    ) -> None:
        self._queries = queries
        self._deployment = deployment
        self._judge = judge
        self._listing = listing
        self._batches = batches
        self._wall = wall
        self._refused = refused
        self._timelines = Kept[str, tuple[Any, ...], Timeline](_CACHED)

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._wall()

    async def sign_out(self, session: str, *, ends: int) -> None:
        """Announce to every process a session that was ended before ``ends`` (epoch seconds)."""
        await self._queries.run(self._deployment.end_session, session, ends=ends, now=self._wall())

    async def use_link(self, name: str, *, ends: int) -> bool:
        """Note that a sign-in link was used; return whether this was the first time."""
        use = self._deployment.use_link
        return await self._queries.run(use, name, ends=ends, now=self._wall())

    async def batches(self, number: int = 1) -> NumberedPage:
        """Return a page of batches with their summaries and breakers, the newest first."""
        offset = (number - 1) * BATCHES
        page = await self._queries.read(page_queries.list_batches, offset=offset, limit=BATCHES)
        items = [await self._batch_item(row) for row in page.rows]
        return NumberedPage(items=items, number=number, size=BATCHES, total=page.total)

    async def _batch_item(self, row: Facts) -> Facts:
        batch = row["batch"]
        breaker = await self._batches.breaker(batch)
        summary = await self._batches.summary(batch)
        rollouts = summary["rollouts"]
        return {**row, "rollouts": rollouts, "summary": summary, "lanes": breaker["lanes"]}

    async def without_batch(self) -> int:
        """Count the rollouts without a batch."""
        return await self._queries.read(page_queries.without_batch)

    async def unnoticed(self) -> Facts:
        """Return what no verdict tells: calls that named no rollout, and refused requests."""
        since = self._wall() - NAMELESS_S
        return {
            "nameless": await self._queries.read(page_queries.unattributed, since=since),
            "refused": dict(sorted((await run_in_thread(self._refused)).items())),
        }

    async def in_flight(self, batch: str | None = None) -> int:
        """Count the calls in flight."""
        return await self._queries.read(page_queries.in_flight, batch)

    async def batch(self, batch: str) -> Facts:
        """Return a batch's summary, check, what to run again, breakers and calls in flight.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        return {
            **await self._batches.overview(batch),
            "lanes": (await self._batches.breaker(batch))["lanes"],
            "in_flight": await self.in_flight(batch),
        }

    async def timeline(self, batch: str, *, bars: int = 60) -> Timeline | None:
        """Return a batch's calls over time in about ``bars`` steps; None if none has ended."""
        state = (await self._queries.read(page_queries.pulse, batch=batch), bars)
        timeline = self._timelines.of(batch, state)
        if timeline is None:
            timeline = await self._read_timeline(batch, bars)
            if timeline is not None:
                self._timelines.keep(batch, state, timeline)
        return timeline

    async def _read_timeline(self, batch: str, bars: int) -> Timeline | None:
        span = await self._queries.read(page_queries.span, batch)
        if span is None:
            return None
        fine = max(1, math.ceil((self._wall() - span[0]) / STEPS))
        fine, rows = await self._queries.read(page_queries.calls_over_time, batch, step_s=fine)
        return build_timeline(rows, fine, bars) if rows else None

    async def rollouts(
        self, asked: ListParameters, *, fresh: bool = False
    ) -> tuple[Sequence[Facts], str | None]:
        """Return a page of rollouts with their verdicts, and the cursor of the next one.

        Arguments:
            fresh: stale verdicts were refreshed just before.
        """
        rows, following = await self._listing.rows(asked, columns=_LISTED, fresh=fresh)
        return list(map(_rollout_item, rows)), following


def _rollout_item(row: Facts) -> Facts:
    """Return a rollout as a list shows it, with the main fields of its verdict."""
    verdict = json.loads(row["verdict"]) if row["verdict"] else {}
    return {**row, **{name: verdict.get(name) for name in _FROM_VERDICT}}
