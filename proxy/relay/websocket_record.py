"""What one proxied WebSocket hands to the recorder."""

from __future__ import annotations

import asyncio

from classifier.records import Exchange, KeySource
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call
from proxy.capture.websocket import CallChanges
from proxy.relay.context import RelayContext
from proxy.routing import headers as dress
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire import routes


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
        headers: dress.Pairs,
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
            key_digest=dress.key_digest(key, context.salt),
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
            silence=context.limits.silence,
            conversations=context.live.conversations,
        )

    def _key(self) -> bytes | None:
        if self._target.keys is KeyUse.OPERATORS:
            return self._context.operator_keys.identity(self._target.upstream)
        return dress.shown_key(self._headers)

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
            self._committed = self._context.recorder.recorded(exchange)

    async def opened(self) -> None:
        """Wait until the calls that started are durable."""
        if self._opening is not None:
            self._context.recorder.hurry()
            await asyncio.shield(self._opening)
            self._opening = None

    async def commit(self, exchange: Exchange) -> None:
        """Record a finished call, and wait until it is durable."""
        self._committed = self._context.recorder.recorded(exchange)
        await self.durable()

    async def durable(self) -> None:
        """Wait until the finished calls are durable."""
        if self._committed is not None and not self._committed.done():
            await asyncio.shield(self._committed)

    def _open(self, exchange: Exchange) -> None:
        self._opening = self._context.recorder.opened(exchange.id, lambda: exchange)
