"""The transport sends what it is given, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest

from proxy.outbound import errors
from proxy.outbound.connection import Connection
from proxy.outbound.transport import Http1Transport, IdlePool
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Reset, Silence, Stay, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    UNTIL_CLOSED,
    Parts,
    fetch,
    request,
    until_idle_useless,
)

# --------------------------------------------------------------------------------------------------
# Idle connections over real sockets: the last used first, none kept for too long or dead


async def test_the_connection_used_last_is_used_first(transport: Http1Transport) -> None:
    names: list[int] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = len(names)
        names.append(name)
        while True:
            await hear(reader, Heard())
            await asyncio.sleep(0.05 * name if len(names) < 3 else 0)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % name)

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        first, last = await asyncio.gather(fetch(transport, url), fetch(transport, url))
        assert {first.body, last.body} == {b"0", b"1"}
        assert (await fetch(transport, url)).body == b"1"


@pytest.mark.parametrize("rest", [[], [Reset()], [b"HTTP/1.1 408 Timeout\r\n\r\n", Stay()]])
async def test_a_connection_that_ended_or_spoke_at_rest_is_not_used(
    transport: Http1Transport, rest: list[Reset | bytes | Stay]
) -> None:
    async with playing([HI, Silence(0.03), *rest], [HI, Stay()]) as server:
        await fetch(transport, server.url())
        await until_idle_useless(transport)
        never_repeated = Parts(b"one", b"two")
        assert (await fetch(transport, server.url(), "POST", never_repeated)).body == b"hi"
        assert server.connections == 2
        assert len(server.heads) == 2


class HandTurned:
    """An event loop's clock and timers, turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., None], *given: object) -> Mock:
        return self.call_at(self.now + delay, callback, *given)

    def call_at(self, when: float, callback: Callable[..., None], *given: object) -> Mock:
        self._timers.append((when, callback, given))
        return Mock()

    def turn(self, seconds: float) -> None:
        """Let time go by, and run what falls due."""
        self.now += seconds
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, callback, given in due:
            callback(*given)


class Idle(Connection):
    """A connection that only notes that it was closed."""

    def __init__(self, clock: HandTurned | None = None) -> None:
        super().__init__(lambda _: None, lambda _: None)
        if clock is not None:
            self.loop = cast(asyncio.AbstractEventLoop, clock)

    def close(self) -> None:
        self.closed = True


@pytest.mark.reaches_in
async def test_connections_idle_for_too_long_are_closed() -> None:
    clock = HandTurned()
    pool = IdlePool(idle_s=10)
    old, young = Idle(clock), Idle(clock)
    pool.keep(old)
    clock.turn(9)
    pool.keep(young)
    assert not old.closed
    clock.turn(1)
    assert (old.closed, young.closed) == (True, False)
    clock.turn(8)
    assert pool.take() is young
    assert pool.take() is None
    clock.turn(100)
    assert not young.closed, "the pool has nothing to do with it any more"


@pytest.mark.reaches_in
async def test_the_last_idle_connection_is_closed_on_time_too() -> None:
    clock = HandTurned()
    pool = IdlePool(idle_s=10)
    old, young = Idle(clock), Idle(clock)
    pool.keep(old)
    clock.turn(9)
    pool.keep(young)
    clock.turn(9)
    assert not young.closed
    clock.turn(1)
    assert young.closed


@pytest.mark.reaches_in
async def test_too_many_idle_connections_close_the_oldest() -> None:
    pool = IdlePool(limit=2)
    connections = [Idle() for _ in range(3)]
    for connection in connections:
        pool.keep(connection)
    assert [connection.closed for connection in connections] == [True, False, False]
    pool.clear()
    assert all(connection.closed for connection in connections)


# --- The transport over real sockets: one pool for each origin, and its end -----------------------


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
