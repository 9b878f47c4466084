"""The handshake of an agent's WebSocket: passed on to the provider, and recorded as a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

from websockets.asyncio.client import ClientConnection

from classifier.records import Ending, Exchange, KeySource, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call
from proxy.features.websocket.capture import CallChanges, WebSocketApi, websocket_api
from proxy.features.websocket.connector import (
    UpgradeRefusedError,
    WebSocketConnector,
    WebSocketUnreachableError,
)
from proxy.inbound.asgi import WEBSOCKET, Message, Scope, Send, send_response
from proxy.relay.context import RelayContext, Signer
from proxy.relay.hold import HeldRequest, Ticket
from proxy.relay.operator_access import operator_headers
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.errors import OVER_HTTP, Refusal
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire import routes
from proxy.wire.dialect import model_name

# --- recording of a socket's calls -------------------------------------------------------------


class WebSocketRecord:
    """Records the calls of one socket: its upgrade, then each one that passes in messages.

    Arguments:
        headers: of the upgrade request; every call has them.
        client: address and port that the socket came from.
    """

    __slots__ = ("_client", "_committed", "_context", "_headers", "_opening", "_target")

    def __init__(
        self,
        context: RelayContext,
        target: Target,
        headers: http_headers.Pairs,
        client: tuple[str, int] | None = None,
    ) -> None:
        self._context = context
        self._target = target
        self._headers = headers
        self._client = client
        self._opening: asyncio.Future[None] | None = None
        self._committed: asyncio.Future[None] | None = None

    def new_call(self, method: str) -> Call:
        """Build a call that begins now."""
        context, target = self._context, self._target
        key = self._key()
        return Call(
            id=context.new_id(),
            rollout_id=target.rollout_id,
            upstream=target.upstream.name,
            method=method,
            path=target.path,
            query=target.query,
            role=target.role,
            attribution=target.attribution,
            key_digest=http_headers.key_digest(key, context.salt),
            started_at=context.wall(),
            began=context.clock(),
            request_headers=self._headers,
            key_source=None if key is None else self._key_source(),
            client=self._client,
        )

    def new_observer(self) -> CallObserver:
        """Build the observer of a call in a message, which begins now."""
        context = self._context
        return CallObserver(
            self.new_call(routes.WEBSOCKET),
            salt=context.salt,
            causes=context.causes,
            conversations=context.live.conversations,
        )

    def _key(self) -> bytes | None:
        if self._target.keys is KeyUse.OPERATORS:
            return self._context.operator_keys.identity(self._target.upstream)
        return http_headers.shown_key(self._headers)

    def _key_source(self) -> KeySource:
        if self._target.keys is KeyUse.OPERATORS:
            replaced = self._context.operator_keys.replace
            return KeySource.OPERATOR if replaced else KeySource.ADDED
        own = self._target.upstream.name not in self._context.operator_keys.static
        return KeySource.AGENT if own else KeySource.OVERRIDE

    def apply(self, changes: CallChanges) -> None:
        """Record which calls started and finished with a message."""
        for exchange in changes.started:
            self._open(exchange)
        for exchange in changes.finished:
            self._committed = self._context.recorder.record_durably(exchange)

    async def starts_durable(self) -> None:
        """Wait until the calls that started are durable."""
        if self._opening is not None:
            self._context.recorder.flush_starts()
            await asyncio.shield(self._opening)
            self._opening = None

    async def commit(self, exchange: Exchange) -> None:
        """Record a finished call, and wait until it is durable."""
        self._committed = self._context.recorder.record_durably(exchange)
        await self.durable()

    async def durable(self) -> None:
        """Wait until the finished calls are durable."""
        if self._committed is not None and not self._committed.done():
            await asyncio.shield(self._committed)

    def _open(self, exchange: Exchange) -> None:
        self._opening = self._context.recorder.begin_durably(exchange.id, lambda: exchange)


# --- upgrade request ---------------------------------------------------------------------------


# What a server answers that has the path over HTTP, or not at all, but no socket on it.
NO_SOCKET = frozenset({404, 405, 501})
_HANDSHAKE = b"sec-websocket-"
# A browser cannot set headers, so OpenAI takes its key among the subprotocols
# (platform.openai.com/docs/guides/realtime-websocket).
_KEY_PROTOCOL = "openai-insecure-api-key."
_MINTED_PROTOCOL = _KEY_PROTOCOL + "tz-"
_ACCOUNT_PROTOCOLS = (_KEY_PROTOCOL, "openai-organization.", "openai-project.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """An agent's request for a WebSocket. A minted key among its subprotocols is a header here."""

    headers: http_headers.Pairs
    subprotocols: tuple[str, ...]
    deflate: bool
    client: tuple[str, int] | None = None

    @classmethod
    def of(cls, scope: Scope) -> UpgradeRequest:
        """Read an upgrade request from its ASGI scope."""
        offered = scope["subprotocols"]
        minted = [one.removeprefix(_KEY_PROTOCOL) for one in offered if _is_minted(one)]
        extensions = http_headers.first(scope["headers"], _HANDSHAKE + b"extensions") or b""
        return cls(
            headers=[
                *((name, value) for name, value in scope["headers"]),
                *((b"authorization", b"Bearer " + key.encode("latin-1")) for key in minted),
            ],
            subprotocols=tuple(one for one in offered if not _is_minted(one)),
            deflate=b"permessage-deflate" in extensions,
            client=scope.get("client"),
        )

    @property
    def shows_own_key(self) -> bool:
        """True if the agent's own key is among the subprotocols."""
        return any(one.startswith(_KEY_PROTOCOL) for one in self.subprotocols)

    @property
    def subprotocols_without_keys(self) -> tuple[str, ...]:
        """The subprotocols that name neither a key nor an account."""
        return tuple(one for one in self.subprotocols if not one.startswith(_ACCOUNT_PROTOCOLS))


