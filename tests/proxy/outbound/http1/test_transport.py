"""The transport over real sockets: one pool for each origin, and its end."""

from __future__ import annotations

import asyncio

import pytest

from proxy.outbound import errors
from proxy.outbound.transport import Http1Transport
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Silence, Stay, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    UNTIL_CLOSED,
    fetch,
    request,
)


async def test_one_connection_serves_one_question_after_the_other(
    transport: Http1Transport,
) -> None:
    async with playing([HI, Stay()]) as server:
        for _ in range(5):
            assert (await fetch(transport, server.url())).body == b"hi"
        assert server.connections == 1


async def test_questions_at_the_same_time_have_connections_of_their_own(
    transport: Http1Transport,
) -> None:
    everybody = asyncio.Barrier(100)
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await hear(reader, Heard())
        await everybody.wait()
        writer.write(HI)
        await reader.read()

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        answers = await asyncio.gather(*(fetch(transport, url) for _ in range(100)))
        assert {answer.body for answer in answers} == {b"hi"}
        assert connections == 100


async def test_the_connection_is_free_before_its_answer_was_read(
    transport: Http1Transport,
) -> None:
    async with playing([HI, Stay()]) as server:
        unread = await send(transport, request(server.url()))
        assert (await fetch(transport, server.url())).body == b"hi"
        assert await read(unread) == b"hi"
        assert server.connections == 1


async def test_origins_share_nothing(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as one, playing([HI, Stay()]) as other:
        await fetch(transport, one.url())
        await fetch(transport, other.url())
        assert (one.connections, other.connections) == (1, 1)


async def test_the_end_of_the_transport_ends_every_call(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], [UNTIL_CLOSED + b"some", Silence(30)]) as server:
        await fetch(transport, server.url())
        running = await send(transport, request(server.url()))
        await transport.aclose()
        with pytest.raises(errors.ReadError):
            await read(running)
