"""One request and its response, as an application on the server's protocol class sees them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from proxy.inbound.asgi import AGENT_CONNECTION, AgentConnection
from tests.fakes.relaying import Book, Relaying, running

GET = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
PLAIN = [(b"content-length", b"4")]


class App:
    """An application whose answer to a request is a function."""

    def __init__(self, answer: Callable[[AgentConnection, Any, Any], Awaitable[None]]) -> None:
        self._answer = answer

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._answer(scope["extensions"][AGENT_CONNECTION], receive, send)
            return
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})


def raw(app: App, request: bytes = GET) -> bytes:
    with running(app) as port:
        return Relaying("", port, Book()).raw(request)


def test_the_extension_sends_a_whole_response() -> None:
    async def answer(agent: AgentConnection, _receive: Any, _send: Any) -> None:
        await agent.send_whole(200, PLAIN, b"text")

    head, _, body = raw(App(answer)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"text"


def test_parts_passed_on_and_parts_sent_make_one_body() -> None:
    async def answer(agent: AgentConnection, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert agent.pass_on(b"one")
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    assert raw(App(answer)).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_a_watched_agent_that_leaves_is_noticed_without_receiving() -> None:
    gone, watched = threading.Event(), threading.Event()

    async def answer(agent: AgentConnection, receive: Any, _send: Any) -> None:
        agent.watch(gone.set)
        watched.set()
        assert (await receive())["type"] == "http.disconnect"
        assert not agent.pass_on(b"to nobody")

    with running(App(answer)) as port:
        with socket.create_connection(("127.0.0.1", port), 60) as agent:
            agent.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
            assert watched.wait(60)
        assert gone.wait(60)


def test_an_agents_connection_can_be_reset() -> None:
    async def answer(agent: AgentConnection, _receive: Any, send: Any) -> None:
        assert agent.reset()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    with running(App(answer)) as port, socket.create_connection(("127.0.0.1", port), 60) as agent:
        agent.sendall(GET)
        try:
            outcome = str(agent.recv(100))
        except ConnectionResetError:
            outcome = "reset"
    assert outcome == "reset"


def test_an_application_that_fails_is_answered_for() -> None:
    async def answer(_agent: AgentConnection, _receive: Any, _send: Any) -> None:
        raise ValueError("of the application")

    assert raw(App(answer)).startswith(b"HTTP/1.1 500 ")


def test_a_response_that_is_shorter_than_it_states_is_cut() -> None:
    async def answer(_agent: AgentConnection, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": PLAIN})
        await send({"type": "http.response.body", "body": b"te", "more_body": True})

    assert raw(App(answer)).endswith(b"\r\n\r\nte")
