"""The two directions of a socket, and who is told of its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Ending
from proxy.capture.observer import CallObserver
from proxy.features.websocket.capture import WebSocketCapture, websocket_api
from proxy.features.websocket.handshake import WebSocketRecord
from proxy.features.websocket.protocol import WEBSOCKET_DRAIN
from proxy.features.websocket.relay import MessageRelay
from proxy.inbound.asgi import Message
from proxy.routing.target import Addresses
from tests.fakes.relaying import KEYRING, Book, make_context


class Provider:
    """A provider's socket that says nothing."""

    def __init__(self) -> None:
        self.sent: list[str | bytes] = []
        self.closed: tuple[int | None, str] | None = None

    async def send(self, message: str | bytes) -> None:
        self.sent.append(message)

    async def recv(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def close(self, code: int | None, reason: str) -> None:
        self.closed = (code, reason)


async def pump(
    provider: Any, receive: Any, send: Any, book: Book, clock: Callable[[], float] = time.monotonic
) -> None:
    """Pass messages both ways until the socket ends."""
    context = make_context("http://provider", book)
    target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/openai/v1/responses", b"", [])
    record = WebSocketRecord(context, target, [])

    def observer() -> CallObserver:
        return CallObserver(replace(record.new_call("WEBSOCKET"), began=clock()), salt=b"salt")

    capture = WebSocketCapture(
        websocket_api(b"/v1/responses"), new_observer=observer, headers=[], model=None
    )
    closing = asyncio.get_running_loop().create_future()
    await MessageRelay(provider, receive, send, capture, record, clock, closing).run()


async def test_a_socket_without_a_call_ends_when_the_server_stops() -> None:
    provider, sent = Provider(), list[Message]()

    async def receive() -> Message:
        return {"type": WEBSOCKET_DRAIN}

    async def send(message: Message) -> None:
        sent.append(message)

    await pump(provider, receive, send, Book())
    assert [(each["type"], each["code"]) for each in sent] == [("websocket.close", 1001)]
    assert provider.closed == (1001, "")


@pytest.mark.parametrize("reads", [True, False])
async def test_an_agent_that_does_not_read_is_not_left_in_silence(reads: bool) -> None:
    book, now, spoke = Book(), [0.0], asyncio.Event()
    asked = asyncio.Event()
    events: list[object] = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_text.delta", "delta": "a"},
    ]

    class Speaking(Provider):
        async def send(self, message: str | bytes) -> None:
            asked.set()

        async def recv(self) -> str:
            await asked.wait()
            return json.dumps(events.pop(0)) if events else await super().recv()

    async def receive() -> Message:
        if now[0] == 0.0:
            now[0] = 1.0
            return {"type": "websocket.receive", "text": '{"type": "response.create"}'}
        await spoke.wait()
        now[0] = 1_000.0
        return {"type": "websocket.disconnect", "code": 1005}

    async def send(message: Message) -> None:
        if "output_text" in message.get("text", ""):
            spoke.set()
            await asyncio.sleep(0 if reads else 3600)

    await pump(Speaking(), receive, send, book, lambda: now[0])
    assert book.only.ending is Ending.LEFT_BY_AGENT
    assert book.only.failed is reads
