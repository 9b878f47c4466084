"""One request and its response, as who answers it on the server's protocol class sees them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from proxy.inbound.asgi import Scope
from proxy.inbound.http import AgentCalls, RequestCycle
from proxy.inbound.response import FlowControl
from tests.fakes.relaying import Book, Relaying, running
from tests.proxy.relay.byhand import Line, request_of

GET = b"GET /r/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
PLAIN = [(b"content-length", b"4")]


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
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})


class App:
    """An application whose answer to a request is a coroutine."""

    def __init__(self, answer: Callable[[Any, Any], Awaitable[None]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._answer(receive, send)
            return
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})


def raw(app: App | Calls, request: bytes = GET) -> bytes:
    with running(app) as port:
        return Relaying("", port, Book()).raw(request)


def test_a_whole_response_is_sent() -> None:
    head, _, body = raw(Calls(lambda agent: agent.send_now(200, PLAIN, b"text"))).partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"text"


def test_parts_passed_on_make_one_body() -> None:
    def answer(agent: RequestCycle) -> None:
        agent.start(200, [])
        assert agent.pass_on(b"one")
        assert agent.pass_on(b"two")
        agent.finish()

    assert raw(Calls(answer)).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_parts_that_an_application_sends_make_one_body() -> None:
    async def answer(_receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two", "more_body": False})

    assert raw(App(answer)).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


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

    assert raw(App(answer)).startswith(b"HTTP/1.1 500 ")


def test_a_response_that_is_shorter_than_it_states_is_cut() -> None:
    async def answer(_receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": PLAIN})
        await send({"type": "http.response.body", "body": b"te", "more_body": True})

    assert raw(App(answer)).endswith(b"\r\n\r\nte")


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
