"""What pages that are open live are told: that something changed, looked for once for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from secrets import token_hex
from typing import Any, NamedTuple

from proxy.control.queries import Queries
from proxy.store import dashboard as page_queries

_POLL_S = 0.7
_APART = 3  # polls between two changes that are told: where calls go on, there is one at each
_DIGITS = 20  # of a token's ns, at most: whoever fetches a page may send more
_QUIET_POLLS = 20  # without a change until a keep-alive is sent


class PageChange(NamedTuple):
    """A change of what a page shows: ``changed``, or "" as a keep-alive.

    A page made since ``token`` was told shows the change; see `PageChanges.told_at`.
    """

    kind: str
    token: str = ""


class Subject(NamedTuple):
    """What a page is of: a batch, a rollout, or all where both are None."""

    batch: str | None = None
    rollout_id: str | None = None


class _Look(NamedTuple):
    pulse: tuple[Any, ...]
    token: str


class PageChanges:
    """Tells pages of changes, all of one subject at the same moment, so that they share the answer.

    Arguments:
        leaving: whether the process is about to end, and streams with it.
        clock: seconds that only grow.
        sleep: waits for so many seconds of that clock.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        leaving: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._queries = queries
        self._leaving = leaving
        self.clock = clock
        self._sleep = sleep
        self._process = token_hex(8)
        self._looks: dict[Subject, asyncio.Task[_Look]] = {}

    async def follow(self, subject: Subject) -> AsyncIterator[PageChange]:
        """Yield a change where any process changed what a page shows, not one after another."""
        seen = (await self._look(subject)).pulse
        yield PageChange("")
        tick, told, quiet = 0, -_APART, 0
        while not self._leaving():
            tick = await self._next_tick(tick)
            found = await self._look(subject)
            if found.pulse == seen:
                quiet += 1
                if quiet % _QUIET_POLLS == 0:
                    yield PageChange("")
            elif tick % _APART == 0 or tick - told >= _APART:
                seen, told, quiet = found.pulse, tick, 0
                yield PageChange("changed", found.token)

    def told_at(self, token: str) -> float | None:
        """Return when a change was told, on ``clock``; None if not by this process."""
        process, _, at = token.partition("-")
        known = process == self._process and at.isdecimal() and len(at) < _DIGITS
        return int(at) / 1e9 if known else None

    async def _next_tick(self, last: int) -> int:
        """Wait until all look again, and return the number of that moment."""
        now = self.clock()
        tick = max(last, int(now / _POLL_S)) + 1
        await self._sleep(tick * _POLL_S - now)
        return tick

    async def _look(self, subject: Subject) -> _Look:
        """Look at a subject, together with who does so at this moment."""
        task = self._looks.get(subject)
        if task is None:
            task = self._looks[subject] = asyncio.create_task(self._read(subject))
            task.add_done_callback(lambda _: self._looks.pop(subject))
        return await asyncio.shield(task)

    async def _read(self, subject: Subject) -> _Look:
        pulse = await self._queries.read(page_queries.pulse, **subject._asdict())
        # Rounded up: what began in the same nanosecond may have missed it.
        return _Look(pulse, f"{self._process}-{int(self.clock() * 1e9) + 1}")
