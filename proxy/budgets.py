"""The amounts that limits count, what a call asks of them, and what one that ended has spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from classifier.records import Ending, Exchange, Kind, LimitReached

LIMITS = ("calls", "tokens", "cost_usd", "seconds")


class Amounts(NamedTuple):
    """An amount of each limit: spent, reserved or left."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAsking:
    """A call that asks to begin.

    ``guess`` is what its request says it may spend, infinite where that is unknown; it counts until
    a call of the rollout, or of its batch, has ended. ``is_agents``: of another role it is counted
    for the batch alone, and never blocked.
    """

    id: str
    rollout_id: str
    is_agents: bool
    guess: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """The amounts that a call reserved, as far as can be told; None: no limit counts it."""

    amounts: Amounts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The limit that keeps a call from beginning.

    ``on_limit`` and ``pause_s`` are as registered.
    """

    reached: LimitReached
    on_limit: str
    pause_s: float


def spent_by(
    exchange: Exchange, reserved: Amounts, cost: Callable[[Exchange], float | None]
) -> Amounts:
    """Return what a call that ended has spent.

    One that the provider failed, or the service lost, is no call and took no time. Tokens that
    nobody stated are as many as were reserved: hanging up early saves none.
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
        tokens = max(known, reserved.tokens) if unstated else known
        price = reserved.cost_usd if unstated and price is None else price
    return Amounts(
        calls=0 if failed else 1,
        tokens=tokens,
        cost_usd=price or 0.0,
        seconds=0.0 if failed else exchange.timing.duration_s or 0.0,
    )
