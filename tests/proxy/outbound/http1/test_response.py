"""Reading responses over real sockets: back pressure, and what it leaves of a connection."""

from __future__ import annotations

import asyncio

from proxy.outbound.transport import Http1Transport
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Stay, hear, playing, serving
from tests.proxy.outbound.client import (
    fetch,
    request,
    until_idle,
)


async def test_a_provider_is_held_back_while_nobody_reads(transport: Http1Transport) -> None:
    sent = 0
    whole = 50_000_000

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await hear(reader, Heard())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % whole)
        while sent < whole:
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    async with serving(handler) as port:
        response = await send(transport, request(f"http://127.0.0.1:{port}/"))
        await asyncio.sleep(0.3)
        assert sent < whole / 2
        assert len(await read(response)) == whole


async def test_a_connection_held_back_to_its_end_is_used_again(transport: Http1Transport) -> None:
    size = 64 * 1024 + 500
    said = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)
    async with playing([said, Stay()]) as server:
        unread = await send(transport, request(server.url()))
        await until_idle(transport)
        assert len((await fetch(transport, server.url())).body) == size
        assert len(await read(unread)) == size
        assert server.connections == 1
