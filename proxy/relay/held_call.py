"""A call that waits before it is sent, for whoever has a hold on it, with the wait on record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from classifier.records import Ending, Exchange
from proxy.outbound import errors
from proxy.outbound.request import SerializedRequest
from proxy.relay.call import RelayedCall, RelayState
from proxy.relay.hold import HeldRequest, Hold, Ticket
from proxy.routing.errors import Refusal


class HeldCall(RelayedCall):
    """A call that is sent once each of its holds, one after the other, has let it go.

    It starts, for the record, when it is sent: the wait before that is ``held_s``, and no
    provider's. Its body is collected first, since it names the model.
    """

    _holds: tuple[Hold, ...] = ()
    _tickets: tuple[Ticket, ...] = ()  # of the holds that it has come to
    _body = b""
    _held_s = 0.0
    _waiting: SerializedRequest | None = None  # what a hold keeps from being sent

    def begin_held(self, holds: tuple[Hold, ...]) -> None:
        """Begin it; ``holds`` have it wait in this order."""
        self._holds = holds
        self.begin()

    @property
    def _may_be_refused(self) -> bool:
        return any(hold.may_refuse for hold in self._holds)

    def _needs_whole_body(self, more: bool) -> bool:
        return True

    def _note_begun(self) -> None:
        if not self._may_be_refused:
            super()._note_begun()

    def _prepare(self, body: bytes, more: bool) -> None:
        self._body = body
        super()._prepare(body, more)

    def _send(self, message: SerializedRequest) -> None:
        self._waiting = message
        if self.state is RelayState.WAITING:
            self.state = RelayState.HELD
        self._pass_holds()

    def _pass_holds(self) -> None:
        """Come to the holds that are left, until one has it wait; send it where none does."""
        message = self._waiting
        if message is None:
            return
        while len(self._tickets) < len(self._holds):
            hold = self._holds[len(self._tickets)]
            ticket = hold.enter(self._request(), self._on_let_go)
            self._tickets = (*self._tickets, ticket)
            if not ticket.let_go:
                return
        self._waiting, self._body = None, b""
        if self.state is RelayState.HELD:
            self.state = RelayState.WAITING
        if self._may_be_refused:
            super()._note_begun()
        super()._send(message)

    def _request(self) -> HeldRequest:
        return HeldRequest(
            call=self._call,
            route=self._plan.facts.route,
            model=self._observer.asked_model(),
            body=self._body,
        )

    def _on_let_go(self, refusal: Refusal | None) -> None:
        if self._waiting is None or self._gives_up:
            return
        self._end_wait()
        try:
            if refusal is None:
                self._pass_holds()
            else:
                self._turn_away(refusal)
        except errors.UpstreamError as error:
            self.on_failure(error)
        except Exception as error:
            self.on_internal_error(error)

    @property
    def _gives_up(self) -> bool:
        """Return True if it has left the last of its holds."""
        return self.state is RelayState.HELD_LEFT or self.state is RelayState.HELD_CLOSED

    def _turn_away(self, refusal: Refusal) -> None:
        """Answer why it is not sent; there is no record, since no call came about."""
        self._refusal = refusal
        self._stop(RelayState.LEFT if self.left else RelayState.REFUSING)
        self._refuse()

    def _end_wait(self) -> None:
        """Have the call start now; what it waited is ours."""
        call, at = self._call, self._clock()
        waited_s = at - call.began
        if self._tickets and self._tickets[-1].waited:
            self._held_s += waited_s
        call.started_at += waited_s
        call.began = at
        self._observer.start_over(at)

    def on_head(self) -> None:
        """Take the response's head, which its holds are told too."""
        for ticket in self._tickets:
            ticket.on_head(self.headers)
        super().on_head()

    def close(self) -> None:
        """End the call, because its rollout has ended."""
        if self._waiting is None:
            super().close()
        elif self.state is not RelayState.HELD_CLOSED:
            self._leave_hold(
                RelayState.HELD_LEFT if self.left else RelayState.HELD_CLOSED, super().close
            )

    def _on_left(self) -> None:
        if self._waiting is None:
            super()._on_left()
            return
        self._agent.on_writable(None)
        if self.state is RelayState.HELD_CLOSED:
            self.state = RelayState.HELD_LEFT
        else:
            self._leave_hold(RelayState.HELD_LEFT, self._end_left)

    def _end_left(self) -> None:
        held = self._tickets[-1].waited
        self._end(Ending.LEFT_WHILE_HELD if held else Ending.LEFT_BY_AGENT, None)

    def _leave_hold(self, why: RelayState, then: Callable[[], None]) -> None:
        """Leave the hold that has it wait, and end it then."""
        self.state = why
        self._tickets[-1].leave(then)

    def _stop(self, end: RelayState) -> None:
        if self._waiting is not None:
            self._end_wait()
            self._waiting = None
            for ticket in self._tickets:
                if not (self._gives_up and ticket is self._tickets[-1]):
                    ticket.leave()
        super()._stop(end)

    def _exchange(self, ending: Ending) -> Exchange:
        exchange = replace(super()._exchange(ending), held_s=round(self._held_s, 6))
        for ticket in self._tickets:
            ticket.on_end(exchange, self.headers, self._held_s)
        return exchange
