"""Limits as calls meet them: each reserves a part before it is sent, or is refused.

A call waits while calls in flight have reserved what is left of a limit; not longer than its agent
does.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import orjson

from classifier.records import Exchange, Kind, LimitReached
from proxy.features.budgets.amounts import Amounts, Reservation
from proxy.features.budgets.prompt import prompt_tokens
from proxy.features.budgets.reservations import Reservations
from proxy.features.budgets.store import Budgets
from proxy.relay.hold import HeldRequest, Then
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.keys import AGENT
from proxy.routing.target import Target
from proxy.wire import routes
from proxy.wire.request import choices, output_limits
from proxy.wire.routes import Route

log = logging.getLogger("truezero")

_COUNTED = frozenset((Kind.INFERENCE, Kind.EMBEDDING, Kind.ACTIVITY, Kind.OTHER))
_READING = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))
_WAIT_S = 60.0  # for what calls in flight have reserved
_SECONDS = 30.0  # that a call takes, until one has ended

_NO_RETRY = ((b"x-should-retry", b"false"),)  # which OpenAI's and Anthropic's SDKs ask for

Price = Callable[[str, str, int, int], float | None]
"""The price of so many tokens of input and output, by upstream and model, in US dollars."""


class CountedCalls:
    """Counts the calls of rollouts that limits count: their `RolloutRule`, and its `Hold`.

    Arguments:
        output_tokens: reserved by a call whose request names no limit.
        clock: monotonic seconds, as calls are timed by.
    """

    may_refuse = True
    why_no_socket = "has limits: its calls are counted"

    def __init__(
        self,
        budgets: Budgets,
        reservations: Reservations,
        *,
        output_tokens: int,
        price: Price,
        clock: Callable[[], float],
    ) -> None:
        self._budgets = budgets
        self._reservations = reservations
        self._output_tokens = output_tokens
        self._price = price
        self._clock = clock

    def look_up(self, rollout: Mapping[Any, Any]) -> bool | None:
        """Return True if limits count a rollout's calls, else None."""
        return self._budgets.is_limited(rollout["id"]) or None

    def watched(self) -> Collection[str]:
        """Return the rollouts without an outcome whose calls are counted."""
        return self._budgets.limited()

    async def stand_in(self, _known: object, _target: Target, _method: str) -> None:
        """Return None: a provider answers what is counted."""

    def hold(self, _known: object, target: Target, method: str) -> CountedCalls | None:
        """Return itself for a call of a kind that limits count."""
        kind = routes.route(method, target.path).kind
        return self if kind in _COUNTED and method not in _READING else None

    def claims(self, _upstream: str, _method: str, _route: Route) -> bool:
        """Return False: it depends on the rollout whether a call is counted."""
        return False

    def enter(self, request: HeldRequest, then: Then) -> CountedCall:
        """Reserve what a call may spend; ``then`` is called once that is done, or refused."""
        call = request.call
        reservation = Reservation(
            id=call.id,
            rollout_id=call.rollout_id,
            is_agents=call.role == AGENT,
            amounts=self._stated(request),
            since=call.started_at,
        )
        return CountedCall(self._reservations, reservation, request, then, self._clock)

    def _stated(self, request: HeldRequest) -> Amounts:
        """Return what a request says that it may spend; its cost is infinite without a price."""
        payload, model = _payload(request.body), request.model
        inputs = prompt_tokens(request.body, payload)
        outputs = self._outputs(payload, request.route.kind)
        upstream = request.call.upstream
        price = None if model is None else self._price(upstream, model, inputs, outputs)
        return Amounts(1, inputs + outputs, math.inf if price is None else price, _SECONDS)

    def _outputs(self, payload: dict[str, Any], kind: Kind) -> int:
        """Return how many tokens all answers to a request may have; an embedding has none."""
        if kind is Kind.EMBEDDING:
            return 0
        return (max(output_limits(payload), default=0) or self._output_tokens) * choices(payload)


class CountedCall:
    """One call that limits count, as `proxy.relay.hold.Ticket`."""

    def __init__(
        self,
        reservations: Reservations,
        reservation: Reservation,
        request: HeldRequest,
        then: Then,
        clock: Callable[[], float],
    ) -> None:
        self.let_go = False
        self.waited = False
        self._reservations = reservations
        self._reservation = reservation
        self._began = request.call.began
        self._clock = clock
        self._left = asyncio.Event()
        self._then_left: Callable[[], None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._reserve_then(then))

    def on_head(self, headers: Pairs) -> None:
        """Do nothing: what it spent is read from its record."""

    def on_limits(self, event: Mapping[str, object]) -> None:
        """Do nothing, likewise."""

    def on_end(self, exchange: Exchange, headers: Pairs, held_s: float) -> None:
        """Do nothing, likewise."""

    def leave(self, then: Callable[[], None] | None = None) -> None:
        """Give back what was reserved, or is about to be; note first which limit held it."""
        if not self._task.done():
            self._then_left = then
            self._left.set()
            return
        if self.let_go:
            self._reservations.release(self._reservation.id)
        if then is not None:
            then()

    async def _reserve_then(self, then: Then) -> None:
        try:
            refusal = await self._reserve()
        except Exception as error:  # of any kind: the agent's call is worth more than its count
            log.error("a call is not counted: %s", type(error).__name__)
            self._reservations.leave_line(self._reservation)
            refusal = None
        if not self._left.is_set():
            self.let_go = refusal is None
            then(refusal)
        elif self._then_left is not None:
            self._then_left()

    async def _reserve(self) -> Refusal | None:
        """Return once the reservation is made, or with why it is not."""
        made, reservation = self._reservations, self._reservation
        held_s: float | None = None  # so far
        seen = made.settlements
        while (way := await made.make(reservation)) is not None:
            left_s = self._began + _WAIT_S - self._clock()
            reached, gone = way.limit, self._left.is_set()
            if gone or reached.is_spent or left_s <= 0:
                self.waited = self.waited or not reached.is_spent
                reached = reached if gone else replace(reached, held_s=held_s)
                await made.end_wait(reservation)
                await made.note_refused(reservation.rollout_id, reached)
                return None if gone else budget_exceeded(reached)
            self.waited = True
            await made.wait(reservation, way, self._left, left_s, seen=seen)
            seen = made.settlements
            held_s = round(self._clock() - self._began, 6)
        if self._left.is_set():
            made.release(reservation.id)
        return None


def budget_exceeded(reached: LimitReached) -> Refusal:
    """Refuse a call beyond a limit."""
    reason = str(reached)
    if not reached.is_spent:
        reason = reason.replace(" was spent", " is reserved by calls in flight")
    sentence = f"{reason}: this call was not sent to the provider, and a retry will not be"
    return Refusal(403, "budget_exceeded", sentence, _NO_RETRY)


def _payload(body: bytes) -> dict[str, Any]:
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return payload if isinstance(payload, dict) else {}
