"""What an operator is told of without asking: open breakers, batches, upstreams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.control.batches import BatchService
from proxy.control.page_paths import path_of
from proxy.control.queries import Queries
from proxy.control.upstream_service import UpstreamService
from proxy.routing.errors import Refusal
from proxy.store.batches import newest
from proxy.store.database import Database
from proxy.store.deployment import Condition

BREAKER, BATCH, UPSTREAM = "breaker.opened", "batch.unpublishable", "upstream.failing"

_RECENT_S = 3600.0  # older breakers and batches without a rollout since are yesterday's
_BATCHES = 50  # the newest ones, looked at
_WINDOW_S = 900.0  # of an upstream's calls
_FAILING_S = 120.0  # for which most of its calls have failed
_NAMED = 10  # rollouts in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is wrong now, and which kinds and subjects were looked at."""

    conditions: tuple[Condition, ...]
    watched: frozenset[str]


class AlertWatch:
    """Finds what an operator is to be told of.

    Arguments:
        address: base URL of the pages, for links; None leaves them out.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        database: Database,
        batches: BatchService,
        upstreams: UpstreamService,
        address: str | None,
        wall: Callable[[], float],
    ) -> None:
        self._queries = queries
        self._alerts = database.alerts
        self._batches = batches
        self._upstreams = upstreams
        self._address = address
        self._wall = wall

    async def look(self) -> Watched:
        """Look at everything once.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        now = self._wall()
        found = [*await self._breakers(now), *await self._failing(now)]
        looked = {BREAKER, UPSTREAM}
        for row in await self._queries.read(newest, limit=_BATCHES):
            if row["last_at"] >= now - _RECENT_S:
                looked.add(f"{BATCH}:{row['batch']}")
                found += await self._batch(row["batch"], now)
        return Watched(conditions=tuple(found), watched=frozenset(looked))

    async def _breakers(self, now: float) -> list[Condition]:
        states = await self._queries.run(self._alerts.open_breakers, since=now - _RECENT_S, now=now)
        return [
            Condition(
                kind=BREAKER,
                subject=f"{state.batch}/{state.lane}",
                at=state.opened_at or now,
                data={
                    "batch": state.batch,
                    "lane": state.lane,
                    "fingerprint": state.fingerprint,
                    "streak": state.streak,
                    "tripped_by": list(state.tripped_by[:_NAMED]),
                    **self._link(path_of("batches", state.batch)),
                },
            )
            for state in states
        ]

    async def _failing(self, now: float) -> list[Condition]:
        report = await self._upstreams.report(now - _WINDOW_S)
        return [
            Condition(
                kind=UPSTREAM,
                subject=each.name,
                at=since,
                data={
                    "upstream": each.name,
                    "failing_since": since,
                    "calls": each.stats.calls,
                    "failed": dict(each.stats.failed),
                    "error_rate": each.stats.error_rate,
                    **self._link("/ui/upstreams"),
                },
            )
            for each in report.items
            if (since := each.stats.failing_since) is not None and since <= now - _FAILING_S
        ]

    async def _batch(self, batch: str, now: float) -> list[Condition]:
        try:
            objections = await self._batches.objections(batch)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return []  # deleted meanwhile
        if objections <= 0:
            return []
        data = {"batch": batch, "objections": objections, **self._link(path_of("batches", batch))}
        return [Condition(kind=BATCH, subject=batch, at=now, data=data)]

    def _link(self, path: str) -> dict[str, Any]:
        return {} if self._address is None else {"url": self._address.rstrip("/") + path}
