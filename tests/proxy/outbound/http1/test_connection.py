"""One connection over real sockets: left early, cancelled, gone stale between two requests."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from proxy.outbound import errors
from proxy.outbound.transport import Http1Transport
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Reset, Silence, Stay, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    PATIENCE_S,
    UNTIL_CLOSED,
    fetch,
    request,
)


async def test_leaving_early_cuts_the_connection(transport: Http1Transport) -> None:
    async with playing([UNTIL_CLOSED + b"some", Silence(30)], [HI, Stay()]) as server:
        response = await send(transport, request(server.url()))
        await response.aclose()
        assert (await fetch(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_leaving_early_is_seen_by_the_server(transport: Http1Transport) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader, Heard())
        writer.write(UNTIL_CLOSED + b"some")
        with contextlib.suppress(OSError):
            await reader.read()
        gone.set()

    async with serving(handler) as port:
        response = await send(transport, request(f"http://127.0.0.1:{port}/"))
        await response.aclose()
        await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def test_cancelling_cuts_the_connection(transport: Http1Transport) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader, Heard())
        with contextlib.suppress(OSError):
            await reader.read()
        gone.set()

    async with serving(handler) as port:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetch(transport, f"http://127.0.0.1:{port}/"), 0.5)
        await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def test_closing_after_the_end_keeps_the_connection(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        for _ in range(3):
            response = await send(transport, request(server.url()))
            await read(response)
            await response.aclose()
            await response.aclose()
        assert server.connections == 1


@pytest.mark.parametrize("end", [[], [Reset()]])
async def test_a_stale_connection_is_replaced_in_silence(
    transport: Http1Transport, end: list[Reset]
) -> None:
    async with playing([HI, Stay()], [*end], [HI, Stay()]) as server:
        await fetch(transport, server.url())
        assert (await fetch(transport, server.url(), "POST", b"again")).body == b"hi"
        assert server.bodies == [b"", b"again", b"again"]


async def test_it_is_replaced_once_and_by_a_new_connection(transport: Http1Transport) -> None:
    async with playing([Silence(0.05), HI, Stay()], [Silence(0.05), HI, Stay()], []) as server:
        await asyncio.gather(fetch(transport, server.url()), fetch(transport, server.url()))
        with pytest.raises(errors.RemoteProtocolError):
            await fetch(transport, server.url())
        assert server.connections == 3
        assert len(server.heads) == 4


async def test_a_new_connection_that_dies_is_not_replaced(transport: Http1Transport) -> None:
    async with playing([]) as server:
        with pytest.raises(errors.RemoteProtocolError):
            await fetch(transport, server.url())
        assert len(server.heads) == 1


async def test_after_the_first_byte_nothing_is_repeated(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], [b"H"], [HI, Stay()]) as server:
        await fetch(transport, server.url())
        with pytest.raises(errors.RemoteProtocolError):
            await fetch(transport, server.url())
        assert len(server.heads) == 2
