"""Live updates: the event stream of a batch, and notices to open pages that something changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from secrets import token_hex
from typing import Any, NamedTuple

from proxy.control import judge
from proxy.control.queries import Service
from proxy.store import statistics
from proxy.store.tables import Row

_POLL_S = 0.3
_NOTIFIED_POLL_S = 1.0  # where the database notifies of new events
_GROUP_S = 0.05  # so that a burst of events is read in groups
_DOOM = ("subcategory", "fingerprint", "error", "lane")


class BatchEvent(NamedTuple):
    """One event of a batch; without a kind it is a keep-alive."""

    id: int
    kind: str
    data: dict[str, Any]


async def follow(
    service: Service, batch: str, *, after: int | None = None
) -> AsyncIterator[BatchEvent]:
    """Yield the events of a batch that any process recorded, until this process ends.

    Arguments:
        after: the id of the last event already received; None starts with the next one.
    """
    stored = service.database.events
    position = await service.run(stored.last_id) if after is None else after
    doomed: set[str] = set()
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    with stored.subscribe(lambda: loop.call_soon_threadsafe(news.set)) as notified:
        while not service.stopping():
            news.clear()
            rows, position = await service.run(stored.of_batch, batch, after=position)
            judged: set[str] = set()  # of this group; their verdicts hold for all of it
            for row in rows:
                for event in await _events(service, row, judged, doomed):
                    yield event
            if not rows:
                yield BatchEvent(position, "", {})
                await _wait(news if notified else None)


async def _events(
    service: Service, row: Row, judged: set[str], doomed: set[str]
) -> list[BatchEvent]:
    """Return a stored event, followed by `rollout_doomed` if it doomed its rollout."""
    event = BatchEvent(row["id"], row["kind"], _data(row, json.loads(row["data"])))
    rollout = row["rollout_id"]
    if event.kind != "exchange_failed" or rollout in judged or rollout in doomed:
        return [event]
    judged.add(rollout)
    verdict = await judge.verdict(service, rollout)
    if not verdict["doomed"]:
        return [event]
    doomed.add(rollout)
    data = _data(row, {name: verdict[name] for name in _DOOM})
    return [event, BatchEvent(event.id, "rollout_doomed", data)]


def _data(row: Row, data: dict[str, Any]) -> dict[str, Any]:
    return {"rollout_id": row["rollout_id"], "at": row["at"], **data}


async def _wait(news: asyncio.Event | None) -> None:
    """Wait until it is time to read events again; None if nobody notifies of them."""
    if news is None:
        await asyncio.sleep(_POLL_S)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), _NOTIFIED_POLL_S)
    await asyncio.sleep(_GROUP_S)


# --- changes for open pages --------------------------------------------------------------------
# Looked for once for all pages that are open.


_LOOK_S = 0.7
_APART = 3  # polls between two changes that are told: where calls go on, there is one at each
# Of the time, for pages that are made anew. Whoever calls meanwhile waits for the interpreter: at
# 1 % these would be the slowest percent of agents' first bytes.
_SHARE = 0.005
_AT_LATEST = 15  # polls between two changes that are told, whatever pages take
_DIGITS = 20  # of a token's ns, at most: whoever fetches a page may send more
_QUIET_POLLS = 20  # without a change until a keep-alive is sent


class PageChange(NamedTuple):
    """A change of what a page shows: ``changed``, or "" as a keep-alive.

    A page made since ``token`` was told shows the change; see `ChangeFeed.announced_at`.
    """

    kind: str
    token: str = ""


class PageScope(NamedTuple):
    """The subject of a page: a batch, a rollout, or everything if both are None."""

    batch: str | None = None
    rollout_id: str | None = None


class _Look(NamedTuple):
    pulse: tuple[Any, ...]
    token: str


class ChangeFeed:
    """Tells pages of changes, all of one subject at the same moment, so that they share the answer.

    The more CPU pages take that are fetched again (`took`), the more rarely: half a percent of the
    time in all, but no change waits longer than some ten seconds.

    Arguments:
        clock: seconds that only grow.
        sleep: waits for so many seconds of that clock.
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = service
        self.clock = clock
        self._sleep = sleep
        self._process = token_hex(8)
        self._rests_until = 0.0
        self._looks: dict[PageScope, asyncio.Task[_Look]] = {}

    async def follow(self, subject: PageScope) -> AsyncIterator[PageChange]:
        """Yield a change where any process changed what a page shows, not one after another."""
        seen = (await self._look(subject)).pulse
        yield PageChange("")
        tick, quiet = int(self.clock() / _LOOK_S), 0
        announced = tick - _APART
        while not self._service.stopping():
            tick = await self._next_tick(tick)
            if not self._due(tick, tick - announced):
                continue
            found = await self._look(subject)
            if found.pulse == seen:
                quiet += 1
                if quiet % _QUIET_POLLS == 0:
                    yield PageChange("")
            else:
                seen, announced, quiet = found.pulse, tick, 0
                yield PageChange("changed", found.token)

    def announced_at(self, token: str) -> float | None:
        """Return when a change was announced, on ``clock``; None if not by this process."""
        process, _, at = token.partition("-")
        known = process == self._process and at.isdecimal() and len(at) < _DIGITS
        return int(at) / 1e9 if known else None

    def took(self, cpu_s: float) -> None:
        """Count what it took to make a page anew for a change, in seconds of CPU."""
        now = self.clock()
        rests_until = max(self._rests_until, now) + cpu_s / _SHARE
        self._rests_until = min(rests_until, now + _AT_LATEST * _LOOK_S)

    def _due(self, tick: int, since: int) -> bool:
        """Return True if a change may be announced now, ``since`` polls after the last one."""
        if self.clock() < self._rests_until and since < _AT_LATEST:
            return False
        return tick % _APART == 0 or since >= _APART

    async def _next_tick(self, last: int) -> int:
        """Wait until all look again, and return the number of that moment."""
        now = self.clock()
        tick = max(last, int(now / _LOOK_S)) + 1
        await self._sleep(tick * _LOOK_S - now)
        return tick

    async def _look(self, subject: PageScope) -> _Look:
        """Look at a subject, together with who does so at this moment."""
        task = self._looks.get(subject)
        if task is None:
            task = self._looks[subject] = asyncio.create_task(self._read(subject))
            task.add_done_callback(lambda _: self._looks.pop(subject))
        return await asyncio.shield(task)

    async def _read(self, subject: PageScope) -> _Look:
        pulse = await self._service.read(statistics.pulse, **subject._asdict())
        # Rounded up: what began in the same nanosecond may have missed it.
        return _Look(pulse, f"{self._process}-{int(self.clock() * 1e9) + 1}")
