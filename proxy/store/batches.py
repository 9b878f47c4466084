"""The list of batches, and sums of their calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    RowMapping,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
)

from classifier.batches import RewardSpan
from classifier.references import REFERENCE
from classifier.whole_batch import RegisteredModels
from proxy.store import triggers
from proxy.store.tables import (
    UNSCORED,
    batches,
    call_usage,
    exchanges,
    rollouts,
    unjudged,
    verdicts,
)


def outdated(connection: Connection, batch: str) -> int:
    """Count the rollouts of a batch that have changed since they were judged."""
    query = select(func.count()).where(unjudged.c.batch == batch)
    return connection.scalar(query) or 0


# --- list of batches ---------------------------------------------------------------------------


class BatchCursor(NamedTuple):
    """A batch's place in the list: when its last rollout began, and its name."""

    last_at: float
    batch: str


def newest(
    connection: Connection, *, after: BatchCursor | None = None, offset: int = 0, limit: int
) -> Sequence[RowMapping]:
    """List batches with when their first and last rollout began, the newest first.

    Arguments:
        after: the place of the batch before the page.
        offset: how many more to pass over.
    """
    query = select(batches.c.batch, batches.c.first_at, batches.c.last_at)
    if after is not None:
        query = query.where(tuple_(batches.c.last_at, batches.c.batch) < after)
    query = (
        query.order_by(batches.c.last_at.desc(), batches.c.batch.desc()).offset(offset).limit(limit)
    )
    return connection.execute(query).mappings().all()


class UnscoredRows(NamedTuple):
    """Verdicts of a batch without a score that are alike, and when their rollouts began."""

    health: str
    subcategory: str | None
    fingerprint: str | None
    cause: str | None
    lane: str | None
    attributed_to: str | None
    scoreable: str
    validity: str | None
    rollouts: int
    first: float
    last: float


_ALIKE = tuple(verdicts.c[name] for name in UnscoredRows._fields[:8])


def unscored(connection: Connection, batch: str) -> list[UnscoredRows]:
    """Count the verdicts of a batch that let no score count, by what is said of them."""
    began = func.coalesce(verdicts.c.began_at, verdicts.c.given_at)
    query = (
        select(*_ALIKE, func.count(), func.min(began), func.max(began))
        .where(verdicts.c.batch == batch, text(UNSCORED))
        .group_by(*_ALIKE)
    )
    return [UnscoredRows._make(row) for row in connection.execute(query)]


class BatchRewards(NamedTuple):
    """The rewards of a batch, and the key of the score as it was registered."""

    span: RewardSpan
    score_key: str | None


def rewards_of(connection: Connection, batch: str) -> BatchRewards:
    """Return the least and the greatest reward that counts, and what was registered of rewards."""
    seen = select(func.min(verdicts.c.reward), func.max(verdicts.c.reward)).where(
        verdicts.c.batch == batch, verdicts.c.reward.is_not(None)
    )
    least, greatest = connection.execute(seen).one()
    facts = select(rollouts.c.reward_range, rollouts.c.score_key)
    facts = facts.where(rollouts.c.batch == batch, rollouts.c.registered).limit(1)
    stated, key = connection.execute(facts).one_or_none() or (None, None)
    span = RewardSpan(least, greatest, tuple(json.loads(stated)) if stated else None)
    return BatchRewards(span, key)


class Registrations(NamedTuple):
    """Rollouts by what their registrations name, and when the first and the last began."""

    alike: Mapping[RegisteredModels, int]
    began: tuple[float, float] | None


def registrations(connection: Connection, batch: str) -> Registrations:
    """Count the rollouts of a batch by their registered models, and how agents are trusted."""
    r = rollouts.c
    named = (r.model, r.fallbacks, r.agents)
    counts = func.count(), func.min(r.created_at), func.max(r.created_at)
    query = select(*named, *counts).where(r.batch == batch).group_by(*named)
    alike: Counter[RegisteredModels] = Counter()
    began: list[float] = []
    for model, fallbacks, agents, number, first_at, last_at in connection.execute(query):
        others = tuple(fallbacks.split("\n")) if fallbacks else ()
        alike[RegisteredModels(model, others, agents)] += number
        began += [first_at, last_at]
    return Registrations(alike, (min(began), max(began)) if began else None)


