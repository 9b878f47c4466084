"""The server's side of an agent's connection: what uvicorn's own does not see to."""
# ruff: noqa: SLF001
# Private: what a connection holds back, and whether it reads.

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from asyncio import Transport
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Event
from typing import Any

import pytest

from classifier.records import Ending
from proxy.inbound import http
from proxy.inbound.asgi import Scope
from proxy.inbound.connections import ConnectionLimits, ConnectionTable
from proxy.inbound.http import HEAD_LIMIT, AgentCalls, HttpProtocol, RequestCycle
from proxy.inbound.parser import RepeatedHead
from proxy.inbound.response import FlowControl
from tests.fakes import answers
from tests.fakes.provider import Cut, Provider, Wait
from tests.fakes.relaying import Book, Relaying, lifespan, relaying, running
from tests.proxy.relay.byhand import Line, request_of
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


# --- refused connections -------------------------------------------------------------------


@contextmanager
def full() -> Iterator[int]:
    """The port of a server that takes no second connection of an address, and has one."""

    async def nothing(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan", "nothing is served"
        await lifespan(receive, send)

    nothing.connection_limits = ConnectionLimits(per_address=1)  # type: ignore[attr-defined]
    with running(nothing) as port, socket.create_connection(("127.0.0.1", port)):
        yield port


def test_a_refused_agent_that_is_still_sending_reads_why() -> None:
    """Closed with bytes unread, its connection would be reset, and its client say that instead."""
    with full() as port:
        for _ in range(4):
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
            await lifespan(receive, send)
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


# --- Who answers a request: the relay an agent's, at once, and an application all others ----------

PLAIN = b"POST /r/r1/openai/v1/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n"


class App:
    """Answers call_by_hand what its path says is to be, all else by a task."""

    def __init__(self, *, offers: bool = True) -> None:
        self.offered: list[Scope] = []
        self._offers = offers

    def agent_calls(self, scope: Scope) -> AgentCalls | None:
        self.offered.append(scope)
        return self if self._offers else None

    def claims(self, raw_path: bytes) -> bool:
        return raw_path.startswith((b"/r/", b"/openai/"))

    def take(self, request: RequestCycle, _: set[Any]) -> None:
        body = b"all of %b" if not request.more_body else b"some of %b"
        body %= request.head.raw_path
        request.send_now(200, [(b"content-length", b"%d" % len(body))], body)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"by a task of " + scope["raw_path"]})
            return
        await lifespan(receive, send)


OTHER = PLAIN.replace(b"/r/", b"/s/")


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (PLAIN + b"\r\n{}", b"all of /r/r1/openai/v1/x"),
        (PLAIN.replace(b"/r/r1", b"") + b"\r\n{}", b"all of /openai/v1/x"),
        (OTHER + b"\r\n{}", b"by a task of /s/r1/openai/v1/x"),
        (PLAIN + b"expect: 100-continue\r\n\r\n", b"some of /r/r1/openai/v1/x"),
    ],
    ids=["of a rollout", "of an upstream", "of neither", "expects"],
)
def test_an_agents_request_is_answered_without_a_task(request_: bytes, body: bytes) -> None:
    app = App()
    with running(app) as port:
        assert body in Relaying("", port, Book()).raw(request_)
    (scope,) = app.offered
    assert scope["server"] == ("127.0.0.1", port)


LONG = PLAIN.replace(b": 2", b": 600000") + b"\r\n"


