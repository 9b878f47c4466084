"""The data plane's WebSockets as an ASGI application: messages pass unchanged, calls are counted.

A socket opens for the agent only when the provider's has.
"""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import ClientConnection

from proxy.capture.websocket import WebSocketCapture
from proxy.inbound.asgi import WEBSOCKET, Message, Receive, Scope, Send, send_refusal
from proxy.outbound.websocket import WebSocketConnector, pairs
from proxy.relay.context import RelayContext
from proxy.relay.handshake import (
    OVER_HTTP,
    HandshakeCall,
    UpgradeRequest,
    UpstreamHandshake,
    is_handshake_header,
)
from proxy.relay.http import Relay
from proxy.relay.pumps import MessagePumps
from proxy.relay.websocket_record import WebSocketRecord
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.target import Target
from proxy.wire import routes


class WebSocketRelay(Relay):
    """The data plane's sockets as an ASGI callable: claimed and admitted as requests are.

    Arguments:
        context: the same as the relay's.
        connector: opens sockets to providers.
    """

    def __init__(self, context: RelayContext, connector: WebSocketConnector | None = None) -> None:
        super().__init__(context)
        self._connector = connector or WebSocketConnector()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one socket, or answer why not."""
        context, request = self._context, UpgradeRequest.of(scope)
        try:
            target, access = await self._acceptable(
                {**scope, "headers": request.headers}, shows_own_key=request.shows_own_key
            )
            if access is not None:
                if await access.drilled(target):
                    raise _drilled()
                await access.admit(target)
            # Nothing is awaited from here to `enter`: a rollout that ends finds the socket there.
            proxied = ProxiedWebSocket(context, target, request, receive, send)
            context.live.enter(target.rollout_id, proxied)
            try:
                await proxied.run(self._connector)
            finally:
                context.live.leave(target.rollout_id, proxied)
        except Refusal as refusal:
            context.notices.refusals.note(refusal.code)
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
            if self._next is not None:
                self._next.cancel()

    async def _relay(self, upstream: ClientConnection, call: HandshakeCall) -> None:
        try:
            capture = await self._accept(upstream, call)
            await MessagePumps(
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
        dressed = dress.for_agent(response, call.id)
        headers = [pair for pair in dressed if not is_handshake_header(pair[0])]
        await self._record.commit(call.opened(headers, self._context.clock()))
        capture = WebSocketCapture(
            call.api,
            new_observer=self._record.new_observer,
            headers=headers,
            model=call.model,
        )
        await self._send(
            {"type": "websocket.accept", "subprotocol": upstream.subprotocol, "headers": headers}
        )
        return capture

    async def _next_message(self) -> Message:
        """Receive a message, first the one that was waited for during the handshake."""
        waited, self._next = self._next, None
        return await (waited or self._receive())


def _drilled() -> Refusal:
    return Refusal(
        426,
        "no_websocket",
        "this rollout is drilled: its failures are played over HTTP",
        OVER_HTTP,
    )
