"""The idle connections to one origin: the one used last is reused first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.outbound.http1.connection import Connection

_IDLE_S = 55.0  # below the 60 s after which common load balancers drop idle connections
_IDLE_LIMIT = 512  # idle connections per origin


class IdlePool:
    """A pool of idle connections, longest idle first; it limits only how many are idle.

    Arguments:
        idle_s: how long a connection is kept idle, in seconds.
        limit: how many are kept.
    """

    def __init__(self, *, idle_s: float = _IDLE_S, limit: int = _IDLE_LIMIT) -> None:
        self._idle: list[Connection] = []
        self._idle_s = idle_s
        self._limit = limit
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> Connection | None:
        """Remove and return the connection used last that is still open, if any."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def keep(self, connection: Connection) -> None:
        """Pool a connection until it is needed, closed by the server or idle for too long."""
        loop = connection.loop
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if len(self._idle) > self._limit:
            self._drop(1)
        if self._timer is None:
            self._timer = loop.call_later(self._idle_s, self._sweep, loop)

    def clear(self) -> None:
        """Close every idle connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop(len(self._idle))

    def _drop(self, count: int) -> None:
        oldest, self._idle[:count] = self._idle[:count], []
        for connection in oldest:
            if not connection.closed:
                connection.close()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        latest = loop.time() - self._idle_s
        self._drop(_leading(self._idle, lambda idle: idle.closed or idle.idle_since <= latest))
        if self._idle:
            due = self._idle[0].idle_since + self._idle_s
            self._timer = loop.call_at(due, self._sweep, loop)


def _leading(connections: list[Connection], test: Callable[[Connection], bool]) -> int:
    """Count the connections at the front that pass a test."""
    return next((i for i, each in enumerate(connections) if not test(each)), len(connections))