# --- sums of a batch's calls -------------------------------------------------------------------
# Where the provider states no cost, it follows from prices and is not in the table: so calls are
# added up only as far as one price holds for all of them. `usage_sums` reads the totals kept by
# minute. `call_sums` reads the calls, for sums by task or if a price changes within a minute's
# total.


_DAY_S, _DAY_MINUTES = 86_400, 1440
_CLOCKS_APART_S = 60.0  # an id is made before its call begins, on the same host
_KINDS = ("inference", "continuation")
# Input tokens up to which every price is the same for each token; a longer call is read alone.
FLAT_TOKENS = triggers.TIERS[0]


class TokenSums(NamedTuple):
    """Sums of tokens over the calls that say so; None if none does."""

    inputs: int | None
    outputs: int | None
    total: int | None


class UnpricedCalls(NamedTuple):
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
    they cost; ``special`` others had a tier or paid tools of which no price is known.
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
    special: int
    tokens: TokenSums
    to_price: UnpricedCalls


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
        special=calls if basis == triggers.SPECIAL else 0,
        tokens=TokenSums(
            inputs if read else None, outputs if written else None, total if known else None
        ),
        to_price=UnpricedCalls(calls, inputs, cached, stored, outputs, int(basis))
        if priced
        else UnpricedCalls(0),
    )


def call_sums(connection: Connection, batch: str, by: Sequence[str]) -> list[CallSum]:
    """Add up the calls of every role in a batch, one by one.

    Arguments:
        by: names of `DIMENSIONS`.
    """
    of_rollouts = rollouts.join(exchanges, exchanges.c.rollout_id == rollouts.c.id)
    return _sums_of(connection, by, of_rollouts, rollouts.c.batch == batch)


def question_sums(connection: Connection, *, since: float, until: float) -> list[CallSum]:
    """Add up reference calls by upstream, one by one: no batch and no rollout has them.

    Arguments:
        since: began then or later, and before ``until``, in epoch seconds.
    """
    x = exchanges.c
    return _sums_of(
        connection,
        ("upstream",),
        exchanges,
        x.rollout_id == REFERENCE,
        x.id >= _first_id(since),  # the table is ordered by it
        x.started_at >= since,
        x.started_at < until,
    )


def _first_id(at: float) -> str:
    """Return a text that ids of exchanges come after which began at a time or later."""
    return f"{max(0, int((at - _CLOCKS_APART_S) * 1e6)):013x}"


def _sums_of(
    connection: Connection, by: Sequence[str], source: FromClause, *which: ColumnElement[bool]
) -> list[CallSum]:
    x = exchanges.c
    group = [DIMENSIONS[name] for name in by]
    failed = x.subcategory.is_not(None)
    used = ~and_(failed, or_(x.status.is_(None), x.status >= 400))
    inputs, outputs, cost = _sound(x.input_total), _sound(x.output_total), _sound(x.cost_usd)
    known = and_(inputs.is_not(None), outputs.is_not(None))
    stated = and_(used, cost.is_not(None))
    special = and_(used, cost.is_(None), x.billed_as.is_not(None))
    priceable = and_(used, known, cost.is_(None), x.billed_as.is_(None))
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
            count(special),
            func.sum(inputs),
            func.sum(outputs),
            func.sum(total),
            count(priceable),
            of_priceable(inputs),
            of_priceable(_sound(x.cached_input_tokens)),
            of_priceable(_sound(x.cache_write_tokens)),
            of_priceable(outputs),
        )
        .select_from(source)
        .where(
            *which,
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
    """Return a column without what no call can have, as `triggers` read it."""
    most = _MOST.get(column.key or "", triggers.MOST_TOKENS)
    return case((column.between(0, most), column))


def _whole(row: Sequence[Any]) -> list[Any]:
    """Return a row's values; PostgreSQL adds whole numbers up to a Decimal."""
    return [int(value) if isinstance(value, Decimal) else value for value in row]


def _call_sum(row: Sequence[Any], size: int) -> CallSum:
    values = _whole(row)
    upstream, model, day, _alone, *sums = values[size:]
    tokens, to_price = TokenSums(*sums[8:11]), UnpricedCalls(*sums[11:])
    group = tuple(values[:size])
    return CallSum._make((group, upstream, model, day, *sums[:8], tokens, to_price))
