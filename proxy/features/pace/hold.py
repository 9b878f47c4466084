"""Pace as calls meet it: each waits for its turn, which is told how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from classifier.records import Ending, Exchange, Kind
from proxy.features.pace.lane_pace import Turn
from proxy.features.pace.pacer import LaneKey, Pacer
from proxy.relay.hold import HeldRequest, Then
from proxy.routing.headers import Pairs
from proxy.wire.routes import UPGRADE, Route

_WAITING = (Kind.INFERENCE, Kind.EMBEDDING)
_LEFT = (Ending.LEFT_BY_AGENT, Ending.LEFT_WHILE_HELD)


class PaceHold:
    """Has calls to models wait for their turn, as `proxy.relay.hold.Hold`."""

    may_refuse = False

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer

    def claims(self, upstream: str, method: str, route: Route) -> bool:
        """Return True for a model's call, or the handshake of its WebSocket, where it is paced."""
        if not self._pacer.paces(upstream):
            return False
        asks = method == "POST" and (route.kind in _WAITING or route.infers)
        return asks or method == UPGRADE

    def enter(self, request: HeldRequest, then: Then) -> PaceTicket:
        """Queue a call; it is let go at once, or ``then`` is called when its turn has come."""
        call = request.call
        turn = self._pacer.turn(
            call.rollout_id, call.request_headers, size=len(request.body), go=partial(then, None)
        )
        key = (call.upstream, request.model, call.key_digest)
        return PaceTicket(self._pacer, key, turn, waited=not self._pacer.enter(key, turn))


class PaceTicket:
    """One call's turn, as `proxy.relay.hold.Ticket`."""

    __slots__ = ("_key", "_pacer", "_turn", "waited")

    def __init__(self, pacer: Pacer, key: LaneKey, turn: Turn, *, waited: bool) -> None:
        self._pacer = pacer
        self._key = key
        self._turn = turn
        self.waited = waited

    @property
    def let_go(self) -> bool:
        """True if its turn has come."""
        return self._turn.sent_at is not None

    def on_head(self, headers: Pairs) -> None:
        """Note the limits that the head of its answer states."""
        self._pacer.answered(self._key, self._turn, headers)

    def on_limits(self, event: Mapping[str, object]) -> None:
        """Note those that a message of its WebSocket states."""
        self._pacer.told(self._key, self._turn, event)

    def on_end(self, exchange: Exchange, headers: Pairs, held_s: float) -> None:
        """Note how it ended; agents that left show how long they wait."""
        turn = self._turn
        if turn.sent_at is not None:
            self._pacer.ended(self._key, turn, exchange, headers)
        if exchange.ending in _LEFT and exchange.status is None:
            after_s = held_s + (exchange.timing.duration_s or 0.0)
            self._pacer.patience.note(turn.rollout, turn.batch, after_s)

    def leave(self, then: Callable[[], None] | None = None) -> None:
        """Give the turn back."""
        self._pacer.leave(self._key, self._turn)
        if then is not None:
            then()
