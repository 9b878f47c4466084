"""The transport over real sockets: connections kept and lost, time, pressure, TLS and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from proxy.outbound import dial, errors
from proxy.outbound.http1 import Http1Transport
from proxy.outbound.http1.connection import Connection
from proxy.outbound.http1.pool import IdlePool
from proxy.outbound.transport import NO_TIMEOUTS, Timeouts
from tests.fakes.provider import closed_port
from tests.fakes.sockets import Heard, Reset, Silence, Stay, Step, hear, playing, reset, serving
from tests.proxy.outbound.http1.asking import Parts, ask, read, request
from tests.proxy.outbound.http1.conftest import Certificate

HI = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"
PATIENCE_S = 60


# connections


async def test_one_connection_serves_one_question_after_the_other(
    transport: Http1Transport,
) -> None:
    async with playing([HI, Stay()]) as server:
        for _ in range(5):
            assert (await ask(transport, server.url())).body == b"hi"
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
        answers = await asyncio.gather(*(ask(transport, url) for _ in range(100)))
        assert {answer.body for answer in answers} == {b"hi"}
        assert connections == 100


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
        first, last = await asyncio.gather(ask(transport, url), ask(transport, url))
        assert {first.body, last.body} == {b"0", b"1"}
        assert (await ask(transport, url)).body == b"1"


async def test_the_connection_is_free_before_its_answer_was_read(
    transport: Http1Transport,
) -> None:
    async with playing([HI, Stay()]) as server:
        unread = await transport.send(request(server.url()))
        assert (await ask(transport, server.url())).body == b"hi"
        assert await read(unread) == b"hi"
        assert server.connections == 1


async def test_origins_share_nothing(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as one, playing([HI, Stay()]) as other:
        await ask(transport, one.url())
        await ask(transport, other.url())
        assert (one.connections, other.connections) == (1, 1)


async def useless_at_rest(transport: Http1Transport) -> None:
    """Return once no connection at rest is of any use."""
    (origin,) = transport._origins.values()
    async with asyncio.timeout(PATIENCE_S):
        while not all(connection.closed for connection in origin.pool._idle):
            await asyncio.sleep(0.005)


async def at_rest(transport: Http1Transport) -> None:
    """Return once a connection is at rest."""
    (origin,) = transport._origins.values()
    async with asyncio.timeout(PATIENCE_S):
        while not origin.pool._idle:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("rest", [[], [Reset()], [b"HTTP/1.1 408 Timeout\r\n\r\n", Stay()]])
async def test_a_connection_that_ended_or_spoke_at_rest_is_not_used(
    transport: Http1Transport, rest: list[Reset | bytes | Stay]
) -> None:
    async with playing([HI, Silence(0.03), *rest], [HI, Stay()]) as server:
        await ask(transport, server.url())
        await useless_at_rest(transport)
        never_repeated = Parts(b"one", b"two")
        assert (await ask(transport, server.url(), "POST", never_repeated)).body == b"hi"
        assert server.connections == 2
        assert len(server.heads) == 2


async def test_leaving_early_cuts_the_connection(transport: Http1Transport) -> None:
    async with playing([UNTIL_CLOSED + b"some", Silence(30)], [HI, Stay()]) as server:
        response = await transport.send(request(server.url()))
        await response.aclose()
        assert (await ask(transport, server.url())).body == b"hi"
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
        response = await transport.send(request(f"http://127.0.0.1:{port}/"))
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
            await asyncio.wait_for(ask(transport, f"http://127.0.0.1:{port}/"), 0.5)
        await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def test_closing_after_the_end_keeps_the_connection(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        for _ in range(3):
            response = await transport.send(request(server.url()))
            await read(response)
            await response.aclose()
            await response.aclose()
        assert server.connections == 1


async def test_the_end_of_the_transport_ends_every_call(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], [UNTIL_CLOSED + b"some", Silence(30)]) as server:
        await ask(transport, server.url())
        running = await transport.send(request(server.url()))
        await transport.aclose()
        with pytest.raises(errors.ReadError):
            await read(running)


# a connection that went stale


@pytest.mark.parametrize("end", [[], [Reset()]])
async def test_a_stale_connection_is_replaced_in_silence(
    transport: Http1Transport, end: list[Reset]
) -> None:
    async with playing([HI, Stay()], [*end], [HI, Stay()]) as server:
        await ask(transport, server.url())
        assert (await ask(transport, server.url(), "POST", b"again")).body == b"hi"
        assert server.bodies == [b"", b"again", b"again"]


async def test_it_is_replaced_once_and_by_a_new_connection(transport: Http1Transport) -> None:
    async with playing([Silence(0.05), HI, Stay()], [Silence(0.05), HI, Stay()], []) as server:
        await asyncio.gather(ask(transport, server.url()), ask(transport, server.url()))
        with pytest.raises(errors.RemoteProtocolError):
            await ask(transport, server.url())
        assert server.connections == 3
        assert len(server.heads) == 4


async def test_a_new_connection_that_dies_is_not_replaced(transport: Http1Transport) -> None:
    async with playing([]) as server:
        with pytest.raises(errors.RemoteProtocolError):
            await ask(transport, server.url())
        assert len(server.heads) == 1


async def test_after_the_first_byte_nothing_is_repeated(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], [b"H"], [HI, Stay()]) as server:
        await ask(transport, server.url())
        with pytest.raises(errors.RemoteProtocolError):
            await ask(transport, server.url())
        assert len(server.heads) == 2


async def test_after_a_timeout_nothing_is_repeated(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], [Silence(30)], [HI, Stay()]) as server:
        await ask(transport, server.url())
        with pytest.raises(errors.ReadTimeout):
            await ask(transport, server.url(), timeouts=Timeouts(read_s=0.05))
        assert len(server.heads) == 2


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
        await ask(transport, url)
        body = Parts(b"one", b"two", b"three", apart_s=0.05)
        assert (await ask(transport, url, "POST", body)).body == b"hi"
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
        await ask(transport, url)
        with pytest.raises((errors.WriteError, errors.ReadError)):
            await ask(transport, url, "POST", Parts(*[bytes(1_000_000)] * 6, apart_s=0.02))
        assert connections == 1


# requests that are still arriving


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"9")]])
async def test_a_body_is_sent_while_it_arrives(
    transport: Http1Transport, headers: list[tuple[bytes, bytes]]
) -> None:
    async with playing([HI, Stay()]) as server:
        parts = Parts(b"abc", b"", b"def", b"ghi", apart_s=0.01)
        await ask(transport, server.url(), "POST", parts, headers)
        await ask(transport, server.url())
        assert server.bodies == [b"abcdefghi", b""]
        assert server.connections == 1


@pytest.mark.parametrize("length", [b"2", b"4"])
async def test_a_body_of_another_length_than_its_head_says_poisons_no_connection(
    transport: Http1Transport, length: bytes
) -> None:
    async with playing([HI, Stay()]) as server:
        with pytest.raises(errors.LocalProtocolError):
            await ask(
                transport, server.url(), "POST", Parts(b"a", b"bc"), [(b"content-length", length)]
            )
        assert (await ask(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_what_follows_a_whole_body_harms_nobody_else(transport: Http1Transport) -> None:
    """The answer is here and the connection serves another call when the body turns out longer."""
    second_heard, first_over = asyncio.Event(), asyncio.Event()
    connections = 0

    class TooLong:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"ab"
            await second_heard.wait()
            yield b"c"

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
        first = asyncio.create_task(
            ask(transport, url, "POST", TooLong(), [(b"content-length", b"2")])
        )
        while not transport._origins:
            await asyncio.sleep(0.005)
        await at_rest(transport)
        second = asyncio.create_task(ask(transport, url))
        with pytest.raises(errors.LocalProtocolError):
            await first
        first_over.set()
        assert (await second).body == b"hi"
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
        got = await ask(transport, url, "POST", parts)
        assert (got.status, got.body) == (413, b"no")
        assert parts.taken < 1000
        await ask(transport, url)
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
        for timeouts in (NO_TIMEOUTS, Timeouts(write_s=PATIENCE_S)):
            got = await ask(transport, url, "POST", bytes(20_000_000), timeouts=timeouts)
            assert got.body == b"hi"


async def test_a_server_that_leaves_stops_the_sending(transport: Http1Transport) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with serving(handler) as port:
        parts = Parts(b"one", b"two", apart_s=PATIENCE_S)
        with pytest.raises((errors.WriteError, errors.RemoteProtocolError)):
            await ask(transport, f"http://127.0.0.1:{port}/", "POST", parts)
        assert parts.taken == 1


async def test_an_error_of_the_body_itself_comes_through(transport: Http1Transport) -> None:
    class Failing:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"one"
            raise KeyError("mine")

    async with playing([HI, Stay()]) as server:
        with pytest.raises(KeyError, match="mine"):
            await ask(transport, server.url(), "POST", Failing())
        assert (await ask(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_cancelling_while_sending_is_no_early_answer(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        asking = asyncio.create_task(
            ask(transport, server.url(), "POST", Parts(*[b"part"] * 100, apart_s=0.1))
        )
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


# time


async def test_silence_before_the_head_times_out(transport: Http1Transport) -> None:
    async with playing([Silence(30)]) as server:
        with pytest.raises(errors.ReadTimeout):
            await ask(transport, server.url(), timeouts=Timeouts(read_s=0.05))


async def test_silence_within_a_body_times_out_and_slowness_does_not(
    transport: Http1Transport,
) -> None:
    slow: list[Step] = [UNTIL_CLOSED]
    for _ in range(18):
        slow += [Silence(0.05), b"x"]
    async with playing(slow, [*slow, Silence(30)]) as server:
        timeouts = Timeouts(read_s=0.8)
        assert (await ask(transport, server.url(), timeouts=timeouts)).body == b"x" * 18
        with pytest.raises(errors.ReadTimeout):
            await ask(transport, server.url(), timeouts=timeouts)


async def test_a_reader_that_takes_its_time_is_no_silence(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        response = await transport.send(request(server.url(), timeouts=Timeouts(read_s=0.5)))
        await asyncio.sleep(0.8)
        assert await read(response) == b"hi"


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """A server that accepts and then takes nothing."""

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(PATIENCE_S)

    async with serving(handler) as port:
        yield f"http://127.0.0.1:{port}/"


async def test_a_request_that_nobody_takes_times_out(transport: Http1Transport) -> None:
    async with deaf() as url:
        for body in (bytes(30_000_000), Parts(*[bytes(1_000_000)] * 30)):
            with pytest.raises(errors.WriteTimeout):
                await ask(transport, url, "POST", body, timeouts=Timeouts(write_s=0.2))


@contextlib.contextmanager
def full() -> Iterator[int]:
    """A port whose queue is full: whoever connects there hears nothing."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_connection_that_nobody_accepts_times_out(transport: Http1Transport) -> None:
    with full() as port, pytest.raises(errors.ConnectTimeout):
        await ask(transport, f"http://127.0.0.1:{port}/", timeouts=Timeouts(connect_s=0.1))


