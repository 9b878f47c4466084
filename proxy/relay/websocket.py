"""Relays sockets between an agent and a provider, message by message, and counts their calls.

It changes no message, and opens nothing that the provider did not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from classifier.records import Ending, Exchange
from proxy.capture.call import Call
from proxy.capture.websocket import CallChanges, WebSocketCapture
from proxy.inbound.asgi import Message, Receive, Scope, Send
from proxy.inbound.websocket import DRAIN
from proxy.outbound.websocket import (
    UpgradeRefusedError,
    WebSocketConnector,
    WebSocketUnreachableError,
    pairs,
)
from proxy.relay.context import RelayContext
from proxy.relay.handshake import (
    NO_SOCKET,
    OVER_HTTP,
    HandshakeCall,
    UpgradeRequest,
    is_handshake_header,
    use_http,
)
from proxy.relay.http import Relay
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal, problem
from proxy.routing.target import Target
from proxy.wire import routes

_GOING_AWAY = 1001  # RFC 6455 §7.4.1


class WebSocketRelay(Relay):
    """The data plane's sockets as an ASGI callable: claimed and admitted as requests are.

    Arguments:
        context: the same as the relay's.
        dialer: opens sockets to providers.
    """

    def __init__(self, context: RelayContext, dialer: WebSocketConnector | None = None) -> None:
        super().__init__(context)
        self._dialer = dialer or WebSocketConnector()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one socket, or answer why not."""
        asked = UpgradeRequest.of(scope)
        try:
            target, access = await self._admitted({**scope, "headers": asked.headers})
            if access is not None and await access.drilled(target):
                raise _drilled()
            self._context.concurrency.acquire(target.rollout_id)
            try:
                await ProxiedWebSocket(
                    self._context, self._dialer, target, asked, receive, send
                ).hold()
            finally:
                self._context.concurrency.release(target.rollout_id)
        except Refusal as refusal:
            await _refuse(refusal, send)


class _ClosingSide(Enum):
    """Who ended a socket."""

    AGENT = Ending.LEFT_BY_AGENT
    PROVIDER = Ending.CUT_UPSTREAM
    SERVER = Ending.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class _SocketEnd:
    """How a socket ended: by a close frame, or (``framed`` false) by the connection's loss."""

    side: _ClosingSide
    framed: bool = True
    code: int | None = None
    reason: str = ""


