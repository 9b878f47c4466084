"""The server's side of an agent's connection: what uvicorn's own does not see to."""

from __future__ import annotations

import json
import socket
from asyncio import Transport
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Event
from typing import Any

import pytest

from classifier.records import Ending
from proxy.inbound.connections import ConnectionLimits, ConnectionTable
from proxy.inbound.http import HEAD_LIMIT, HttpProtocol, RequestCycle
from proxy.inbound.parser import RepeatedHead
from tests.fakes import answers
from tests.fakes.provider import Cut, Provider, Wait
from tests.fakes.relaying import Book, Relaying, relaying, running
from tests.waiting import until

_BEYOND_BUFFERS = 1024 * HEAD_LIMIT  # which a busy service need not have read yet
PATH = b"/r/r1/openai/v1/chat/completions"


def told(relay: Relaying, *, head: bytes = b"", line: bytes, most: int) -> tuple[bytes, int]:
    """What a relay answers to a request without an end, and how many bytes of it were sent."""
    sent = 0
    with socket.create_connection(("127.0.0.1", relay.port), 5) as agent:
        try:
            agent.sendall(b"POST " + PATH + b" HTTP/1.1\r\n" + head)
            while sent < most:
                agent.sendall(line)
                sent += len(line)
        except OSError:
            pass  # it hung up
        try:
            return agent.recv(65536), sent
        except ConnectionError:
            return b"", sent


@pytest.mark.parametrize("line", [b"x-a: b\r\n" * 100, b"x" * 1000], ids=["lines", "one line"])
def test_a_head_without_an_end_is_refused(line: bytes) -> None:
    with Provider() as provider, relaying(provider.url) as relay:
        answer, sent = told(relay, line=line, most=_BEYOND_BUFFERS)
        assert sent < _BEYOND_BUFFERS
        if answer:  # a reset may overtake it
            assert answer.startswith(b"HTTP/1.1 431 ")
            assert b"x-truezero-refusal: head_too_large" in answer
        assert provider.requests == []
        assert relay.book.exchanges == []


def test_a_long_head_that_ends_is_relayed() -> None:
    many = b"".join(b"x-header-%d: %b\r\n" % (n, b"v" * 100) for n in range(400))
    assert len(many) < HEAD_LIMIT
    with Provider(answers.chat()) as provider, relaying(provider.url) as relay:
        request = b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" + many
        answer = relay.raw(request + b"content-length: 2\r\n\r\n{}")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert provider.requests[0].header("x-header-399") == "v" * 100


def test_an_agents_call_that_is_answered_frees_its_connection_for_the_next() -> None:
    request = b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n"
    with Provider(answers.chat()) as provider, relaying(provider.url) as relay:
        last = request + b"connection: close\r\n\r\n{}"
        answer = relay.raw(request + b"\r\n{}" + request + b"\r\n{}" + last)
        assert answer.count(b"HTTP/1.1 200 ") == 3
        assert len(relay.book.wait_for(3)) == 3


def test_nothing_is_read_behind_eight_calls_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[HttpProtocol] = []
    on_made = HttpProtocol.connection_made

    def noting(self: HttpProtocol, transport: Transport) -> None:
        lines.append(self)
        on_made(self, transport)

    monkeypatch.setattr(HttpProtocol, "connection_made", noting)
    request = b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"
    answer = Event()
    with (
        Provider((Wait(answer), Cut())) as provider,
        relaying(provider.url) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 60) as agent,
    ):
        agent.sendall(request * 8)
        until(lambda: any(len(line._cycles) == 8 for line in lines))
        assert all(line._flow.transport.is_reading() for line in lines if line._cycles)
        agent.sendall(request)
        until(lambda: any(not line._flow.transport.is_reading() for line in lines if line._cycles))
        answer.set()


