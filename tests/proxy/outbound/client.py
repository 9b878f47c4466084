"""Helpers of the transports' tests: send one request and read its response."""
# ruff: noqa: SLF001
# Private: the pool, until its connections are idle or closed.

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, NamedTuple

from proxy.outbound.request import UpstreamRequest
from proxy.outbound.transport import Http1Transport
from proxy.routing.headers import Pairs
from tests.fakes.asking import Asked, read, send

HI = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"
PATIENCE_S = 300


class Received(NamedTuple):
    """A response that was read to its end."""

    status: int
    headers: Pairs
    body: bytes


class Parts:
    """A request body that comes in parts, a moment apart."""

    def __init__(self, *parts: bytes, apart_s: float = 0.0) -> None:
        self._parts = parts
        self._apart_s = apart_s
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            self.taken += 1
            yield part
            await asyncio.sleep(self._apart_s)


def request(
    url: str,
    method: str = "GET",
    body: bytes | AsyncIterable[bytes] = b"",
    headers: Pairs | None = None,
    *,
    target: bytes | None = None,
    connect_s: float | None = None,
) -> Asked:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    whole, parts = (body, None) if isinstance(body, bytes) else (None, body)
    asked = UpstreamRequest(
        method,
        f"{scheme}://{host}",
        (slash + path).encode() if target is None else target,
        [(b"host", host.encode())] if headers is None else headers,
        whole,
    )
    return Asked(asked, parts, connect_s)


async def fetch(transport: Http1Transport, url: str, *args: Any, **more: Any) -> Received:
    response = await send(transport, request(url, *args, **more))
    try:
        return Received(response.status, response.headers, await read(response))
    finally:
        await response.aclose()


async def until_idle_useless(transport: Http1Transport) -> None:
    """Return once no idle connection is open."""
    (origin,) = transport._origins.values()
    async with asyncio.timeout(PATIENCE_S):
        while not all(connection.closed for connection in origin.pool._idle):
            await asyncio.sleep(0.005)


async def until_idle(transport: Http1Transport) -> None:
    """Return once a connection is idle."""
    (origin,) = transport._origins.values()
    async with asyncio.timeout(PATIENCE_S):
        while not origin.pool._idle:
            await asyncio.sleep(0.005)


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose backlog is full: connections to it are never accepted."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
