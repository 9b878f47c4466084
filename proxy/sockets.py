"""Relays sockets between an agent and a provider, message by message, and counts their calls.

It changes no message, and opens nothing that the provider did not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import parse_qs

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from classifier.records import Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy import headers as dress
from proxy.addressing import Target
from proxy.conversation import FinishedCall, TurnStyle, WebSocketCapture, manner
from proxy.refusals import Refusal, problem
from proxy.relay import Message, Receive, Relay, RelayContext, Scope, Send
from proxy.tap import Call, CallObserver
from proxy.upgrades import (
    DRAIN,
    UpgradeRefusedError,
    WebSocketConnector,
    WebSocketUnreachableError,
    pairs,
)
from proxy.wire import table
from proxy.wire.dialect import model_name

# What a server answers that has the path over HTTP, or not at all, but no socket on it.
_NO_SOCKET = frozenset({404, 405, 501})
_OVER_HTTP = ((b"upgrade", b"HTTP/1.1"),)  # due with a 426, RFC 9110 §15.5.22
_GOING_AWAY = 1001  # RFC 6455 §7.4.1
_HANDSHAKE = b"sec-websocket-"
# A browser cannot set headers, so OpenAI takes its key among the subprotocols
# (platform.openai.com/docs/guides/realtime-websocket).
_KEY_PROTOCOL = "openai-insecure-api-key."
_MINTED_PROTOCOL = _KEY_PROTOCOL + "tz-"


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
            target = await self._admitted({**scope, "headers": asked.headers})
            access = self._context.access
            if access is not None and access.concerns(target) and await access.drilled(target):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """What an agent's upgrade asks for; a minted key among its subprotocols is a header here."""

    headers: dress.Pairs
    subprotocols: tuple[str, ...]
    deflate: bool

    @classmethod
    def of(cls, scope: Scope) -> UpgradeRequest:
        """Read an upgrade request from its ASGI scope."""
        offered = scope["subprotocols"]
        minted = [one.removeprefix(_KEY_PROTOCOL) for one in offered if _is_minted(one)]
        extensions = dress.first(scope["headers"], _HANDSHAKE + b"extensions") or b""
        return cls(
            headers=[
                *((name, value) for name, value in scope["headers"]),
                *((b"authorization", b"Bearer " + key.encode("latin-1")) for key in minted),
            ],
            subprotocols=tuple(one for one in offered if not _is_minted(one)),
            deflate=b"permessage-deflate" in extensions,
        )

    @property
    def shows_own_key(self) -> bool:
        """Whether the agent's own key is among the subprotocols."""
        return any(one.startswith(_KEY_PROTOCOL) for one in self.subprotocols)


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
        upgrade = HandshakeCall(self._context, self._target, self._call(table.UPGRADE))
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
            [pair for pair in await self._signed(headers) if not _of_handshake(pair[0])],
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
        if upgrade.falls_back and refused.status in _NO_SOCKET:
            raise _use_http(self._target.upstream.name, refused.status, upgrade.id)
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
        headers = [pair for pair in dressed if not _of_handshake(pair[0])]
        await self._commit(upgrade.opened(headers, self._context.clock()))
        self._conversation = WebSocketCapture(
            upgrade.manner,
            new_call=lambda: self._call(table.WEBSOCKET),
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
                self._conversation.ended(
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
                self._note(self._conversation.asked(_encoded(carried)))
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
        noted = self._conversation.answered(message, self._context.clock())
        self._note(noted)
        if self._opening is not None:
            self._context.recorder.hurry()
            await asyncio.shield(self._opening)
            self._opening = None
        if noted.over:
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

    def _note(self, noted: FinishedCall) -> None:
        for exchange in noted.begun:
            self._begin(exchange)
        for exchange in noted.over:
            self._committed = self._context.recorder.recorded(exchange)

    def _begin(self, exchange: Exchange) -> None:
        self._opening = self._context.recorder.opened(exchange.id, lambda: exchange)

    async def _commit(self, exchange: Exchange) -> None:
        self._committed = self._context.recorder.recorded(exchange)
        await self._durable()

    async def _durable(self) -> None:
        if self._committed is not None and not self._committed.done():
            await asyncio.shield(self._committed)


class HandshakeCall:
    """The request that opens a socket, as an exchange.

    It is a probe, and never counts in a verdict, unless it proves that the agent reached no
    model: what speaks of the key, the account or the provider's health does, and so does
    silence. That a path has no socket says nothing where the same API is there over HTTP.
    """

    __slots__ = ("_observer", "id", "manner", "model")

    def __init__(self, context: RelayContext, target: Target, call: Call) -> None:
        self._observer = CallObserver(call, salt=context.salt, stall_s=context.stall_s)
        self.id = call.id
        self.manner: TurnStyle | None = manner(target.path)
        self.model = _model(target.query)

    @property
    def falls_back(self) -> bool:
        """Whether its clients have the same API over HTTP."""
        return self.manner is not None and self.manner.falls_back

    def opened(self, headers: dress.Pairs, at: float) -> Exchange:
        """The provider switched protocols."""
        self._observer.on_response_head(101, headers, at)
        return self._observer.finish(Ending.COMPLETE, at)

    def left(self, at: float) -> Exchange:
        """The agent left before an answer."""
        return self._observer.finish(Ending.LEFT_BY_AGENT, at)

    def refused(self, refused: UpgradeRefusedError, at: float) -> Exchange:
        """The provider answered with something else."""
        headers = [(name.lower(), value) for name, value in refused.headers]
        self._observer.on_response_head(refused.status, headers, at)
        self._observer.on_response_body(refused.body, at)
        return self._weighed(self._observer.finish(Ending.COMPLETE, at))

    def unopened(self, unopened: WebSocketUnreachableError, at: float) -> Exchange:
        """No answer came."""
        return self._weighed(self._observer.finish(unopened.ending, at))

    def _weighed(self, exchange: Exchange) -> Exchange:
        cause = exchange.cause
        if self.manner is None or cause is None:
            return exchange
        told = cause.transient or cause.code is not None
        rejected = cause.subcategory is Subcategory.REJECTED_REQUEST
        if self.falls_back and (exchange.status in _NO_SOCKET or rejected or not told):
            return exchange
        return replace(exchange, kind=Kind.INFERENCE, model=self.model)


async def _until_over(ways: Iterable[asyncio.Future[_SocketEnd | None]]) -> _SocketEnd:
    """The first end that either way knows of; a way whose far side is gone knows of none."""
    running = set(ways)
    while running:
        _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            if way.done() and (end := way.result()) is not None:
                return end
    return _SocketEnd(side=_ClosingSide.AGENT, framed=False)


def _model(query: bytes) -> str | None:
    """The model that a realtime upgrade names; Azure calls it a deployment."""
    asked = parse_qs(query.decode("ascii", "replace"))
    named = asked.get("model") or asked.get("deployment")
    return model_name(named[0]) if named else None


def _use_http(name: str, status: int, exchange_id: str) -> Refusal:
    """Codex asks the same over HTTP at once after a 426, after five reconnects otherwise.

    Source: openai/codex, core/src/client.rs, WebsocketStreamOutcome::FallbackToHttp.
    """
    return Refusal(
        426,
        "no_websocket",
        f"upstream {name!r} answers the upgrade with {status}: ask the same over HTTP",
        (*_OVER_HTTP, (b"x-truezero-exchange", exchange_id.encode())),
    )


def _drilled() -> Refusal:
    return Refusal(
        426,
        "no_websocket",
        "this rollout is drilled: its failures are played over HTTP",
        _OVER_HTTP,
    )


async def _refuse(refusal: Refusal, send: Send) -> None:
    headers, body = problem(refusal)
    await _answer(refusal.status, headers, body, send)


async def _answer(status: int, headers: dress.Pairs, body: bytes, send: Send) -> None:
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _encoded(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def _of_handshake(name: bytes) -> bool:
    return name.startswith(_HANDSHAKE) or name == b"host"


def _is_minted(subprotocol: str) -> bool:
    return subprotocol.startswith(_MINTED_PROTOCOL)