@pytest.mark.reaches_in  # compiled code calls `_take` without looking it up
def test_a_call_that_begins_late_reads_nothing_behind_eight_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which a busy service's first call does: its body is asked for when the others have come."""
    begun = Event()
    lines: list[HttpProtocol] = []
    take = HttpProtocol._take

    def noting(self: HttpProtocol, cycle: RequestCycle) -> None:
        lines[:] = [self]
        take(self, cycle)
        if len(self._cycles) == 9:
            self._cycles[0].pause_body()
            self._cycles[0].resume_body()
            begun.set()

    monkeypatch.setattr(HttpProtocol, "_take", noting)
    request = b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"
    answer = Event()
    with (
        Provider((Wait(answer), Cut())) as provider,
        relaying(provider.url) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 60) as agent,
    ):
        agent.sendall(request * 9)
        assert begun.wait(60)
        assert not lines[0]._flow.transport.is_reading()
        answer.set()


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "head and body apart"])
def test_heads_that_come_again_are_relayed_with_their_own_bodies(
    apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[int] = []
    on_repeated = HttpProtocol.on_repeated

    def noting(self: HttpProtocol, head: RepeatedHead, body: bytes, more_body: bool) -> None:
        known.append(len(body))
        on_repeated(self, head, body, more_body)

    monkeypatch.setattr(HttpProtocol, "on_repeated", noting)
    bodies = [b'{"model": "m-%d", "n": "%b"}' % (n, b"x" * n * n) for n in range(7)]
    bodies[5] = b""  # with which nothing comes behind the head
    head = b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\nx-kept: 1\r\nContent-Length: %d\r\n\r\n"
    with Provider(answers.chat()) as provider, relaying(provider.url) as relay:
        with socket.create_connection(("127.0.0.1", relay.port), 60) as agent:
            answered = agent.makefile("rb")
            for body in bodies:
                agent.sendall(head % len(body) + (b"" if apart else body))
                if apart:
                    agent.sendall(body)
                assert answered.readline().startswith(b"HTTP/1.1 200 ")
                headers = dict(line.split(b": ", 1) for line in iter(answered.readline, b"\r\n"))
                answered.read(int(headers[b"content-length"]))
        assert [request.body for request in provider.requests] == bodies
        assert {request.header("x-kept") for request in provider.requests} == {"1"}
        recorded = relay.book.wait_for(len(bodies))
    assert [each.model for each in recorded] == [f"m-{n}" if n != 5 else None for n in range(7)]
    assert len(known) == 5, "all but the first two"


def test_heads_that_take_turns_are_each_recorded_as_their_own() -> None:
    turns = "aaabababbbaabca"
    body = b'{"model": "m", "messages": []}'
    with Provider(answers.chat()) as provider, relaying(provider.url) as relay:
        with socket.create_connection(("127.0.0.1", relay.port), 60) as agent:
            answered = agent.makefile("rb")
            for turn in turns:
                agent.sendall(
                    b"POST /r/%b/openai/v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-turn: %b\r\n"
                    b"content-length: %d\r\n\r\n%b"
                    % (turn.encode(), turn.encode(), len(body), body)
                )
                assert answered.readline().startswith(b"HTTP/1.1 200 ")
                headers = dict(line.split(b": ", 1) for line in iter(answered.readline, b"\r\n"))
                answered.read(int(headers[b"content-length"]))
        recorded = relay.book.wait_for(len(turns))
    assert "".join(each.rollout_id for each in recorded) == turns
    assert "".join(request.header("x-turn") or "" for request in provider.requests) == turns


@pytest.mark.parametrize(
    "headers",
    [[(b"x-a", b"b\r\nx-smuggled: 1")], [(b"x-a\r\nx-b", b"c")], [(b"x-a", b"b\nc")]],
    ids=["value", "name", "bare line feed"],
)
def test_a_header_that_ends_its_line_early_is_never_written(
    headers: list[tuple[bytes, bytes]],
) -> None:
    with running(answering(headers)) as port:
        assert raw(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n") == b""


def test_a_body_one_byte_longer_than_its_length_is_never_written() -> None:
    with running(answering([(b"content-length", b"2")], b"{}x")) as port:
        head, _, body = raw(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""


def test_a_trailer_is_no_header() -> None:
    body = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n"
    with Provider(answers.chat()) as provider, relaying(provider.url) as relay:
        relay.raw(b"POST " + PATH + b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" + body)
        assert provider.requests[0].body == b"{}"
        assert provider.requests[0].header("x-trailer") is None


@pytest.mark.parametrize("line", [b"x-a: b\r\n" * 100, b"x" * 1000], ids=["lines", "one line"])
def test_a_trailer_without_an_end_is_refused(line: bytes) -> None:
    body = b"host: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-t: 1"
    with Provider() as provider, relaying(provider.url) as relay:
        answer, sent = told(relay, head=body, line=line, most=_BEYOND_BUFFERS)
        assert sent < _BEYOND_BUFFERS
        if answer:  # a reset may overtake it
            assert answer.startswith(b"HTTP/1.1 431 ")
        (exchange,) = relay.book.wait_for(1)
        assert (exchange.ending, exchange.cause) == (Ending.LEFT_BY_AGENT, None)


def answering(headers: list[tuple[bytes, bytes]], body: bytes = b"") -> Any:
    """An application that answers with these headers and this body."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            for done in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{done}.complete"})

    return app


def raw(port: int, request: bytes) -> bytes:
    """All that comes back for bytes, until the server closes the connection."""
    return Relaying("", port, Book()).raw(request)


# --- refused connections -------------------------------------------------------------------


@contextmanager
def full() -> Iterator[int]:
    """The port of a server that takes no second connection of an address, and has one."""

    async def nothing(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan", "nothing is served"
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})

    nothing.connection_limits = ConnectionLimits(per_address=1)  # type: ignore[attr-defined]
    with running(nothing) as port, socket.create_connection(("127.0.0.1", port)):
        yield port


def test_a_refused_agent_that_is_still_sending_reads_why() -> None:
    """Closed with bytes unread, its connection would be reset, and its client say that instead."""
    with full() as port:
        for _ in range(20):
            agent = HTTPConnection("127.0.0.1", port, timeout=60)
            agent.request("POST", "/", b"x" * 8_000_000)
            answer = agent.getresponse()
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert json.loads(answer.read())["code"] == "too_many_connections"
            agent.close()


def test_a_refused_agent_sends_no_more_than_so_much() -> None:
    with full() as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        assert agent.recv(12) == b"HTTP/1.1 503"
        with pytest.raises(OSError):
            for _ in range(64):
                agent.sendall(b"x" * (1 << 20))


def test_a_refused_agent_that_waits_is_left_after_a_moment() -> None:
    with full() as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        while agent.recv(65536):
            pass
        until(lambda: is_closed(agent))


def is_closed(agent: socket.socket) -> bool:
    """Whether the other side has closed the connection altogether: it answers bytes by a reset."""
    try:
        agent.send(b"x")
    except OSError:
        return True
    return False


@pytest.mark.parametrize(("descriptors", "most"), [(64, 1), (1024, 16), (1_000_000, 64)])
def test_only_so_many_refused_connections_keep_their_descriptors(
    descriptors: int, most: int
) -> None:
    table = ConnectionTable(ConnectionLimits(), descriptors=lambda: descriptors)
    while table.may_linger:
        table.lingering += 1
    assert table.lingering == most


def test_a_refused_agents_further_requests_are_not_begun() -> None:
    begun: list[str] = []
    arriving = Event()

    async def slow(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for done in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{done}.complete"})
            return
        begun.append(scope["path"])
        while (await receive())["type"] != "http.disconnect":
            arriving.set()

    with running(slow) as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        agent.sendall(b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert arriving.wait(60)
        agent.sendall(b"no HTTP at all\r\n\r\n")
        answer = b""
        while part := agent.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert begun == ["/1"]