class HandshakeCall:
    """The request that opens a socket, as an exchange.

    It is a probe, and never counts in a verdict, unless it proves that the agent reached no
    model: what speaks of the key, the account or the provider's health does, and so does
    silence. That a path has no socket says nothing where the same API is there over HTTP.

    It waits for whoever has a hold on it, as a call does, before it is sent.
    """

    __slots__ = (
        "_call", "_held_s", "_holds", "_observer", "_route", "_tickets", "_waits", "api", "id",
        "model",
    )  # fmt: skip

    def __init__(self, context: RelayContext, target: Target, call: Call) -> None:
        self._observer = CallObserver(call, salt=context.salt, causes=context.causes)
        self._call = call
        self.id = call.id
        self.api: WebSocketApi | None = websocket_api(target.path)
        self.model = _model(target.query)
        self._route = route = routes.route(routes.UPGRADE, target.path)
        self._holds = tuple(
            hold
            for hold in (context.holds if self.api is not None else ())
            if hold.claims(call.upstream, routes.UPGRADE, route)
        )
        self._tickets: list[Ticket] = []
        self._waits = False
        self._held_s = 0.0

    async def pass_holds(self, clock: Callable[[], float]) -> None:
        """Return once each of its holds, one after the other, has let it go.

        Raises:
            Refusal: one of them refuses it.
        """
        loop = asyncio.get_running_loop()
        for hold in self._holds:
            then: asyncio.Future[Refusal | None] = loop.create_future()
            request = HeldRequest(call=self._call, route=self._route, model=self.model)
            ticket = hold.enter(request, then.set_result)
            self._tickets.append(ticket)
            if not ticket.let_go:
                self._waits = True
                refusal = await then
                self._end_wait(clock())
                if refusal is not None:
                    raise refusal

    def _end_wait(self, at: float) -> None:
        """Have it start now; what it waited is ours."""
        self._waits = False
        call = self._call
        waited_s = at - call.began
        self._held_s += waited_s
        call.started_at += waited_s
        call.began = at
        self._observer.start_over(at)

    @property
    def falls_back(self) -> bool:
        """True if the API's clients can use it over HTTP too."""
        return self.api is not None and self.api.falls_back

    def accepted(self, headers: http_headers.Pairs, at: float) -> Exchange:
        """Record that the provider switched protocols."""
        self._observer.on_response_head(101, headers, at)
        return self._finish(Ending.COMPLETE, at, headers)

    def left(self, at: float) -> Exchange:
        """Record that the agent left before an answer."""
        ending = Ending.LEFT_WHILE_HELD if self._waits else Ending.LEFT_BY_AGENT
        return self._finish(ending, at)

    def closed(self, at: float) -> Exchange:
        """Record that the rollout ended before an answer."""
        return self._finish(Ending.CLOSED_AT_OUTCOME, at)

    def refused(self, refused: UpgradeRefusedError, at: float) -> Exchange:
        """Record that the provider answered with something else."""
        headers = [(name.lower(), value) for name, value in refused.headers]
        self._observer.on_response_head(refused.status, headers, at)
        self._observer.on_response_body(refused.body, at)
        return self._weighed(self._finish(Ending.COMPLETE, at, headers))

    def unopened(self, unopened: WebSocketUnreachableError, at: float) -> Exchange:
        """No answer came."""
        exchange = self._finish(unopened.ending, at)
        if unopened.ending is Ending.LOST and self.api is not None:  # our own fault
            return replace(exchange, kind=Kind.INFERENCE, model=self.model)
        return self._weighed(exchange)

    def told(self, event: Mapping[str, object]) -> None:
        """Take the limits that a message states, after it was accepted."""
        for ticket in self._tickets:
            ticket.on_limits(event)

    def leave(self) -> None:
        """Give its tickets back, if nothing became of it."""
        for ticket in self._tickets:
            ticket.leave()

    def _finish(
        self, ending: Ending, at: float, headers: http_headers.Pairs | None = None
    ) -> Exchange:
        if self._waits:
            self._end_wait(at)
            self.leave()
        elif headers is not None:
            for ticket in self._tickets:
                ticket.on_head(headers)
        exchange = self._observer.finish(ending, at)
        if not self._tickets:
            return exchange
        exchange = replace(exchange, held_s=round(self._held_s, 6))
        for ticket in self._tickets:
            ticket.on_end(exchange, headers or [], self._held_s)
        return exchange

    def _weighed(self, exchange: Exchange) -> Exchange:
        cause = exchange.cause
        if self.api is None or cause is None:
            return exchange
        proves = cause.transient or cause.code is not None
        rejected = cause.subcategory is Subcategory.REJECTED_REQUEST
        if self.falls_back and (exchange.status in NO_SOCKET or rejected or not proves):
            return exchange
        return replace(exchange, kind=Kind.INFERENCE, model=self.model)


