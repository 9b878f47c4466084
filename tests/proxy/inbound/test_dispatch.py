"""Who answers a request: the relay an agent's, at once, and an application all others."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from classifier.records import Ending
from proxy.inbound import http
from proxy.inbound.asgi import Scope
from proxy.inbound.http import AgentCalls, RequestCycle
from tests.fakes.provider import Provider
from tests.fakes.relaying import Book, Relaying, relaying, running

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
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})


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
