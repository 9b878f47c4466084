"""Reservations of one process's calls: made before a call is sent, settled once it is on record.

The database keeps limits for all processes. While it is away, agents are let through.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from classifier.records import Exchange, Kind, LimitReached
from proxy.budgets import Amounts, Reservation, spent_by
from proxy.inbound.http import RequestCycle
from proxy.relay.admission import AccessUnknownError
from proxy.routing import headers as http_headers
from proxy.routing.errors import Refusal
from proxy.routing.keys import AGENT
from proxy.routing.target import Target
from proxy.wire import routes
from proxy.wire.request import output_limit

log = logging.getLogger("truezero")

_COUNTED = frozenset((Kind.INFERENCE, Kind.EMBEDDING, Kind.ACTIVITY, Kind.OTHER))
_READING = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))
_AGAIN_S = 1.0  # until the database is tried again that did not take what calls spent
# Of a request that does not say more; what calls take replaces it as soon as one has ended.
_BYTES_A_TOKEN = 3
_OUTPUT_TOKENS = 1000
_SECONDS = 30.0

_NO_RETRY = ((b"x-should-retry", b"false"),)  # which OpenAI's and Anthropic's SDKs ask for


class Reservations:
    """Makes and settles the reservations of this process's calls.

    All methods but `ended` are called in the event loop.

    Arguments:
        reserve: stores a reservation, in a thread; returns the amounts reserved, or the limit that
            is in the way, or None if no limit counts the call. Raises AccessUnknownError, as the
            next two do.
        settle: stores what calls that ended have spent, by id; likewise.
        refused: stores which limit refused a rollout's agent; likewise.
        watch: has `ended` called with the calls on record from then on, in any thread.
        cost: the price of a call that ended, in US dollars; None if unknown.
        price: that of so many tokens of input and output, by upstream and model.
        new_id: an id for a call.
    """

    def __init__(
        self,
        *,
        reserve: Callable[[Reservation], Amounts | LimitReached | None],
        settle: Callable[[Mapping[str, Amounts]], None],
        refused: Callable[[str, LimitReached], None],
        watch: Callable[[Callable[[Sequence[Exchange]], None]], None],
        cost: Callable[[Exchange], float | None],
        price: Callable[[str, str, int, int], float | None],
        new_id: Callable[[], str],
    ) -> None:
        self._reserve = reserve
        self._settle = settle
        self._refused = refused
        self._watch = watch
        self._cost = cost
        self._price = price
        self._new_id = new_id
        self._reserved: dict[str, Amounts] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._settled: asyncio.Event | None = None  # by who waits for the next settlement
        self._loop: asyncio.AbstractEventLoop | None = None  # once it watches

    def of(self, request: RequestCycle, target: Target) -> Reservation | None:
        """Return the reservation for a request; None if no limit counts calls of its kind."""
        route = routes.route(request.head.method, target.path)
        if route.kind not in _COUNTED or request.head.method in _READING:
            return None
        return Reservation(
            id=self._new_id(),
            rollout_id=target.rollout_id,
            is_agents=target.role == AGENT,
            amounts=self._stated(request, target, route.model),
        )

    async def make(self, reservation: Reservation) -> LimitReached | None:
        """Reserve what a call may spend, or return the limit that is in its way."""
        try:
            answer = await asyncio.to_thread(self._reserve, reservation)
        except AccessUnknownError as error:
            log.warning("a call's budget cannot be looked up: %s", type(error).__name__)
            return None
        if isinstance(answer, LimitReached):
            return answer
        if answer is not None:
            if self._loop is None:  # nothing is watched in a service without limits
                self._loop = asyncio.get_running_loop()
                self._watch(self.ended)
            self._reserved[reservation.id] = answer
        return None

    async def note_refused(self, rollout_id: str, reached: LimitReached) -> None:
        """Store which limit kept a rollout's agent from a call; its verdict depends on it."""
        await self._store(self._refused, rollout_id, reached)

    def next_settlement(self) -> asyncio.Event:
        """Return what is set when reservations of this process have been settled."""
        if self._settled is None or self._settled.is_set():
            self._settled = asyncio.Event()
        return self._settled

    def release(self, call_id: str) -> None:
        """Give back the reservation of a call that does not begin after all."""
        if self._reserved.pop(call_id, None) is not None:
            self._begin_settling({call_id: Amounts()})

    def ended(self, exchanges: Sequence[Exchange]) -> None:
        """Settle the reservations of calls that are on record now."""
        spent = {
            each.id: spent_by(each, reserved, self._cost)
            for each in exchanges
            if (reserved := self._reserved.pop(each.id, None)) is not None
        }
        if spent and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_settling, spent)

    async def drain(self) -> None:
        """Wait until what has ended is settled, as the process stops."""
        while self._settling:
            await asyncio.wait(self._settling, timeout=_AGAIN_S)
            if any(not task.done() for task in self._settling):
                return

    def _stated(self, request: RequestCycle, target: Target, model: str | None) -> Amounts:
        """Return what a request says that it may spend; its cost is infinite without a price."""
        size, outputs = len(request.peek()), _OUTPUT_TOKENS
        if request.more_body:
            length = http_headers.named(request.head.headers).get(b"content-length")
            size = max(size, int(length)) if length is not None else size
        else:
            payload = _payload(request.peek())
            named = payload.get("model")
            model = named if isinstance(named, str) else model
            outputs = output_limit(payload) or outputs
        inputs = size // _BYTES_A_TOKEN
        price = None if model is None else self._price(target.upstream.name, model, inputs, outputs)
        return Amounts(1, inputs + outputs, math.inf if price is None else price, _SECONDS)

    def _begin_settling(self, spent: Mapping[str, Amounts]) -> None:
        task = asyncio.get_running_loop().create_task(self._settle_all(spent))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_all(self, spent: Mapping[str, Amounts]) -> None:
        if not await self._store(self._settle, spent):
            await asyncio.sleep(_AGAIN_S)
            self._begin_settling(spent)
            return
        if self._settled is not None:
            self._settled.set()

    async def _store(self, write: Callable[..., None], *values: Any) -> bool:
        try:
            await asyncio.to_thread(write, *values)
        except AccessUnknownError as error:
            log.warning("a budget cannot be written: %s", type(error).__name__)
            return False
        return True


def budget_exceeded(reached: LimitReached, api: str) -> Refusal:
    """Refuse a call beyond a limit, with an error in the shape of the provider's API."""
    reason = str(reached)
    if not reached.is_spent:
        reason = reason.replace(" was spent", " is reserved by calls in flight")
    sentence = f"{reason}: this call was not sent to the provider, and a retry will not be"
    extra: dict[str, object] = {"error": {
        "message": sentence, "type": "budget_exceeded", "param": None, "code": "budget_exceeded",
    }}  # fmt: skip
    dialect = api.partition(".")[0]
    if dialect == "anthropic":  # docs.claude.com/en/api/errors
        extra = {"error": {"type": "permission_error", "message": sentence}}
    elif api == "gemini.interactions":  # ai.google.dev/gemini-api/docs/api-errors
        extra = {"error": {"code": "permission_denied", "message": sentence}}
    elif dialect == "gemini":  # cloud.google.com/apis/design/errors
        extra = {"error": {"code": 403, "message": sentence, "status": "PERMISSION_DENIED"}}
    elif dialect in ("bedrock", "cohere"):  # whose errors are a message
        extra["message"] = sentence
    return Refusal(403, "budget_exceeded", sentence, _NO_RETRY, extra)


def _payload(body: bytes) -> dict[str, Any]:
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return payload if isinstance(payload, dict) else {}