class UpstreamHandshake:
    """Asks the provider for the socket that an agent asked for, and records what became of it."""

    __slots__ = ("_call", "_connector", "_context", "_record", "_request", "_target")

    def __init__(
        self,
        context: RelayContext,
        connector: WebSocketConnector,
        target: Target,
        request: UpgradeRequest,
        record: WebSocketRecord,
        call: HandshakeCall,
    ) -> None:
        self._context = context
        self._connector = connector
        self._target = target
        self._request = request
        self._record = record
        self._call = call

    async def open(
        self, send: Send, leaving: asyncio.Future[Message], closing: asyncio.Future[None]
    ) -> ClientConnection | None:
        """Open the provider's socket; None if it refused, which the agent is told.

        Arguments:
            leaving: done when the agent does not wait any longer; None is returned then too.
            closing: done when the rollout has ended.

        Raises:
            Refusal: the provider cannot be reached, the rollout has ended, or the agent is to
                use HTTP.
        """
        call, record, clock = self._call, self._record, self._context.clock
        dialing = asyncio.ensure_future(self._dial_in_turn())
        try:
            first: set[asyncio.Future[Any]] = {dialing, leaving, closing}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not dialing.done():
                dialing.cancel()  # first: nobody would close what it opened
                if not closing.done():
                    await record.commit(call.left(clock()))
                    return None
                await record.commit(call.closed(clock()))
                raise refusals.rollout_ended()
            return dialing.result()
        except UpgradeRefusedError as refused:
            await record.commit(call.refused(refused, clock()))
            await self._pass_on(refused, send)
        except WebSocketUnreachableError as unreachable:
            await record.commit(call.unopened(unreachable, clock()))
            raise self._unopened(unreachable) from unreachable
        finally:
            dialing.cancel()
        return None

    async def _dial_in_turn(self) -> ClientConnection:
        await self._call.pass_holds(self._context.clock)
        return await self._dial()

    async def _dial(self) -> ClientConnection:
        upstream, context, request = self._target.upstream, self._context, self._request
        subprotocols = request.subprotocols
        if self._target.keys is KeyUse.OPERATORS:
            headers, signer = operator_headers(context, self._target, request.headers)
            if signer is not None:
                headers = await self._signed(headers, signer)
            if context.operator_keys.replace:
                subprotocols = request.subprotocols_without_keys
        else:
            headers = http_headers.for_upstream(
                request.headers, host=upstream.host, auth=upstream.auth, real_key=None
            )
        return await self._connector.open(
            upstream,
            self._target.forwarded,
            [pair for pair in headers if not is_handshake_header(pair[0])],
            subprotocols=subprotocols,
            deflate=request.deflate,
            timeout_s=context.limits.connect_s,
        )

    async def _signed(self, headers: http_headers.Pairs, signer: Signer) -> http_headers.Pairs:
        try:
            return await signer.sign(
                upstream=self._target.upstream,
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

    async def _pass_on(self, refused: UpgradeRefusedError, send: Send) -> None:
        if self._call.falls_back and refused.status in NO_SOCKET:
            raise use_http(self._target.upstream.name, refused.status, self._call.id)
        headers = http_headers.for_agent(refused.headers, self._call.id)
        passed_headers = [pair for pair in headers if pair[0] != b"content-length"]
        await send_response(send, refused.status, passed_headers, refused.body, to=WEBSOCKET)

    def _unopened(self, unreachable: WebSocketUnreachableError) -> Refusal:
        name = self._target.upstream.name
        return Refusal(
            unreachable.status,
            unreachable.code,
            f"no answer from upstream {name!r}: {unreachable.detail}",
            ((b"x-truezero-exchange", self._call.id.encode()),),
        )


def _model(query: bytes) -> str | None:
    """Return the model that a realtime upgrade names; Azure calls it a deployment."""
    parameters = parse_qs(query.decode("ascii", "replace"))
    models = parameters.get("model") or parameters.get("deployment")
    return model_name(models[0]) if models else None


def use_http(name: str, status: int, exchange_id: str) -> Refusal:
    """Send the agent to HTTP: Codex goes there at once after a 426, else after five reconnects.

    Source: openai/codex, core/src/client.rs, WebsocketStreamOutcome::FallbackToHttp.
    """
    return Refusal(
        426,
        "no_websocket",
        f"upstream {name!r} answers the upgrade with {status}: ask the same over HTTP",
        (*OVER_HTTP, (b"x-truezero-exchange", exchange_id.encode())),
    )


def is_handshake_header(name: bytes) -> bool:
    """Return True if a header belongs to the WebSocket handshake and is not forwarded."""
    return name.startswith(_HANDSHAKE) or name == b"host"


def _is_minted(subprotocol: str) -> bool:
    return subprotocol.startswith(_MINTED_PROTOCOL)
