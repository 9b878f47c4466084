"""Notices to open pages that something changed; one query serves all pages of a scope."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from secrets import token_hex
from typing import Any, NamedTuple

from proxy.control.queries import Service
from proxy.store import statistics

_POLL_PAGES_S = 0.7
_APART = 3  # polls between two announced changes: while calls go on, each poll finds one
# Of the time, for pages that are made anew. Whoever calls meanwhile waits for the interpreter: at
# 1 % these would be the slowest percent of agents' first bytes.
_SHARE = 0.005
_AT_LATEST = 15  # polls between two announced changes, however long pages take
_DIGITS = 20  # of a token's ns, at most: a browser may send more
_QUIET_POLLS = 20  # without a change until a keep-alive is sent


class PageChange(NamedTuple):
    """A change to a page's content: ``changed``, or "" as a keep-alive.

    A page made since ``token`` was announced shows the change; see `ChangeFeed.announced_at`.
    """

    kind: str
    token: str = ""


class PageScope(NamedTuple):
    """The subject of a page: a batch, a rollout, or everything if both are None."""

    batch: str | None = None
    rollout_id: str | None = None


class _Poll(NamedTuple):
    pulse: tuple[Any, ...]
    token: str


class ChangeFeed:
    """Announces changes, to all pages of one scope at the same moment: they share the answer.

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
        self._polls: dict[PageScope, asyncio.Task[_Poll]] = {}

    async def follow(self, scope: PageScope) -> AsyncIterator[PageChange]:
        """Yield one change for all that any process changed since the last one."""
        seen = (await self._poll(scope)).pulse
        yield PageChange("")
        tick, quiet = int(self.clock() / _POLL_PAGES_S), 0
        announced = tick - _APART
        while not self._service.stopping():
            tick = await self._next_tick(tick)
            if not self._due(tick, tick - announced):
                continue
            poll = await self._poll(scope)
            if poll.pulse == seen:
                quiet += 1
                if quiet % _QUIET_POLLS == 0:
                    yield PageChange("")
            else:
                seen, announced, quiet = poll.pulse, tick, 0
                yield PageChange("changed", poll.token)

    def announced_at(self, token: str) -> float | None:
        """Return when a change was announced, on ``clock``; None if not by this process."""
        process, _, at = token.partition("-")
        known = process == self._process and at.isdecimal() and len(at) < _DIGITS
        return int(at) / 1e9 if known else None

    def took(self, cpu_s: float) -> None:
        """Add the CPU seconds that were spent on making a page anew for a change."""
        now = self.clock()
        rests_until = max(self._rests_until, now) + cpu_s / _SHARE
        self._rests_until = min(rests_until, now + _AT_LATEST * _POLL_PAGES_S)

    def _due(self, tick: int, since: int) -> bool:
        """Return True if a change may be announced now, ``since`` polls after the last one."""
        if self.clock() < self._rests_until and since < _AT_LATEST:
            return False
        return tick % _APART == 0 or since >= _APART

    async def _next_tick(self, last: int) -> int:
        """Wait for the next poll of all pages, and return its number."""
        now = self.clock()
        tick = max(last, int(now / _POLL_PAGES_S)) + 1
        await self._sleep(tick * _POLL_PAGES_S - now)
        return tick

    async def _poll(self, scope: PageScope) -> _Poll:
        """Read the pulse of a scope, once for all that read it at this moment."""
        task = self._polls.get(scope)
        if task is None:
            task = self._polls[scope] = asyncio.create_task(self._read(scope))
            task.add_done_callback(lambda _: self._polls.pop(scope))
        return await asyncio.shield(task)

    async def _read(self, scope: PageScope) -> _Poll:
        pulse = await self._service.read(statistics.pulse, **scope._asdict())
        # Rounded up: a page that began in the same nanosecond may have missed it.
        return _Poll(pulse, f"{self._process}-{int(self.clock() * 1e9) + 1}")
