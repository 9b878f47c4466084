"""A batch's calls, added up by what they have in common.

Their cost is not in the table, where the provider states none: so calls are added up only as
far as one price holds for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from proxy.store.tables import exchanges, rollouts

_DAY_S = 86_400
_KINDS = ("inference", "continuation")
# Input tokens up to which every price is the same for each token; a longer call is read alone.
FLAT_TOKENS = 32_000


class TokenSums(NamedTuple):
    """Sums of tokens over the calls that say so; None where none does."""

    inputs: int | None
    outputs: int | None
    total: int | None


class ToPrice(NamedTuple):
    """``calls`` without a stated cost whose input and output are known, and their tokens."""

    calls: int
    inputs: int | None
    cached: int | None
    written: int | None
    outputs: int | None


class CallSum(NamedTuple):
    """Ended calls of one day (since 1970) and price: what they have in common, counts and sums.

    ``group`` are the values asked for. ``used`` calls used tokens, as far as is known, of which
    ``counted`` say how many. ``stated_usd`` is what the providers of ``stated`` calls said that
    they cost.
    """

    group: tuple[str | None, ...]
    upstream: str
    model: str | None
    day: int
    calls: int
    failures: int
    used: int
    counted: int
    seconds: float | None
    stated: int
    stated_usd: float | None
    tokens: TokenSums
    to_price: ToPrice


_MODEL = func.coalesce(exchanges.c.answered_model, exchanges.c.model)
DIMENSIONS: dict[str, ColumnElement[Any]] = {
    "model": _MODEL,
    "upstream": exchanges.c.upstream,
    "role": exchanges.c.role,
    "task": rollouts.c.task,
}


def call_sums(connection: Connection, batch: str, by: Sequence[str]) -> list[CallSum]:
    """Add up the calls of every role in a batch.

    Arguments:
        by: names of `DIMENSIONS`.
    """
    x = exchanges.c
    group = [DIMENSIONS[name] for name in by]
    failed = x.subcategory.is_not(None)
    used = ~and_(failed, or_(x.status.is_(None), x.status >= 400))
    known = and_(x.input_total.is_not(None), x.output_total.is_not(None))
    stated = and_(used, x.cost_usd.is_not(None))
    priceable = and_(used, known, x.cost_usd.is_(None))
    counted = and_(used, or_(known, x.total_tokens.is_not(None)))
    total = func.coalesce(x.input_total + x.output_total, x.total_tokens)
    alone = case((and_(priceable, x.input_total > FLAT_TOKENS), x.id), else_=literal(""))
    price = (x.upstream, _MODEL, _day(connection).label("day"), alone.label("alone"))

    def count(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.count(case((condition, 1)))

    def of_priceable(column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.sum(case((priceable, column)))

    query = (
        select(
            *group,
            *price,
            func.count(),
            count(failed),
            count(used),
            count(counted),
            func.sum(x.duration_s),
            count(stated),
            func.sum(case((stated, x.cost_usd))),
            func.sum(x.input_total),
            func.sum(x.output_total),
            func.sum(total),
            count(priceable),
            of_priceable(x.input_total),
            of_priceable(x.cached_input_tokens),
            of_priceable(x.cache_write_tokens),
            of_priceable(x.output_total),
        )
        .select_from(rollouts.join(exchanges, x.rollout_id == rollouts.c.id))
        .where(
            rollouts.c.batch == batch,
            x.ending.is_not(None),
            x.pending.is_not(True),
            x.kind.in_(_KINDS),
        )
        .group_by(*group, *price)
    )
    return [_call_sum(row, len(group)) for row in connection.execute(query)]


def _day(connection: Connection) -> ColumnElement[int]:
    """Return the day since 1970 on which a call began."""
    days = exchanges.c.started_at / _DAY_S
    # SQLite is not always built with floor(), and its cast cuts; PostgreSQL's cast rounds.
    return cast(days if connection.dialect.name == "sqlite" else func.floor(days), Integer)


def _call_sum(row: Sequence[Any], size: int) -> CallSum:
    # PostgreSQL adds whole numbers up to a Decimal.
    values: list[Any] = [int(value) if isinstance(value, Decimal) else value for value in row]
    upstream, model, day, _alone, *sums = values[size:]
    tokens, to_price = TokenSums(*sums[7:10]), ToPrice(*sums[10:])
    group = tuple(values[:size])
    return CallSum._make((group, upstream, model, day, *sums[:7], tokens, to_price))