class ProxiedWebSocket:
    """One socket: the state that its steps share."""

    __slots__ = (
        "_asked",
        "_committed",
        "_context",
        "_conversation",
        "_dialer",
        "_draining",
        "_next",
        "_opening",
        "_receive",
        "_send",
        "_target",
    )  # fmt: skip

    def __init__(
        self,
        context: RelayContext,
        dialer: WebSocketConnector,
        target: Target,
        asked: UpgradeRequest,
        receive: Receive,
        send: Send,
    ) -> None:
        self._context = context
        self._dialer = dialer
        self._target = target
        self._asked = asked
        self._receive = receive
        self._send = send
        self._draining = False
        self._next: asyncio.Future[Message] | None = None  # a message that is waited for
        self._opening: asyncio.Future[None] | None = None
        self._committed: asyncio.Future[None] | None = None

    async def hold(self) -> None:
        """Open it, relay until one side ends it, end the other."""
        await self._receive()  # websocket.connect
        upgrade = HandshakeCall(self._context, self._target, self._call(routes.UPGRADE))
        try:
            socket = await self._open(upgrade)
            if socket is not None:
                await self._carry(socket, upgrade)
        finally:
            if self._next is not None:
                self._next.cancel()

    async def _carry(self, socket: ClientConnection, upgrade: HandshakeCall) -> None:
        try:
            await self._accept(socket, upgrade)
            await self._relay(socket)
        finally:
            socket.transport.abort()

    # the upgrade

    async def _open(self, upgrade: HandshakeCall) -> ClientConnection | None:
        """The provider's socket; None where it refused, or the agent would not wait."""
        dialing = asyncio.ensure_future(self._dial())
        self._next = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait({dialing, self._next}, return_when=asyncio.FIRST_COMPLETED)
            if not dialing.done():
                dialing.cancel()  # first: nobody would close what it opened
                await self._commit(upgrade.left(self._context.clock()))
                return None
            return dialing.result()
        except UpgradeRefusedError as refused:
            await self._commit(upgrade.refused(refused, self._context.clock()))
            await self._pass_on(refused, upgrade)
        except WebSocketUnreachableError as unopened:
            await self._commit(upgrade.unopened(unopened, self._context.clock()))
            raise self._unopened(unopened, upgrade.id) from unopened
        finally:
            dialing.cancel()
        return None

    async def _dial(self) -> ClientConnection:
        upstream, context = self._target.upstream, self._context
        real_key = None if self._asked.shows_own_key else context.real_keys.get(upstream.name)
        headers = dress.for_upstream(
            self._asked.headers, host=upstream.host, auth=upstream.auth, real_key=real_key
        )
        return await self._dialer.open(
            upstream,
            self._target.forwarded,
            [pair for pair in await self._signed(headers) if not is_handshake_header(pair[0])],
            subprotocols=self._asked.subprotocols,
            deflate=self._asked.deflate,
            timeout_s=context.limits.connect_s,
        )

    async def _signed(self, headers: dress.Pairs) -> dress.Pairs:
        upstream = self._target.upstream
        signer = self._context.signers.get(upstream.auth)
        if signer is None or dress.shows_key(headers) or self._asked.shows_own_key:
            return headers
        try:
            return await signer.sign(
                upstream=upstream,
                method="GET",
                target=self._target.forwarded,
                headers=headers,
                body=b"",
            )
        except Refusal as refusal:
            ending, status = Ending.NEVER_CONNECTED, refusal.status
            raise WebSocketUnreachableError(
                ending, status, refusal.code, refusal.detail
            ) from refusal

    async def _pass_on(self, refused: UpgradeRefusedError, upgrade: HandshakeCall) -> None:
        if upgrade.falls_back and refused.status in NO_SOCKET:
            raise use_http(self._target.upstream.name, refused.status, upgrade.id)
        headers = dress.for_agent(refused.headers, upgrade.id)
        kept = [pair for pair in headers if pair[0] != b"content-length"]
        await _answer(refused.status, kept, refused.body, self._send)

    def _unopened(self, unopened: WebSocketUnreachableError, exchange_id: str) -> Refusal:
        name = self._target.upstream.name
        return Refusal(
            unopened.status,
            unopened.code,
            f"no answer from upstream {name!r}: {unopened.detail}",
            ((b"x-truezero-exchange", exchange_id.encode()),),
        )

    async def _accept(self, socket: ClientConnection, upgrade: HandshakeCall) -> None:
        answer = pairs(socket.response.headers) if socket.response else []
        dressed = dress.for_agent(answer, upgrade.id)
        headers = [pair for pair in dressed if not is_handshake_header(pair[0])]
        await self._commit(upgrade.opened(headers, self._context.clock()))
        self._conversation = WebSocketCapture(
            upgrade.api,
            new_call=lambda: self._call(routes.WEBSOCKET),
            salt=self._context.salt,
            headers=headers,
            model=upgrade.model,
        )
        await self._send(
            {"type": "websocket.accept", "subprotocol": socket.subprotocol, "headers": headers}
        )

    # both ways

    async def _relay(self, socket: ClientConnection) -> None:
        ways = (
            asyncio.ensure_future(self._down(socket)),
            asyncio.ensure_future(self._up(socket)),
        )
        end = _SocketEnd(side=_ClosingSide.SERVER, framed=False)
        try:
            end = await _until_over(ways)
        finally:
            for way in ways:
                way.cancel()
            self._note(
                self._conversation.on_close(
                    end.side.value, self._context.clock(), end.code, end.reason
                )
            )
        await self._durable()
        await self._end(socket, end)

    async def _up(self, socket: ClientConnection) -> _SocketEnd | None:
        """Carry messages to the provider; None where it is gone."""
        try:
            while (message := await self._message())["type"] != "websocket.disconnect":
                if message["type"] == DRAIN:
                    self._draining = True
                    if self._conversation.idle:
                        return _SocketEnd(side=_ClosingSide.SERVER, code=_GOING_AWAY)
                    continue
                text: str | None = message.get("text")
                carried: str | bytes = message["bytes"] if text is None else text
                self._note(self._conversation.on_agent_message(_encoded(carried)))
                await socket.send(carried)
        except ConnectionClosed:
            return None
        return _SocketEnd(
            side=_ClosingSide.AGENT,
            framed="reason" in message,  # without, the connection was lost
            code=message.get("code"),
            reason=message.get("reason") or "",
        )

    async def _message(self) -> Message:
        waited, self._next = self._next, None
        return await (waited or self._receive())

    async def _down(self, socket: ClientConnection) -> _SocketEnd | None:
        """Carry messages to the agent; None where it is gone."""
        try:
            while not (self._draining and self._conversation.idle):
                message = await socket.recv()
                await self._hear(_encoded(message))
                kind = "text" if isinstance(message, str) else "bytes"
                await self._send({"type": "websocket.send", kind: message})
        except ConnectionClosed as closed:
            frame = closed.rcvd
            if frame is None:
                return _SocketEnd(side=_ClosingSide.PROVIDER, framed=False)
            return _SocketEnd(side=_ClosingSide.PROVIDER, code=frame.code, reason=frame.reason)
        except OSError:
            return None
        return _SocketEnd(side=_ClosingSide.SERVER, code=_GOING_AWAY)

    async def _hear(self, message: bytes) -> None:
        changes = self._conversation.on_provider_message(message, self._context.clock())
        self._note(changes)
        if self._opening is not None:
            self._context.recorder.hurry()
            await asyncio.shield(self._opening)
            self._opening = None
        if changes.finished:
            await self._durable()

    # the end

    async def _end(self, socket: ClientConnection, end: _SocketEnd) -> None:
        """End the sides that did not end it, as it was ended."""
        code = None if end.code == 1005 else end.code  # the name of a frame without a code
        if end.framed and end.side is not _ClosingSide.AGENT:
            await self._send({"type": "websocket.close", "code": code, "reason": end.reason})
        if end.framed and end.side is not _ClosingSide.PROVIDER:
            await socket.close(code, end.reason)  # type: ignore[arg-type]  # None is no code
        # else: the agent's connection is cut by returning, the provider's by aborting it

    # the record

    def _call(self, method: str) -> Call:
        context, target = self._context, self._target
        return Call(
            id=context.new_id(),
            rollout_id=target.rollout_id,
            upstream=target.upstream.name,
            method=method,
            path=target.path,
            query=target.query,
            role=target.role,
            attribution=target.attribution,
            key_digest=dress.key_digest(dress.shown_key(self._asked.headers), context.salt),
            started_at=context.wall(),
            began=context.clock(),
            request_headers=self._asked.headers,
        )

    def _note(self, changes: CallChanges) -> None:
        for exchange in changes.started:
            self._begin(exchange)
        for exchange in changes.finished:
            self._committed = self._context.recorder.recorded(exchange)

    def _begin(self, exchange: Exchange) -> None:
        self._opening = self._context.recorder.opened(exchange.id, lambda: exchange)

    async def _commit(self, exchange: Exchange) -> None:
        self._committed = self._context.recorder.recorded(exchange)
        await self._durable()

    async def _durable(self) -> None:
        if self._committed is not None and not self._committed.done():
            await asyncio.shield(self._committed)


async def _until_over(ways: Iterable[asyncio.Future[_SocketEnd | None]]) -> _SocketEnd:
    """The first end that either way knows of; a way whose far side is gone knows of none."""
    running = set(ways)
    while running:
        _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            if way.done() and (end := way.result()) is not None:
                return end
    return _SocketEnd(side=_ClosingSide.AGENT, framed=False)


def _drilled() -> Refusal:
    return Refusal(
        426,
        "no_websocket",
        "this rollout is drilled: its failures are played over HTTP",
        OVER_HTTP,
    )


async def _refuse(refusal: Refusal, send: Send) -> None:
    headers, body = problem(refusal)
    await _answer(refusal.status, headers, body, send)


async def _answer(status: int, headers: dress.Pairs, body: bytes, send: Send) -> None:
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _encoded(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message
