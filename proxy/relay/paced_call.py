"""A call that waits for its turn before it is sent, where its upstream is paced."""

from __future__ import annotations

from classifier.records import Ending, Exchange
from proxy.outbound import errors
from proxy.outbound.request import SerializedRequest
from proxy.relay.call import RelayState
from proxy.relay.held_call import HeldCall
from proxy.relay.pace import Turn
from proxy.relay.pacer import LaneKey


class PacedCall(HeldCall):
    """A call that is sent when its turn has come; until then its agent waits for the proxy.

    Its body is collected first, since it names the model.
    """

    _turn: Turn | None = None
    _key: LaneKey = ("", None, None)
    _waiting: SerializedRequest | None = None

    def _needs_whole_body(self, more: bool) -> bool:
        return True

    def _send(self, message: SerializedRequest) -> None:
        pacer, call = self._context.pacer, self._call
        assert pacer is not None, "only where one paces is a call of this kind begun"
        self._turn = turn = pacer.turn(
            call.rollout_id, call.request_headers, size=self._size, go=self._go
        )
        self._key = (call.upstream, self._observer.asked_model(), call.key_digest)
        self._waiting = message
        if pacer.enter(self._key, turn):
            self._waiting = None
            super()._send(message)

    def _go(self) -> None:
        """Send the request: its turn has come."""
        message = self._waiting
        if message is None:
            return
        self._end_wait()
        try:
            super()._send(message)
        except errors.UpstreamError as error:
            self.on_failure(error)
        except Exception as error:
            self.on_internal_error(error)

    def _end_wait(self) -> None:
        self._waiting = None
        super()._end_wait()

    def on_head(self) -> None:
        """Take the response's head, and the limits that it states."""
        pacer, turn = self._context.pacer, self._turn
        if pacer is not None and turn is not None:
            pacer.answered(self._key, turn, self.headers)
        super().on_head()

    def _on_left(self) -> None:
        if self._waiting is None:
            super()._on_left()
            return
        self._agent.on_writable(None)
        self.state = RelayState.LEFT
        self._end(Ending.LEFT_WHILE_HELD, None)

    def _stop(self) -> None:
        pacer, turn = self._context.pacer, self._turn
        if self._waiting is not None and pacer is not None and turn is not None:
            self._end_wait()
            pacer.leave(self._key, turn)
        super()._stop()

    def _exchange(self, ending: Ending) -> Exchange:
        exchange = super()._exchange(ending)
        pacer, turn = self._context.pacer, self._turn
        if pacer is None or turn is None:
            return exchange
        if turn.sent_at is not None:
            pacer.ended(self._key, turn, exchange, self.headers)
        left = exchange.ending in (Ending.LEFT_BY_AGENT, Ending.LEFT_WHILE_HELD)
        if left and exchange.status is None:
            after_s = self._held_s + (exchange.timing.duration_s or 0.0)
            pacer.patience.note(turn.rollout, turn.batch, after_s)
        return exchange
