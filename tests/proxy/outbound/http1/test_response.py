"""Reading responses over real sockets: silence, back pressure, parts handed over as they come."""

from __future__ import annotations

import asyncio

import pytest

from proxy.outbound import errors
from proxy.outbound.request import NO_TIMEOUTS, Timeouts
from proxy.outbound.transport import Http1Transport
from tests.fakes.sockets import Heard, Silence, Stay, Step, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    PATIENCE_S,
    UNTIL_CLOSED,
    fetch,
    read,
    request,
    until_idle,
)


async def test_silence_before_the_head_times_out(transport: Http1Transport) -> None:
    async with playing([Silence(30)]) as server:
        with pytest.raises(errors.ReadTimeout):
            await fetch(transport, server.url(), timeouts=Timeouts(read_s=0.05))


async def test_silence_within_a_body_times_out_and_slowness_does_not(
    transport: Http1Transport,
) -> None:
    slow: list[Step] = [UNTIL_CLOSED]
    for _ in range(18):
        slow += [Silence(0.05), b"x"]
    async with playing(slow, [*slow, Silence(30)]) as server:
        timeouts = Timeouts(read_s=0.8)
        assert (await fetch(transport, server.url(), timeouts=timeouts)).body == b"x" * 18
        with pytest.raises(errors.ReadTimeout):
            await fetch(transport, server.url(), timeouts=timeouts)


async def test_a_reader_that_takes_its_time_is_no_silence(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        response = await transport.send(request(server.url(), timeouts=Timeouts(read_s=0.5)))
        await asyncio.sleep(0.8)
        assert await read(response) == b"hi"


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
        response = await transport.send(request(f"http://127.0.0.1:{port}/"))
        await asyncio.sleep(0.3)
        assert sent < whole / 2
        assert len(await read(response)) == whole


async def passed(
    transport: Http1Transport, timeouts: Timeouts = NO_TIMEOUTS
) -> tuple[list[bytes], bytes]:
    """The parts of an answer that were handed over as they came, and what was read of it.

    The second of its three parts is not taken."""
    handed: list[bytes] = []
    next_part = asyncio.Semaphore(0 if timeouts is NO_TIMEOUTS else 3)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader, Heard())
        for part in (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b"one", b"two", b"end"):
            writer.write(part)
            await next_part.acquire()

    def take(part: bytes) -> bool:
        handed.append(part)
        next_part.release()
        return part != b"two"

    async with serving(handler) as port:
        asked = request(f"http://127.0.0.1:{port}/", timeouts=timeouts)
        response = await transport.send(asked)
        response.body.through(take)
        next_part.release()
        return handed, await read(response)


async def test_a_part_is_handed_over_as_it_comes_or_read(transport: Http1Transport) -> None:
    assert await passed(transport) == ([b"one", b"two", b"end"], b"two")


async def test_where_silence_is_timed_every_part_is_read(transport: Http1Transport) -> None:
    assert await passed(transport, Timeouts(read_s=PATIENCE_S)) == ([], b"onetwoend")


async def test_a_connection_held_back_to_its_end_is_used_again(transport: Http1Transport) -> None:
    size = 64 * 1024 + 500
    said = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)
    async with playing([said, Stay()]) as server:
        unread = await transport.send(request(server.url()))
        await until_idle(transport)
        timeouts = Timeouts(read_s=PATIENCE_S)
        assert len((await fetch(transport, server.url(), timeouts=timeouts)).body) == size
        assert len(await read(unread)) == size
        assert server.connections == 1
