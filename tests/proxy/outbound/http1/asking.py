"""One request through a transport, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, NamedTuple

from proxy.outbound.transport import (
    NO_TIMEOUTS,
    Timeouts,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTransport,
)
from proxy.routing.headers import Pairs


class Got(NamedTuple):
    """An answer that was read to its end."""

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
    timeouts: Timeouts = NO_TIMEOUTS,
) -> UpstreamRequest:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return UpstreamRequest(
        method,
        f"{scheme}://{host}",
        (slash + path).encode() if target is None else target,
        [(b"host", host.encode())] if headers is None else headers,
        body,
        timeouts,
    )


async def ask(transport: UpstreamTransport, url: str, *args: Any, **more: Any) -> Got:
    response = await transport.send(request(url, *args, **more))
    try:
        return Got(response.status, response.headers, await read(response))
    finally:
        await response.aclose()


async def read(response: UpstreamResponse) -> bytes:
    return b"".join([chunk async for chunk in response.body])
