"""WebSocket relay, as an ASGI application: messages pass unchanged, the calls in them are recorded.

The agent's socket is accepted only once the provider's is open.
"""

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
from proxy.features.websocket.capture import WebSocketCapture
from proxy.features.websocket.connector import WebSocketConnector, pairs
from proxy.features.websocket.handshake import (
    HandshakeCall,
    UpgradeRequest,
    UpstreamHandshake,
    WebSocketRecord,
    is_handshake_header,
)
from proxy.features.websocket.protocol import WEBSOCKET_DRAIN
from proxy.inbound.asgi import (
    WEBSOCKET,
    Message,
    Receive,
    Scope,
    Send,
    send_refusal,
)
from proxy.relay.context import RelayContext
from proxy.relay.relay import Relay
from proxy.routing import headers as http_headers
from proxy.routing.errors import OVER_HTTP, Refusal
from proxy.routing.target import Target
from proxy.wire import routes

# --- messages, both ways -----------------------------------------------------------------------


_GOING_AWAY = 1001  # RFC 6455 §7.4.1
_FAREWELL_S = 1.0  # for the close frames of a socket whose rollout has ended


class ClosingSide(Enum):
    """The side that ended a socket."""

    AGENT = Ending.LEFT_BY_AGENT
    PROVIDER = Ending.CUT_UPSTREAM
    SERVER = Ending.LOST
    OUTCOME = Ending.CLOSED_AT_OUTCOME


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketEnd:
    """The end of a socket: a close frame or, if ``framed`` is false, the connection's loss."""

    side: ClosingSide
    framed: bool = True
    code: int | None = None
    reason: str = ""


class MessageRelay:
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
                self._capture.await_agent()
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
        """Carry messages to the provider; None if it is gone."""
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
        """Carry messages to the agent; None if it is gone."""
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
        await self._record.starts_durable()
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


# --- sockets -----------------------------------------------------------------------------------


class WebSocketRelay:
    """The data plane's sockets as an ASGI callable: claimed and admitted as requests are.

    Arguments:
        context: the same as the relay's.
        connector: opens sockets to providers.
    """

    def __init__(self, context: RelayContext, connector: WebSocketConnector | None = None) -> None:
        self._context = context
        self._relay = Relay(context)
        self._connector = connector or WebSocketConnector()

    def claims(self, raw_path: bytes) -> bool:
        """Return True if a socket is an agent's."""
        return self._relay.claims(raw_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one socket, or answer why not."""
        context, request = self._context, UpgradeRequest.of(scope)
        try:
            target = self._relay.read(scope["raw_path"], scope["query_string"], request.headers)
            target, access = await self._relay.admit(
                target, routes.UPGRADE, request.headers, shows_own_key=request.shows_own_key
            )
            if access is not None:
                for rule in await access.rules(target):
                    raise _over_http(rule.why_no_socket)
                await access.admit(target)
            # Nothing is awaited from here to `enter`: a rollout that ends finds the socket there.
            proxied = ProxiedWebSocket(context, target, request, receive, send)
            context.live.enter(target.rollout_id, proxied)
            try:
                await proxied.run(self._connector)
            finally:
                context.live.leave(target.rollout_id, proxied)
        except Refusal as refusal:
            context.refused.calls.note(refusal.code)
            if "websocket.http.response" in scope.get("extensions", ()):
                await send_refusal(refusal, send, to=WEBSOCKET)
            else:  # a server that can only decline: 403
                await send({"type": "websocket.close"})


class ProxiedWebSocket:
    """One socket: its handshake, then its messages."""

    __slots__ = (
        "_closing",
        "_context",
        "_next",
        "_receive",
        "_record",
        "_request",
        "_send",
        "_target",
    )

    def __init__(
        self,
        context: RelayContext,
        target: Target,
        request: UpgradeRequest,
        receive: Receive,
        send: Send,
    ) -> None:
        self._context = context
        self._target = target
        self._request = request
        self._receive = receive
        self._send = send
        self._record = WebSocketRecord(context, target, request.headers, request.client)
        self._next: asyncio.Future[Message] | None = None  # a message that is waited for
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """End the socket, because its rollout has ended."""
        if not self._closing.done():
            self._closing.set_result(None)

    async def run(self, connector: WebSocketConnector) -> None:
        """Open the socket, relay it until one side ends it, end the other.

        Raises:
            Refusal: the provider cannot be reached, or the agent is to use HTTP.
        """
        await self._receive()  # websocket.connect
        context, target, record = self._context, self._target, self._record
        call = HandshakeCall(context, target, record.new_call(routes.UPGRADE))
        handshake = UpstreamHandshake(context, connector, target, self._request, record, call)
        self._next = asyncio.ensure_future(self._receive())
        try:
            upstream = await handshake.open(self._send, self._next, self._closing)
            if upstream is not None:
                await self._relay(upstream, call)
        finally:
            call.leave()
            if self._next is not None:
                self._next.cancel()

    async def _relay(self, upstream: ClientConnection, call: HandshakeCall) -> None:
        try:
            capture = await self._accept(upstream, call)
            await MessageRelay(
                upstream,
                self._next_message,
                self._send,
                capture,
                self._record,
                self._context.clock,
                self._closing,
            ).run()
        finally:
            upstream.transport.abort()

    async def _accept(self, upstream: ClientConnection, call: HandshakeCall) -> WebSocketCapture:
        response = pairs(upstream.response.headers) if upstream.response else []
        dressed = http_headers.for_agent(response, call.id)
        headers = [pair for pair in dressed if not is_handshake_header(pair[0])]
        await self._record.commit(call.accepted(headers, self._context.clock()))
        capture = WebSocketCapture(
            call.api,
            new_observer=self._record.new_observer,
            headers=headers,
            model=call.model,
            on_limits=call.told,
        )
        await self._send(
            {"type": "websocket.accept", "subprotocol": upstream.subprotocol, "headers": headers}
        )
        return capture

    async def _next_message(self) -> Message:
        """Receive a message, first the one that was waited for during the handshake."""
        waited, self._next = self._next, None
        return await (waited or self._receive())


def _over_http(why: str) -> Refusal:
    return Refusal(426, "no_websocket", f"this rollout {why} over HTTP", OVER_HTTP)
