"""How far one proxied call is, and what of it is on record."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import Enum

from classifier.records import Cause, Ending, Exchange
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, HeadFacts
from proxy.relay.context import RelayContext


class RelayState(Enum):
    """The states of a call; the last three are final for its agent."""

    WAITING = "no response yet; the request may still be arriving"
    RESPONDING = "the agent has the response's head"
    TOO_LARGE = "the request outgrew its limit on the way"
    DRAINING = "the agent left; the response is read on for its usage or its error"
    LEFT = "the agent left"


class CallProgress:
    """The state of one call, and its exchange: opened, observed, recorded.

    ``received``: bytes of the response's body. ``cause``: why nothing was sent, where the proxy
    knows better than the response does. ``closed``: the rollout ended while it was under way.
    """

    state = RelayState.WAITING
    closed = False
    received = 0
    cause: Cause | None = None
    _as_left: Exchange | None = None
    _opened: asyncio.Future[None] | None = None
    _committed: asyncio.Future[None] | None = None
    _committed_bytes = -1

    def __init__(self, context: RelayContext, call: Call, head: HeadFacts | None = None) -> None:
        self.observer = CallObserver(
            call,
            salt=context.salt,
            silence=context.limits.silence,
            conversations=context.live.conversations,
            head=head,
        )
        self.clock = context.clock
        self._recorder = context.recorder

    @property
    def left(self) -> bool:
        """Whether the agent hung up."""
        return self.state is RelayState.LEFT or self.state is RelayState.DRAINING

    @property
    def recorded(self) -> bool:
        """Whether all that was received is on record."""
        return self._committed_bytes == self.received

    def open(self, exchange_id: str) -> None:
        """Record that the call began."""
        self._opened = self._recorder.opened(exchange_id, self.observer.opened)

    async def opened(self) -> None:
        """Wait until that is durable."""
        if self._opened is not None and not self._opened.done():
            self._recorder.hurry()
            await self._opened

    async def caught_up(self) -> bool:
        """Wait until what came is decoded, a turn at a time; whether the stream ended with it."""
        observer, ended = self.observer, False
        while observer.behind:
            await asyncio.sleep(0)
            ended = observer.catch_up(self.clock())
        return ended

    def left_complete(self) -> bool:
        """Note what the agent had when it left; whether that was the whole response.

        The exchange ends for its agent then, however much is read of it afterwards.
        """
        as_left = self.observer.finish(Ending.LEFT_BY_AGENT, self.clock())
        if as_left.ending is Ending.COMPLETE:
            return True
        self._as_left = as_left
        return False

    def ended(self, ending: Ending) -> Exchange | None:
        """Return the exchange to be recorded; None where all that was received is on record."""
        if self._committed_bytes == self.received:
            return None
        self._committed_bytes = self.received
        exchange = self.observer.finish(ending, self.clock())
        if self.cause is not None:
            exchange = replace(exchange, cause=self.cause)
        if self._as_left is not None:
            exchange = _ended_as(self._as_left, exchange)
        return exchange

    def record(self, ending: Ending) -> None:
        """Record the exchange once, and again only where more bytes came after that."""
        exchange = self.ended(ending)
        if exchange is not None:
            self._committed = self._recorder.recorded(exchange)

    async def durable(self) -> None:
        """Wait until what was recorded is durable."""
        if self._committed is not None and not self._committed.done():
            await self._committed


def _ended_as(as_left: Exchange, exchange: Exchange) -> Exchange:
    """Combine what was read after the agent left with the ending at that moment.

    An error's body says why the call failed, however much of it the agent had.
    """
    timing = replace(exchange.timing, duration_s=as_left.timing.duration_s)
    cause = exchange.cause if (exchange.status or 0) >= 400 else as_left.cause
    return replace(exchange, ending=as_left.ending, cause=cause, timing=timing)
