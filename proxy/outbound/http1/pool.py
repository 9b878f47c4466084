"""Connections at rest, by origin: the last one laid down is the first one taken up.

It opens none, and sets no limit on how many are in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.outbound.http1.connection import Connection

_IDLE_S = 55.0  # below the 60 s after which common load balancers drop idle connections
_IDLE_LIMIT = 512  # connections at rest per origin


class IdlePool:
    """The connections to one origin that are at rest, longest idle first."""

    def __init__(self, *, idle_s: float = _IDLE_S, limit: int = _IDLE_LIMIT) -> None:
        self._idle: list[Connection] = []
        self._idle_s = idle_s
        self._limit = limit
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> Connection | None:
        """The youngest connection that is still open, if any."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def keep(self, connection: Connection) -> None:
        """Lay a connection down until it is needed, the server closes it, or it is too old."""
        loop = connection.loop
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if len(self._idle) > self._limit:
            self._drop(1)
        if self._timer is None:
            self._timer = loop.call_later(self._idle_s, self._sweep)

    def clear(self) -> None:
        """Close them all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop(len(self._idle))

    def _drop(self, count: int) -> None:
        oldest, self._idle[:count] = self._idle[:count], []
        for connection in oldest:
            if not connection.closed:
                connection.close()

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        latest = loop.time() - self._idle_s
        self._drop(_leading(self._idle, lambda idle: idle.closed or idle.idle_since <= latest))
        if self._idle:
            due = self._idle[0].idle_since + self._idle_s
            self._timer = loop.call_at(due, self._sweep)


def _leading(connections: list[Connection], test: Callable[[Connection], bool]) -> int:
    """How many from the front pass the test."""
    return next((i for i, each in enumerate(connections) if not test(each)), len(connections))
