"""A batch's calls, added up by what they have in common.

Their cost is not in the table, where the provider states none: so calls are added up only as
far as one price holds for all of them. `usage_sums` reads what is kept of them by minute, and
`call_sums` the calls, where tasks are asked for or a price changes within what was added up.
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

from proxy.store import triggers
from proxy.store.derived import call_usage
from proxy.store.tables import exchanges, rollouts

_DAY_S, _DAY_MINUTES = 86_400, 1440
_KINDS = ("inference", "continuation")
# Input tokens up to which every price is the same for each token; a longer call is read alone.
FLAT_TOKENS = triggers.TIERS[0]


class TokenSums(NamedTuple):
    """Sums of tokens over the calls that say so; None where none does."""

    inputs: int | None
    outputs: int | None
    total: int | None


class ToPrice(NamedTuple):
    """``calls`` without a stated cost whose input and output are known, and their tokens.

    Each has more input tokens than ``above`` and, of several, no more than the next of
    `triggers.TIERS`.
    """

    calls: int
    inputs: int | None = None
    cached: int | None = None
    written: int | None = None
    outputs: int | None = None
    above: int = 0


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


_MOST = {"cost_usd": triggers.MOST_USD, "duration_s": triggers.MOST_S}
_MODEL = func.coalesce(exchanges.c.answered_model, exchanges.c.model)
DIMENSIONS: dict[str, ColumnElement[Any]] = {
    "model": _MODEL,
    "upstream": exchanges.c.upstream,
    "role": exchanges.c.role,
    "task": rollouts.c.task,
}


def usage_sums(connection: Connection, batch: str, by: Sequence[str]) -> list[CallSum]:
    """Add up the calls of every role in a batch, from what is kept of them.

    Arguments:
        by: names of `DIMENSIONS`, without ``task``.
    """
    u = call_usage.c
    group = [func.nullif(u[name], "") for name in by]
    lane = (u.upstream, func.nullif(u.model, ""), (u.minute // _DAY_MINUTES).label("day"), u.basis)
    calls = func.sum(u.calls)
    sums = (
        calls, func.sum(case((u.cause != "", u.calls), else_=0)), func.sum(u.tokens_known_calls),
        func.sum(u.seconds_known_calls), func.sum(u.seconds), func.sum(u.cost_usd),
        func.sum(u.input_known_calls), func.sum(u.output_known_calls),
        func.sum(u.input_tokens), func.sum(u.output_tokens), func.sum(u.total_tokens),
        func.sum(u.cached_input_tokens), func.sum(u.cache_write_tokens),
    )  # fmt: skip
    query = (
        select(*group, *lane, *sums)
        .where(u.batch == batch, u.basis != triggers.UNCOUNTED)
        .group_by(*group, *lane)
        .having(calls > 0)
    )
    return [_usage_sum(row, len(group)) for row in connection.execute(query)]


def _usage_sum(row: Sequence[Any], size: int) -> CallSum:
    upstream, model, day, basis, *sums = _whole(row)[size:]
    (calls, failures, known, timed, seconds, usd, read, written, inputs, outputs, total, cached,
     stored) = sums  # fmt: skip
    stated, priced = basis == triggers.STATED, basis.isdigit()
    return CallSum(
        group=tuple(row[:size]),
        upstream=upstream,
        model=model,
        day=day,
        calls=calls,
        failures=failures,
        used=0 if basis == triggers.UNUSED else calls,
        counted=0 if basis == triggers.UNUSED else known,
        seconds=seconds if timed else None,
        stated=calls if stated else 0,
        stated_usd=usd if stated else None,
        tokens=TokenSums(
            inputs if read else None, outputs if written else None, total if known else None
        ),
        to_price=ToPrice(calls, inputs, cached, stored, outputs, int(basis))
        if priced
        else ToPrice(0),
    )


def call_sums(connection: Connection, batch: str, by: Sequence[str]) -> list[CallSum]:
    """Add up the calls of every role in a batch, one by one.

    Arguments:
        by: names of `DIMENSIONS`.
    """
    x = exchanges.c
    group = [DIMENSIONS[name] for name in by]
    failed = x.subcategory.is_not(None)
    used = ~and_(failed, or_(x.status.is_(None), x.status >= 400))
    inputs, outputs, cost = _sound(x.input_total), _sound(x.output_total), _sound(x.cost_usd)
    known = and_(inputs.is_not(None), outputs.is_not(None))
    stated = and_(used, cost.is_not(None))
    priceable = and_(used, known, cost.is_(None))
    total = func.coalesce(inputs + outputs, _sound(x.total_tokens))
    counted = and_(used, total.is_not(None))
    alone = case((and_(priceable, inputs > FLAT_TOKENS), x.id), else_=literal(""))
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
            func.sum(_sound(x.duration_s)),
            count(stated),
            func.sum(case((stated, cost))),
            func.sum(inputs),
            func.sum(outputs),
            func.sum(total),
            count(priceable),
            of_priceable(inputs),
            of_priceable(_sound(x.cached_input_tokens)),
            of_priceable(_sound(x.cache_write_tokens)),
            of_priceable(outputs),
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


def _sound(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a column without what no call can have, as `triggers` reads it."""
    most = _MOST.get(column.key or "", triggers.MOST_TOKENS)
    return case((column.between(0, most), column))


def _whole(row: Sequence[Any]) -> list[Any]:
    """Return a row's values; PostgreSQL adds whole numbers up to a Decimal."""
    return [int(value) if isinstance(value, Decimal) else value for value in row]


def _call_sum(row: Sequence[Any], size: int) -> CallSum:
    values = _whole(row)
    upstream, model, day, _alone, *sums = values[size:]
    tokens, to_price = TokenSums(*sums[7:10]), ToPrice(*sums[10:])
    group = tuple(values[:size])
    return CallSum._make((group, upstream, model, day, *sums[:7], tokens, to_price))
