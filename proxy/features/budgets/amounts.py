"""Limits, and the amounts that calls reserve and spend of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from classifier.records import Ending, Exchange, Kind, LimitReached

BYTES_A_TOKEN = 3  # of JSON, rather too few
# A chunk of OpenAI's stream has 200 to 300 bytes around one token; other APIs state their usage.
_BYTES_A_STREAMED_TOKEN = 128


class BudgetLimits(NamedTuple):
    """The most that calls may spend together; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


LIMITS = BudgetLimits._fields


class Amounts(NamedTuple):
    """An amount of each limit, spent or reserved."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The part of a budget that one call asks for before it is sent.

    ``amounts`` is what its request says that it may spend; infinite if that is unknown.
    ``is_agents``: a call of another role counts for the batch alone, and is never refused.
    ``since``: when it came, in epoch seconds. Of calls that wait, the oldest goes first.
    """

    id: str
    rollout_id: str
    is_agents: bool
    amounts: Amounts
    since: float


class BudgetKey(NamedTuple):
    """The key of a budget: its kind, and the name of the rollout or batch."""

    kind: str
    name: str


class Made(NamedTuple):
    """A reservation that was made: its amounts, and the budgets that they were taken from."""

    amounts: Amounts
    budgets: tuple[BudgetKey, ...]


class InTheWay(NamedTuple):
    """The limit in the way of a call, and the budget that it belongs to."""

    limit: LimitReached
    budget: BudgetKey


def limit_in_the_way(
    limits: BudgetLimits, spent: Amounts, in_flight: Amounts, asked: Amounts, *, behind: bool
) -> str | None:
    """Return the first limit that is spent, else the first for which a call waits, else None.

    A call waits while calls in flight have reserved what it asks for; if none is in flight it may
    begin, however large it is.

    Arguments:
        behind: an older call waits for the same budget, and goes first.
    """
    waits_for = None
    for name, most, used, reserved, more in zip(
        LIMITS, limits, spent, in_flight, asked, strict=True
    ):
        if most is None:
            continue
        if used >= most:
            return name
        held = in_flight.calls and used + reserved + more > most
        if waits_for is None and (held or behind):
            waits_for = name
    return waits_for


def spent_by(
    exchange: Exchange,
    reserved: Amounts,
    cost: Callable[[Exchange], float | None],
    *,
    provoked: bool = False,
) -> Amounts:
    """Return what a call that ended has spent.

    One that the provider failed, or the service lost, is no call and took no time, unless its
    agent ``provoked`` that. Tokens that
    nobody stated are as many as were reserved or relayed, whichever is more: neither hanging up
    nor asking in the background saves any.
    """
    failed = exchange.cause is not None or exchange.ending is Ending.LOST
    usage = exchange.usage
    parts = (usage.input_total, usage.output_total)
    known = sum(part for part in parts if part is not None)
    whole = None not in parts or usage.total_tokens is not None
    price = cost(exchange)
    if whole:
        tokens = known if None not in parts else usage.total_tokens or 0
    else:
        unstated = not failed and exchange.kind is Kind.INFERENCE
        tokens = max(known, reserved.tokens, _relayed(exchange)) if unstated else known
        price = reserved.cost_usd if unstated and price is None else price
    is_call = provoked or not failed
    return Amounts(
        calls=int(is_call),
        tokens=tokens,
        cost_usd=price or 0.0,
        seconds=(exchange.timing.duration_s or 0.0) if is_call else 0.0,
    )


def _relayed(exchange: Exchange) -> int:
    """Return about how many tokens of an answer came."""
    a_token = _BYTES_A_STREAMED_TOKEN if exchange.streamed else BYTES_A_TOKEN
    return exchange.response_bytes // a_token
