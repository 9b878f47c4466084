"""HTTP/1.1 transport to providers, over pooled keep-alive connections.

A request is sent a second time only if a pooled connection died before any byte came back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from proxy.outbound import errors
from proxy.outbound.connection import Connection
from proxy.outbound.dial import Connector, route
from proxy.outbound.request import SerializedRequest, UpstreamRequest, compose
from proxy.routing.address_guard import AddressGuard

# --- idle connections to one origin ------------------------------------------------------------
# The most recently used one is reused first.


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
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)
        if len(self._idle) > self._limit:
            self._drop(1)
        if self._timer is None:
            loop = connection.loop
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


# --- transport ---------------------------------------------------------------------------------


_RELIEF_S = 0.1  # in which silent connections of agents are closed for a new one


class Http1Transport:
    """Origins, each with as many connections as it takes; idle ones are pooled for reuse.

    Interim responses (1xx) and trailers are skipped. What follows a 101 is the response's body.
    """

    def __init__(
        self, *, verify: ssl.SSLContext | bool = True, reach: AddressGuard | None = None
    ) -> None:
        self._connector = Connector(verify, reach)
        self._origins: dict[str, PooledOrigin] = {}
        self._open: set[Connection] = set()

    async def __aenter__(self) -> Http1Transport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; calls in flight fail."""
        for origin in self._origins.values():
            origin.pool.clear()
        for connection in tuple(self._open):
            connection.fail(errors.ReadError("the transport was closed"))
        await asyncio.sleep(0)  # lets the loop finish with them

    def origin(self, name: str) -> PooledOrigin:
        """Return an origin, named as ``https://api.example.com``.

        Raises:
            errors.UpstreamError: there is no way to it.
        """
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = PooledOrigin(name, self)
        return origin

    async def connect(self, origin: PooledOrigin, connect_s: float | None) -> Connection:
        """Open a connection to an origin, within so many seconds."""

        def protocol() -> Connection:
            return Connection(origin.pool.keep, self._open.discard)

        try:
            connection = await self._connector.open(origin.route, protocol, connect_s)
        except errors.OwnFault:  # again, without the descriptors of idle connections
            for each in self._origins.values():
                each.pool.clear()
            await asyncio.sleep(_RELIEF_S)
            connection = await self._connector.open(origin.route, protocol, connect_s)
        if not connection.closed:
            self._open.add(connection)
        return connection


class PooledOrigin:
    """An origin: how it is reached, and its connections."""

    def __init__(self, origin: str, transport: Http1Transport) -> None:
        self.route = route(origin)
        self.pool = IdlePool()
        self._transport = transport
        via = self.route.proxy
        plaintext = via is not None and not self.route.secure
        self.prefix = origin.encode("ascii") if plaintext else b""
        self.extra_headers = via.headers if via is not None and plaintext else ()
        self.take = self.pool.take

    def compose(self, request: UpstreamRequest) -> SerializedRequest:
        """Serialize a request; nothing is sent yet.

        Raises:
            errors.UpstreamError: it cannot be sent.
        """
        return compose(request, self.prefix, self.extra_headers)

    async def connect(self, connect_s: float | None) -> Connection:
        """Open a connection within so many seconds."""
        return await self._transport.connect(self, connect_s)


class NoOrigin:
    """An origin to which there is no way: what is sent there fails."""

    def __init__(self, error: errors.UpstreamError) -> None:
        self._error = error

    def compose(self, request: UpstreamRequest) -> SerializedRequest:
        """Raise why there is none."""
        raise self._error

    def take(self) -> None:
        """Return no connection."""
        return

    async def connect(self, connect_s: float | None) -> Connection:
        """Raise why there is none."""
        raise self._error