@pytest.mark.parametrize(
    "parts",
    [[PLAIN[:50], PLAIN[50:] + b"\r\n", b"{", b"}"], [LONG, *[b" " * 100_000] * 6]],
    ids=["short", "long"],
)
def test_a_body_is_waited_for(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_SPLIT_S", 3600)
    with running(App()) as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        for part in parts:
            agent.sendall(part)
            time.sleep(0.02)  # so that they arrive apart
        assert agent.recv(1000).endswith(b"all of /r/r1/openai/v1/x")


def test_a_body_behind_a_head_that_is_known_again_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_SPLIT_S", 3600)
    head = LONG.replace(b"connection: close\r\n", b"")
    with running(App()) as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        for _ in range(4):
            for part in (head + b" " * 200_000, b" " * 400_000):
                agent.sendall(part)
                time.sleep(0.02)
            assert agent.recv(1000).endswith(b"all of /r/r1/openai/v1/x")


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (PLAIN.replace(b": 2", b": 10000000") + b"\r\n{", b"some of"),
        (
            PLAIN.replace(b"content-length: 2", b"transfer-encoding: chunked") + b"\r\n1\r\n{\r\n",
            b"some of",
        ),
        (OTHER + b"\r\n{", b"by a task"),
        (PLAIN + b"expect: 100-continue\r\n\r\n{", b"some of"),
    ],
    ids=["long", "of unknown length", "of no agent", "expects"],
)
def test_no_other_body_is_waited_for(
    request_: bytes, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_SPLIT_S", 3600)
    with running(App()) as port:
        assert body in Relaying("", port, Book()).raw(request_)


def test_an_agent_that_leaves_without_its_body_is_a_call_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_SPLIT_S", 3600)
    with Provider() as provider, relaying(provider.url) as relay:
        with socket.create_connection(("127.0.0.1", relay.port), 60) as agent:
            agent.sendall(PLAIN + b"\r\n{")
            agent.shutdown(socket.SHUT_WR)
            assert agent.recv(1) == b""
        assert (relay.book.only.ending, provider.requests) == (Ending.LEFT_BY_AGENT, [])


def test_a_body_that_does_not_come_is_waited_for_no_longer() -> None:
    with running(App()) as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        agent.sendall(PLAIN + b"\r\n{")
        got = b""
        while part := agent.recv(1000):
            got += part
    assert b"some of" in got


def test_an_application_may_offer_nothing() -> None:
    with running(App(offers=False)) as port:
        assert b"by a task" in Relaying("", port, Book()).raw(PLAIN + b"\r\n{}")


def test_what_comes_behind_a_request_is_known_before_it_is_answered() -> None:
    request = PLAIN.replace(b"connection: close\r\n", b"") + b"\r\n{}\x00\xff\r\n\r\n"
    with running(App()) as port:
        assert Relaying("", port, Book()).raw(request).startswith(b"HTTP/1.1 400 ")


# --------------------------------------------------------------------------------------------------
# One request and its response, as who answers it on the server's protocol class sees them

GET = b"GET /r/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
PLAIN_CYCLE = [(b"content-length", b"4")]


class Calls:
    """An application whose answer to an agent's request is a function."""

    def __init__(self, answer: Callable[[RequestCycle], None]) -> None:
        self._answer = answer

    def agent_calls(self, _: Scope) -> AgentCalls:
        return self

    def claims(self, _: bytes) -> bool:
        return True

    def take(self, request: RequestCycle, _: set[Any]) -> None:
        self._answer(request)

    async def __call__(self, _scope: Scope, receive: Any, send: Any) -> None:
        await lifespan(receive, send)


class CycleApp:
    """An application whose answer to a request is a coroutine."""

    def __init__(self, answer: Callable[[Any, Any], Awaitable[None]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._answer(receive, send)
            return
        await lifespan(receive, send)


def raw_cycle(app: CycleApp | Calls, request: bytes = GET) -> bytes:
    with running(app) as port:
        return Relaying("", port, Book()).raw(request)


def test_parts_that_an_application_sends_make_one_body() -> None:
    async def answer(_receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two", "more_body": False})

    assert raw_cycle(CycleApp(answer)).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_a_watched_agent_that_leaves_is_noticed_though_its_body_is_not_all_here() -> None:
    gone, watched = threading.Event(), threading.Event()

    def answer(agent: RequestCycle) -> None:
        def left() -> None:
            assert not agent.pass_on(b"to nobody")
            gone.set()

        agent.watch(left)
        watched.set()

    with running(Calls(answer)) as port:
        with socket.create_connection(("127.0.0.1", port), 60) as agent:
            agent.sendall(b"POST /r/ HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
            assert watched.wait(60)
        assert gone.wait(60)


def test_an_agents_connection_can_be_reset() -> None:
    with (
        running(Calls(lambda agent: agent.reset())) as port,
        socket.create_connection(("127.0.0.1", port), 60) as agent,
    ):
        agent.sendall(GET)
        try:
            outcome = str(agent.recv(100))
        except ConnectionResetError:
            outcome = "reset"
    assert outcome == "reset"


def test_an_application_that_fails_is_answered_for() -> None:
    async def answer(_receive: Any, _send: Any) -> None:
        raise ValueError("of the application")

    assert raw_cycle(CycleApp(answer)).startswith(b"HTTP/1.1 500 ")


def test_a_response_that_is_shorter_than_it_states_is_cut() -> None:
    async def answer(_receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": PLAIN_CYCLE})
        await send({"type": "http.response.body", "body": b"te", "more_body": True})

    assert raw_cycle(CycleApp(answer)).endswith(b"\r\n\r\nte")


# --- the request's body ------------------------------------------------------------------------


class Body:
    """The body of a request that is arriving, and what its reader was handed."""

    def __init__(self) -> None:
        self.line = Line()
        flow = FlowControl(self.line, asyncio.get_running_loop())
        self.request = request_of(flow, [], b"", more=True)
        self.read: list[tuple[bytes, bool]] = []

    def comes(self, *parts: bytes, last: bool = False) -> None:
        """Take what one read brings."""
        for part in parts:
            self.request.on_body_part(part)
        if last:
            self.request.on_body_end()
        self.request.hand_on()

    def takes(self) -> None:
        self.request.read_body(lambda part, more: self.read.append((part, more)))


async def test_what_came_of_a_body_is_handed_on_together_and_then_what_comes() -> None:
    body = Body()
    body.comes(b"a", b"b")
    body.takes()
    assert body.read == [(b"ab", True)]
    body.comes(b"c", b"d")
    body.comes()
    body.comes(b"e", last=True)
    body.comes()
    assert body.read == [(b"ab", True), (b"cd", True), (b"e", False)]


async def test_a_body_that_is_all_there_is_handed_on_once() -> None:
    body = Body()
    body.comes(b"ab", last=True)
    body.takes()
    body.comes()
    assert body.read == [(b"ab", False)]


async def test_the_end_of_a_body_may_come_by_itself() -> None:
    body = Body()
    body.takes()
    assert body.read == []
    body.comes(b"ab")
    body.comes(last=True)
    assert body.read == [(b"ab", True), (b"", False)]


async def test_a_reader_that_pauses_is_handed_nothing_until_it_goes_on() -> None:
    body = Body()
    body.takes()
    assert body.request.on_body_part(b"a") == 0, "it is handed on, so it does not wait"
    body.comes()
    body.request.pause_body()
    assert body.request.on_body_part(b"b" * 10) == 10
    body.comes(b"c", last=True)
    assert body.read == [(b"a", True)]
    body.request.resume_body()
    assert body.read == [(b"a", True), (b"b" * 10 + b"c", False)]


async def test_the_rest_of_a_body_can_be_discarded() -> None:
    body = Body()
    body.comes(b"a")
    body.takes()
    body.request.discard_body()
    assert body.request.on_body_part(b"b" * 100_000) == 0
    body.comes(last=True)
    assert body.read == [(b"a", True)]


async def test_an_agent_that_expects_it_is_told_once_that_its_body_is_wanted() -> None:
    body = Body()
    body.request.expects = True
    body.takes()
    assert body.line.said() == b"HTTP/1.1 100 Continue\r\n\r\n"
    body.request.go_ahead()
    assert body.line.said() == b""
