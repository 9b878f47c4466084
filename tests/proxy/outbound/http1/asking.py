"""One request through a transport, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx

Pairs = list[tuple[bytes, bytes]]


class Got(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Pairs
    body: bytes


class Parts(httpx.AsyncByteStream):
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
    body: bytes | httpx.AsyncByteStream = b"",
    headers: Pairs | None = None,
    **extensions: Any,
) -> httpx.Request:
    parsed = httpx.URL(url)
    stream = httpx.ByteStream(body) if isinstance(body, bytes) else body
    return httpx.Request(
        method,
        parsed,
        headers=[(b"host", parsed.netloc)] if headers is None else headers,
        stream=stream,
        extensions=extensions,
    )


async def ask(transport: httpx.AsyncBaseTransport, url: str, *args: Any, **more: Any) -> Got:
    response = await transport.handle_async_request(request(url, *args, **more))
    try:
        return Got(response.status_code, response.headers.raw, await read(response))
    finally:
        await response.aclose()


async def read(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return b"".join([chunk async for chunk in response.stream])
