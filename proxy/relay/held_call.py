"""A call that limits count: sent once its reservation is made, with the wait on record."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from classifier.records import Ending, Exchange, LimitReached
from proxy.budgets import Reservation
from proxy.relay.call import RelayedCall, RelayState
from proxy.relay.reservations import Reservations, budget_exceeded

_WAIT_S = 60.0  # for what calls in flight have reserved
_LOOK_S = 0.5  # how often it looks for what other processes settled


class HeldCall(RelayedCall):
    """A call that may have to wait at the proxy before it is sent.

    It starts, for the record, when it is sent: the wait before that is ``held_s``, and no
    provider's.
    """

    _held_s = 0.0
    _given_up: asyncio.Event | None = None  # while it waits for a reservation

    async def wait_for(
        self, reservations: Reservations, reservation: Reservation, reached: LimitReached | None
    ) -> bool:
        """Wait until its reservation is made, and return True.

        It waits while calls in flight have reserved what is left of a limit; not longer than its
        agent does. False: the agent left, or its rollout ended, and the call is recorded so.

        Raises:
            Refusal: 403, a limit is spent, or was still reserved after 60 s.
        """
        self._given_up = given_up = asyncio.Event()
        self._agent.watch(self._on_left)
        settled = reservations.next_settlement()
        held_s: float | None = None  # so far
        while reached is not None:
            left_s = self._call.began + _WAIT_S - self._clock()
            if reached.is_spent or left_s <= 0:
                reached = replace(reached, held_s=held_s)
                await reservations.note_refused(reservation.rollout_id, reached)
                raise budget_exceeded(reached, self._plan.facts.route.api)
            if given_up.is_set():
                await reservations.note_refused(reservation.rollout_id, reached)
                self._give_up()
                return False
            await _first_of(settled, given_up, min(left_s, _LOOK_S))
            settled = reservations.next_settlement()
            reached = await reservations.make(reservation)
            held_s = round(self._clock() - self._call.began, 6)
        self._end_wait()
        if given_up.is_set():
            reservations.release(reservation.id)
            self._give_up()
            return False
        self._given_up = None
        return True

    def dismiss(self) -> None:
        """Take that it does not begin; whoever dismisses it answers its agent."""
        if not self._ended:
            self._agent.on_disconnect = None
            self._leave()

    def close(self) -> None:
        """End the call, because its rollout has ended."""
        if self._given_up is None:
            super().close()
            return
        self.closed = True
        self._given_up.set()

    def _on_left(self) -> None:
        if self._given_up is None:
            super()._on_left()
            return
        self.state = RelayState.LEFT
        self._given_up.set()

    def _give_up(self) -> None:
        """Record it as one that was not sent."""
        self._given_up = None
        self._end_wait()
        if body := self._agent.peek():
            self._observer.on_request_body(body)
        if self.left:
            self._end(Ending.LEFT_WHILE_HELD, None)
        else:
            super().close()

    def _end_wait(self) -> None:
        """Have the call start now; what it waited is ours."""
        call, at = self._call, self._clock()
        waited_s = at - call.began
        self._held_s += waited_s
        call.started_at += waited_s
        call.began = at
        self._observer.start_over(at)

    def _exchange(self, ending: Ending) -> Exchange:
        return replace(super()._exchange(ending), held_s=round(self._held_s, 6))


async def _first_of(settled: asyncio.Event, given_up: asyncio.Event, timeout_s: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (settled, given_up)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
