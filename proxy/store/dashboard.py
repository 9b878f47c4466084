"""Queries over many rollouts at once, for pages and metrics: one or two SELECTs each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    cast,
    func,
    select,
)

from classifier.breakers import Phase
from classifier.breakers import at as breaker_at
from classifier.records import UNATTRIBUTED
from proxy.store.breakers import decode_state
from proxy.store.tables import breakers, events, exchanges, open_calls, rollouts, verdicts
from proxy.store.types import StoreCounts

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CountedPage:
    """One page of rows, and how many there are in all."""

    rows: Sequence[Facts]
    total: int


def batches(connection: Connection, *, offset: int, limit: int) -> CountedPage:
    """List batches with their number of rollouts and first and last time, the newest first."""
    newest = func.max(rollouts.c.created_at).label("last_at")
    first = func.min(rollouts.c.created_at).label("first_at")
    query = (
        select(rollouts.c.batch, func.count().label("rollouts"), first, newest)
        .where(rollouts.c.batch.is_not(None))
        .group_by(rollouts.c.batch)
        .order_by(newest.desc(), rollouts.c.batch)
    )
    named = select(func.count(rollouts.c.batch.distinct()))
    rows = _rows(connection, query.offset(offset).limit(limit))
    return CountedPage(rows, connection.scalar(named) or 0)


def without_batch(connection: Connection) -> int:
    """Count rollouts without a batch."""
    query = select(func.count()).select_from(rollouts).where(rollouts.c.batch.is_(None))
    return connection.scalar(query) or 0


def span(connection: Connection, batch: str) -> tuple[float, float] | None:
    """Return when a batch's first and last rollout began, in epoch seconds; None without any."""
    query = select(func.min(rollouts.c.created_at), func.max(rollouts.c.created_at))
    first, last = connection.execute(query.where(rollouts.c.batch == batch)).one()
    return None if first is None else (first, last)


def in_flight(connection: Connection, batch: str | None = None) -> int:
    """Count calls in flight, of one batch or of all."""
    query = select(func.count()).select_from(open_calls)
    if batch is not None:
        query = query.join(rollouts, rollouts.c.id == open_calls.c.rollout_id)
        query = query.where(rollouts.c.batch == batch)
    return connection.scalar(query) or 0


def unattributed(connection: Connection, *, since: float) -> int:
    """Count ended calls that named no rollout and began after ``since`` (epoch seconds)."""
    query = select(func.count()).where(
        exchanges.c.rollout_id == UNATTRIBUTED, exchanges.c.started_at > since
    )
    return connection.scalar(query) or 0


def _rows(connection: Connection, query: Select[Any]) -> list[Facts]:
    return [dict(row) for row in connection.execute(query).mappings()]


def facts(connection: Connection, rollout_id: str) -> Facts | None:
    """Return one rollout's columns; None where it is unknown."""
    query = select(rollouts).where(rollouts.c.id == rollout_id)
    return next(iter(_rows(connection, query)), None)


def calls_over_time(connection: Connection, batch: str, *, step_s: int) -> list[Facts]:
    """Count a batch's ended calls by time step and subcategory (None where answered).

    Returns:
        Rows of ``step`` (times ``step_s`` is epoch seconds), ``subcategory``, ``calls``.
    """
    step = floor_of(connection, exchanges.c.started_at / step_s).label("step")
    query = (
        select(step, exchanges.c.subcategory, func.count().label("calls"))
        .select_from(rollouts.join(exchanges, exchanges.c.rollout_id == rollouts.c.id))
        .where(rollouts.c.batch == batch)
        .group_by(step, exchanges.c.subcategory)
        .order_by(step)
    )
    return _rows(connection, query)


def floor_of(connection: Connection, value: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the integer below a value that is not negative."""
    # SQLite is not always built with floor(), and its cast cuts; PostgreSQL's cast rounds.
    if connection.dialect.name == "sqlite":
        return cast(value, Integer)
    return cast(func.floor(value), Integer)


def counts(connection: Connection, now: float) -> StoreCounts:
    """Count rollouts by the health of their verdict, and open and half-open breakers."""
    judged = select(verdicts.c.health, func.count()).group_by(verdicts.c.health)
    open_ = select(breakers.c.state).where(breakers.c.state.like('%"phase":"%open"%'))
    healths = {row[0]: row[1] for row in connection.execute(judged)}
    states = [decode_state(state) for state in connection.execute(open_).scalars()]
    phases = Counter(breaker_at(state, now).phase for state in states)
    return StoreCounts(
        verdicts=healths,
        breakers={phase.value: phases[phase] for phase in (Phase.OPEN, Phase.HALF_OPEN)},
    )


# --- change detection ------------------------------------------------------------------------


def pulse(
    connection: Connection, *, batch: str | None = None, rollout_id: str | None = None
) -> tuple[Any, ...]:
    """Return a cheap value that changes as calls begin and end, and as verdicts are given."""
    if rollout_id is not None:
        return _rollout_pulse(connection, rollout_id)
    begun = select(func.max(rollouts.c.created_at))  # never a count of all: millions
    opened = select(func.count(), func.max(open_calls.c.id))
    if batch is not None:
        named = rollouts.c.batch == batch
        begun = begun.add_columns(func.count()).where(named)
        opened = opened.join(rollouts, rollouts.c.id == open_calls.c.rollout_id).where(named)
    last_event, newest = select(func.max(events.c.id)), select(func.max(exchanges.c.started_at))
    return _results(connection, begun, opened, last_event, newest)


def _rollout_pulse(connection: Connection, rollout_id: str) -> tuple[Any, ...]:
    done = select(func.count()).where(exchanges.c.rollout_id == rollout_id)
    opened = select(func.count(), func.max(open_calls.c.id)).where(
        open_calls.c.rollout_id == rollout_id
    )
    outcome = select(rollouts.c.outcome_at, rollouts.c.gaps).where(rollouts.c.id == rollout_id)
    return _results(connection, done, opened, outcome)


def _results(connection: Connection, *queries: Select[*tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(tuple(row) for query in queries for row in connection.execute(query))
