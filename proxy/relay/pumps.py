"""Carries the messages of an open WebSocket both ways until one side ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from classifier.records import Ending
from proxy.capture.websocket import WebSocketCapture
from proxy.inbound.asgi import WEBSOCKET_DRAIN, Receive, Send
from proxy.relay.websocket_record import WebSocketRecord

_GOING_AWAY = 1001  # RFC 6455 §7.4.1
_FAREWELL_S = 1.0  # for the close frames of a socket whose rollout has ended


class ClosingSide(Enum):
    """Who ended a socket."""

    AGENT = Ending.LEFT_BY_AGENT
    PROVIDER = Ending.CUT_UPSTREAM
    SERVER = Ending.LOST
    OUTCOME = Ending.CLOSED_AT_OUTCOME


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketEnd:
    """How a socket ended: by a close frame, or (``framed`` false) by the connection's loss."""

    side: ClosingSide
    framed: bool = True
    code: int | None = None
    reason: str = ""


class MessagePumps:
    """One loop for each direction of a socket.

    Arguments:
        upstream: the provider's socket.
        receive, send: the agent's, as ASGI has them.
        closing: done when the rollout has ended.
    """

    __slots__ = (
        "_capture",
        "_clock",
        "_closing",
        "_draining",
        "_receive",
        "_record",
        "_send",
        "_sending",
        "_upstream",
    )

    def __init__(
        self,
        upstream: ClientConnection,
        receive: Receive,
        send: Send,
        capture: WebSocketCapture,
        record: WebSocketRecord,
        clock: Callable[[], float],
        closing: asyncio.Future[None],
    ) -> None:
        self._upstream = upstream
        self._receive = receive
        self._send = send
        self._capture = capture
        self._record = record
        self._clock = clock
        self._closing = closing
        self._draining = False  # the server stops: end between two calls
        self._sending = False  # a message waits for the agent to read

    async def run(self) -> None:
        """Carry messages until the socket ends; record what is open, then end the other side."""
        ways = (asyncio.ensure_future(self._down()), asyncio.ensure_future(self._up()))
        end = SocketEnd(side=ClosingSide.SERVER, framed=False)
        try:
            end = await _until_over(ways, self._closing)
        finally:
            for way in ways:
                way.cancel()
            if self._sending:
                self._capture.hold()
            self._record.apply(
                self._capture.on_close(end.side.value, self._clock(), end.code, end.reason)
            )
        await self._record.durable()
        if end.side is not ClosingSide.OUTCOME:
            await self._close(end)
            return
        with contextlib.suppress(TimeoutError):  # whoever does not listen is cut off
            async with asyncio.timeout(_FAREWELL_S):
                await self._close(end)

    async def _up(self) -> SocketEnd | None:
        """Carry messages to the provider; None where it is gone."""
        try:
            while (message := await self._receive())["type"] != "websocket.disconnect":
                if message["type"] == WEBSOCKET_DRAIN:
                    self._draining = True
                    if self._capture.idle:
                        return SocketEnd(side=ClosingSide.SERVER, code=_GOING_AWAY)
                    continue
                text: str | None = message.get("text")
                content: str | bytes = message["bytes"] if text is None else text
                self._record.apply(self._capture.on_agent_message(_encoded(content)))
                await self._upstream.send(content)
        except ConnectionClosed:
            return None
        return SocketEnd(
            side=ClosingSide.AGENT,
            framed="reason" in message,  # without, the connection was lost
            code=message.get("code"),
            reason=message.get("reason") or "",
        )

    async def _down(self) -> SocketEnd | None:
        """Carry messages to the agent; None where it is gone."""
        try:
            while not (self._draining and self._capture.idle):
                message = await self._upstream.recv()
                await self._observe(_encoded(message))
                kind = "text" if isinstance(message, str) else "bytes"
                self._sending = True
                await self._send({"type": "websocket.send", kind: message})
                self._sending = False
        except ConnectionClosed as closed:
            frame = closed.rcvd
            if frame is None:
                return SocketEnd(side=ClosingSide.PROVIDER, framed=False)
            return SocketEnd(side=ClosingSide.PROVIDER, code=frame.code, reason=frame.reason)
        except OSError:
            return None
        return SocketEnd(side=ClosingSide.SERVER, code=_GOING_AWAY)

    async def _observe(self, message: bytes) -> None:
        """Record what a provider's message means, before the agent gets it."""
        changes = self._capture.on_provider_message(message, self._clock())
        self._record.apply(changes)
        await self._record.opened()
        if changes.finished:
            await self._record.durable()

    async def _close(self, end: SocketEnd) -> None:
        """End the sides that did not end the socket, as it was ended."""
        code = None if end.code == 1005 else end.code  # the name of a frame without a code
        if end.framed and end.side is not ClosingSide.AGENT:
            await self._send({"type": "websocket.close", "code": code, "reason": end.reason})
        if end.framed and end.side is not ClosingSide.PROVIDER:
            await self._upstream.close(code, end.reason)  # type: ignore[arg-type]  # None is no code
        # else: the agent's connection is cut by returning, the provider's by aborting it


async def _until_over(
    ways: Iterable[asyncio.Future[SocketEnd | None]], closing: asyncio.Future[None]
) -> SocketEnd:
    """Return the first end that a direction reports; one whose far side is gone reports none."""
    running: set[asyncio.Future[Any]] = set(ways)
    while running:
        _, running = await asyncio.wait({*running, closing}, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            if way.done() and (end := way.result()) is not None:
                return end
        if closing.done():
            return SocketEnd(side=ClosingSide.OUTCOME, code=_GOING_AWAY, reason="rollout_ended")
        running.discard(closing)
    return SocketEnd(side=ClosingSide.AGENT, framed=False)


def _encoded(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message