# pressure


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
        await at_rest(transport)
        timeouts = Timeouts(read_s=PATIENCE_S)
        assert len((await ask(transport, server.url(), timeouts=timeouts)).body) == size
        assert len(await read(unread)) == size
        assert server.connections == 1


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
            await asyncio.wait_for(ask(transport, url, "POST", Endless()), 0.5)
    assert taken < 20_000_000


# names and addresses


async def test_nobody_there_is_a_connect_error(transport: Http1Transport) -> None:
    with pytest.raises(errors.ConnectError):
        await ask(transport, f"http://127.0.0.1:{closed_port()}/")


async def test_no_such_name_is_a_connect_error(transport: Http1Transport) -> None:
    with pytest.raises(errors.ConnectError):
        await ask(transport, "http://nobody.invalid/")


@pytest.mark.parametrize("url", ["ftp://h/", "ws://h/"])
async def test_other_schemes_are_refused(transport: Http1Transport, url: str) -> None:
    with pytest.raises(errors.UnsupportedProtocol):
        await ask(transport, url)


async def test_ipv6(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], host="::1") as server:
        assert (await ask(transport, server.url())).body == b"hi"
        assert server.heads[0].startswith(b"GET / HTTP/1.1\r\nhost: [::1]:")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_name_is_reached_in_whichever_family_answers(
    transport: Http1Transport, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(_: str, port: int) -> list[dial.Address]:
        return [(socket.AF_INET6, ("::1", port)), (socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", both)
    async with playing([HI, Stay()], host=host) as server:
        assert (await ask(transport, f"http://two.test:{server.port}/")).body == b"hi"


async def test_an_address_that_hangs_costs_a_quarter_of_a_second(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([HI, Stay()]) as server:
        with full() as hanging:

            async def both(_: str, __: int) -> list[dial.Address]:
                there = ("127.0.0.1", hanging), ("127.0.0.1", server.port)
                return [(socket.AF_INET, where) for where in there]

            monkeypatch.setattr(dial, "_addresses", both)
            began = time.monotonic()
            assert (await ask(transport, "http://two.test/")).body == b"hi"
            assert time.monotonic() - began > 0.2
    assert dial._HEAD_START_S == 0.25


async def test_where_no_address_answers_the_last_error_counts(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(_: str, __: int) -> list[dial.Address]:
        return [(socket.AF_INET, ("127.0.0.1", closed_port())) for _ in range(3)]

    monkeypatch.setattr(dial, "_addresses", both)
    with pytest.raises(errors.ConnectError):
        await ask(transport, "http://two.test/")


async def test_who_asks_for_a_name_at_the_same_time_shares_the_look_up(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = 0

    async def counted(_: str, port: int) -> list[dial.Address]:
        nonlocal looked_up
        looked_up += 1
        await asyncio.sleep(0.05)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", counted)
    async with playing([HI]) as server:
        url = f"http://name.test:{server.port}/"
        hasty = asyncio.create_task(ask(transport, url))
        calls = [asyncio.create_task(ask(transport, url)) for _ in range(20)]
        await asyncio.sleep(0)
        hasty.cancel()
        assert {got.body for got in await asyncio.gather(*calls)} == {b"hi"}
    assert looked_up == 1


def test_families_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    given = [(six, 1), (six, 2), (six, 3), (four, 4)]
    assert dial._interleaved(given) == [(six, 1), (four, 4), (six, 2), (six, 3)]


# TLS


async def test_tls(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI, Stay()], tls=certificate.served()) as server,
    ):
        for host in ("localhost", "127.0.0.1"):
            for _ in range(3):
                url = f"https://{host}:{server.port}/"
                assert (await ask(transport, url, "POST", bytes(300_000))).body == b"hi"
        assert server.connections == 2


async def test_a_body_over_tls_that_ends_with_the_connection(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([UNTIL_CLOSED + b"to the end"], tls=certificate.served()) as server,
    ):
        assert (await ask(transport, server.url(scheme="https"))).body == b"to the end"


async def test_a_large_answer_over_tls_is_held_back_and_whole(certificate: Certificate) -> None:
    said = b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n" + bytes(5_000_000)
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([said, Stay()], tls=certificate.served()) as server,
    ):
        response = await transport.send(request(server.url(scheme="https")))
        await asyncio.sleep(0.1)
        assert len(await read(response)) == 5_000_000


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    transport: Http1Transport, certificate: Certificate
) -> None:
    async with playing([HI], tls=certificate.served()) as server:
        with pytest.raises(errors.ConnectError):
            await ask(transport, server.url(scheme="https"))
        assert not server.heads


async def test_a_certificate_for_another_name_is_refused(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def here(_: str, port: int) -> list[dial.Address]:
        return [(socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", here)
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI], tls=certificate.served()) as server,
    ):
        with pytest.raises(errors.ConnectError):
            await ask(transport, f"https://other.test:{server.port}/")
        assert not server.heads


async def test_verification_can_be_switched_off(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=False) as transport,
        playing([HI], tls=certificate.served()) as server,
    ):
        assert (await ask(transport, server.url(scheme="https"))).body == b"hi"


async def test_only_http_1_1_is_offered(certificate: Certificate) -> None:
    context = certificate.served()
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[str | None] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        chosen.append(tls.selected_alpn_protocol())
        await hear(reader, Heard())
        writer.write(HI)

    async with Http1Transport(verify=False) as transport, serving(handler, tls=context) as port:
        await ask(transport, f"https://127.0.0.1:{port}/")
    assert chosen == ["http/1.1"]


async def test_a_server_without_tls_is_a_connect_error(transport: Http1Transport) -> None:
    async with playing([HI]) as server:

        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with serving(plain) as server.port:
            with pytest.raises(errors.ConnectError):
                await ask(transport, server.url(scheme="https"))


# the operator's proxies


@dataclass
class Tunnels:
    """What a forward proxy was asked for."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def tunnelling(answer: bytes = b"HTTP/1.1 200 Connected\r\n\r\n") -> AsyncIterator[Tunnels]:
    tunnels = Tunnels()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        tunnels.heads.append(head)
        writer.write(answer)
        if b" 200 " not in answer:
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        to, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(to, writer))

    async with serving(handler) as tunnels.port:
        yield tunnels


async def test_https_goes_through_a_tunnel(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        tunnelling() as proxy,
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI, Stay()], tls=certificate.served()) as server,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        for _ in range(2):
            got = await ask(transport, f"https://localhost:{server.port}/")
            assert got.body == b"hi"
    authority = b"localhost:%d" % server.port
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n" % (authority, authority))
    assert b"proxy-authorization: Basic bWU6cEBzcw==\r\n" in head
    assert b"proxy-authorization" not in server.heads[0]


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 407 Who are you\r\n\r\n", b"HTTP/1.1 502 No\r\n\r\n", b"nonsense\r\n\r\n", b""],
)
async def test_a_proxy_that_refuses_is_a_proxy_error(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    async with tunnelling(answer) as proxy:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
        with pytest.raises(errors.ForwardProxyError):
            await ask(transport, "https://provider.test/")


async def test_plain_http_goes_to_a_proxy_with_the_whole_url(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([HI, Stay()]) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{proxy.port}/")
        assert (await ask(transport, "http://provider.test/v1/x?y=1")).body == b"hi"
    assert proxy.heads[0].startswith(b"GET http://provider.test/v1/x?y=1 HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: Basic bWU6cHc=\r\n" in proxy.heads[0]


@pytest.mark.parametrize("spared", ["127.0.0.1", "localhost,127.0.0.1:{port}", "*"])
async def test_no_proxy_is_respected(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, spared: str
) -> None:
    async with playing([HI, Stay()]) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
        monkeypatch.setenv("no_proxy", spared.format(port=server.port))
        assert (await ask(transport, server.url())).body == b"hi"


async def test_a_proxy_that_is_not_there_is_a_connect_error(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(errors.ConnectError):
        await ask(transport, "https://provider.test/")


@pytest.mark.parametrize("named", ["socks5://127.0.0.1:1", "https://127.0.0.1:1"])
async def test_proxies_of_another_kind_are_refused(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(errors.ForwardProxyError):
        await ask(transport, "https://provider.test/")


# connections at rest


class Resting(Connection):
    """A connection that only notes that it was closed."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, lambda _: None)

    def close(self) -> None:
        self.closed = True


@pytest.mark.reaches_in
async def test_connections_too_long_at_rest_are_closed() -> None:
    shelf = IdlePool(idle_s=0.8)
    old, young = Resting(), Resting()
    shelf.keep(old)
    await asyncio.sleep(0.7)
    shelf.keep(young)
    async with asyncio.timeout(PATIENCE_S):
        while not old.closed:
            await asyncio.sleep(0.001)
    assert (old.closed, young.closed) == (True, False)
    assert shelf.take() is young
    assert shelf.take() is None
    await asyncio.sleep(1.0)
    assert not young.closed


@pytest.mark.reaches_in
async def test_too_many_at_rest_close_the_oldest() -> None:
    shelf = IdlePool(limit=2)
    connections = [Resting() for _ in range(3)]
    for connection in connections:
        shelf.keep(connection)
    assert [connection.closed for connection in connections] == [True, False, False]
    shelf.clear()
