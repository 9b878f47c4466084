"""Sending requests over real sockets: streamed bodies, early answers, slow providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from proxy.outbound import errors
from proxy.outbound.transport import Http1Transport
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Stay, hear, playing, reset, serving
from tests.proxy.outbound.client import (
    HI,
    PATIENCE_S,
    Parts,
    fetch,
    request,
    until_idle,
)


async def test_a_body_still_arriving_is_sent_again_from_its_start(
    transport: Http1Transport,
) -> None:
    """The old connection dies after a part; what was sent is sent again, then what still comes."""
    seen: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = Heard()
        await hear(reader, heard)
        seen.extend(heard.bodies)
        writer.write(HI)
        if len(seen) == 1:
            await reader.readuntil(b"one")
            reset(writer)
            await asyncio.sleep(1)

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        await fetch(transport, url)
        body = Parts(b"one", b"two", b"three", apart_s=0.05)
        assert (await fetch(transport, url, "POST", body)).body == b"hi"
        assert seen == [b"", b"onetwothree"]


async def test_a_body_too_large_to_be_kept_is_not_sent_again(transport: Http1Transport) -> None:
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await hear(reader, Heard())
        writer.write(HI)
        await reader.readexactly(5_000_000)
        reset(writer)

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        await fetch(transport, url)
        with pytest.raises((errors.WriteError, errors.ReadError)):
            await fetch(transport, url, "POST", Parts(*[bytes(1_000_000)] * 6, apart_s=0.02))
        assert connections == 1


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"9")]])
async def test_a_body_is_sent_while_it_arrives(
    transport: Http1Transport, headers: list[tuple[bytes, bytes]]
) -> None:
    async with playing([HI, Stay()]) as server:
        parts = Parts(b"abc", b"", b"def", b"ghi", apart_s=0.01)
        await fetch(transport, server.url(), "POST", parts, headers)
        await fetch(transport, server.url())
        assert server.bodies == [b"abcdefghi", b""]
        assert server.connections == 1


@pytest.mark.parametrize("length", [b"2", b"4"])
async def test_a_body_of_another_length_than_its_head_says_poisons_no_connection(
    transport: Http1Transport, length: bytes
) -> None:
    async with playing([HI, Stay()]) as server:
        with pytest.raises(errors.LocalProtocolError):
            await fetch(
                transport, server.url(), "POST", Parts(b"a", b"bc"), [(b"content-length", length)]
            )
        assert (await fetch(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_what_follows_a_whole_body_harms_nobody_else(transport: Http1Transport) -> None:
    """The answer is here and the connection serves another call when the body turns out longer."""
    second_heard, first_over = asyncio.Event(), asyncio.Event()
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await hear(reader, Heard())
        writer.write(HI)
        await hear(reader, Heard())
        second_heard.set()
        await first_over.wait()
        writer.write(HI)

    async with serving(handler) as port, asyncio.timeout(PATIENCE_S):
        url = f"http://127.0.0.1:{port}/"
        length = [(b"content-length", b"2")]
        first = await send(transport, request(url, "POST", Parts(b"ab"), length))
        await until_idle(transport)
        second = asyncio.create_task(fetch(transport, url))
        await second_heard.wait()
        first.send_part(b"c", False)
        first_over.set()
        assert (await second).body == await read(first) == b"hi"
        assert connections == 1


async def test_an_early_answer_stops_the_sending(transport: Http1Transport) -> None:
    no = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno"
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(no)
        await reader.read()

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        parts = Parts(*[b"part"] * 1000, apart_s=0.1)
        got = await fetch(transport, url, "POST", parts)
        assert (got.status, got.body) == (413, b"no")
        assert parts.taken < 1000
        await fetch(transport, url)
        assert connections == 2
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_an_early_answer_does_not_wait_for_a_body_in_memory(
    transport: Http1Transport,
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(HI)
        await asyncio.sleep(PATIENCE_S)

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        got = await fetch(transport, url, "POST", bytes(20_000_000))
        assert got.body == b"hi"


async def test_a_server_that_leaves_stops_the_sending(transport: Http1Transport) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with serving(handler) as port:
        parts = Parts(b"one", b"two", apart_s=PATIENCE_S)
        with pytest.raises((errors.WriteError, errors.RemoteProtocolError)):
            await fetch(transport, f"http://127.0.0.1:{port}/", "POST", parts)
        assert parts.taken == 1


async def test_an_error_of_the_body_itself_comes_through(transport: Http1Transport) -> None:
    class Failing:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"one"
            raise KeyError("mine")

    async with playing([HI, Stay()]) as server:
        with pytest.raises(KeyError, match="mine"):
            await fetch(transport, server.url(), "POST", Failing())
        assert (await fetch(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_cancelling_while_sending_is_no_early_answer(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        asking = asyncio.create_task(
            fetch(transport, server.url(), "POST", Parts(*[b"part"] * 100, apart_s=0.1))
        )
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """A server that accepts and then takes nothing."""

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(PATIENCE_S)

    async with serving(handler) as port:
        yield f"http://127.0.0.1:{port}/"


async def test_an_upload_is_held_back_while_nobody_takes_it(transport: Http1Transport) -> None:
    taken = 0

    class Endless:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal taken
            while True:
                taken += 100_000
                yield bytes(100_000)
                await asyncio.sleep(0)

    async with deaf() as url:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetch(transport, url, "POST", Endless()), 0.5)
    assert taken < 20_000_000
