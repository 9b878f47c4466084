"""Statistics over many rollouts for pages and metrics: upstreams, calls over time.

Each query is one or two SELECTs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    cast,
    func,
    literal,
    select,
    union_all,
)

from classifier.records import UNATTRIBUTED
from proxy.feature import modules
from proxy.store.tables import (
    StoreCounts,
    batches,
    call_usage,
    events,
    exchanges,
    open_calls,
    rollouts,
    verdicts,
)

Facts = dict[str, Any]

_MINUTE = 60
_COUNTED = 5000  # calls of a batch up to which they are read, so that they are told by seconds


def span(connection: Connection, batch: str) -> tuple[float, float] | None:
    """Return when a batch's first and last rollout began, in epoch seconds; None without any."""
    query = select(batches.c.first_at, batches.c.last_at).where(batches.c.batch == batch)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


class InFlight(NamedTuple):
    """The calls in flight, and when the oldest of them began (epoch seconds; None without any)."""

    calls: int
    since: float | None


def in_flight(connection: Connection, batch: str | None = None) -> InFlight:
    """Count calls in flight, of one batch or of all."""
    query = select(func.count(), func.min(open_calls.c.started_at))
    if batch is not None:
        query = query.where(_is_of(batch))
    return InFlight._make(connection.execute(query).one())


def _is_of(batch: str) -> ColumnElement[bool]:
    """Build the condition that a call in flight belongs to a batch.

    The query starts from the calls in flight and not from the batch's rollouts.
    """
    owner = select(rollouts.c.batch).where(rollouts.c.id == open_calls.c.rollout_id)
    return owner.scalar_subquery() == batch


class ServiceCounts(NamedTuple):
    """The batches that have a rollout, the rollouts without one, and calls in flight.

    ``nameless`` are ended calls of late that named no rollout.
    """

    batches: int
    without_batch: int
    in_flight: InFlight
    nameless: int


def service_counts(connection: Connection, *, nameless_since: float) -> ServiceCounts:
    """Count over all batches; nameless calls that began after a time in epoch seconds."""
    alone = select(func.count()).select_from(rollouts).where(rollouts.c.batch.is_(None))
    nameless = select(func.count()).where(
        exchanges.c.rollout_id == UNATTRIBUTED, exchanges.c.started_at > nameless_since
    )
    counts = (select(func.count()).select_from(batches), alone, nameless)
    listed, without, unnamed = (connection.scalar(each) or 0 for each in counts)
    return ServiceCounts(listed, without, in_flight(connection), unnamed)


def _rows(connection: Connection, query: Select[Any]) -> list[Facts]:
    return [dict(row) for row in connection.execute(query).mappings()]


def facts(connection: Connection, rollout_id: str) -> Facts | None:
    """Return one rollout's columns; None if it is unknown."""
    query = select(rollouts).where(rollouts.c.id == rollout_id)
    return next(iter(_rows(connection, query)), None)


def call_span(connection: Connection, batch: str) -> tuple[float, float] | None:
    """Return the minutes within which a batch's ended calls began, as epoch seconds; None of none.

    The end is that of the last minute.
    """
    each = call_usage.c
    query = select(func.min(each.minute), func.max(each.minute))
    row = connection.execute(query.where(each.batch == batch, each.calls > 0)).one()
    return None if row[0] is None else (row[0] * _MINUTE, (row[1] + 1) * _MINUTE)


def upstreams_of(connection: Connection, batch: str) -> list[str]:
    """List the upstreams that a batch's ended calls went to."""
    each = call_usage.c
    query = select(each.upstream).distinct().where(each.batch == batch, each.calls > 0)
    return list(connection.execute(query).scalars())


def calls_over_time(connection: Connection, batch: str, *, step_s: int) -> tuple[int, list[Facts]]:
    """Count a batch's ended calls by time step and subcategory (None if answered).

    Of a batch with many calls only minutes are known: its calls are not read.

    Returns:
        The step that is counted by, in seconds: ``step_s``, or more; and rows of ``step`` (times
        that, in epoch seconds), ``subcategory``, ``calls``.
    """
    each = call_usage.c
    total = select(func.sum(each.calls)).where(each.batch == batch)
    if (connection.scalar(total) or 0) <= _COUNTED:
        return step_s, _counted_calls(connection, batch, step_s)
    minutes = max(1, math.ceil(step_s / _MINUTE))
    step = (each.minute // minutes).label("step")
    calls = func.sum(each.calls)
    query = (
        select(step, func.nullif(each.cause, "").label("subcategory"), calls.label("calls"))
        .where(each.batch == batch)
        .group_by(step, each.cause)
        .having(calls > 0)
        .order_by(step)
    )
    rows = [{**row, "calls": int(row["calls"])} for row in connection.execute(query).mappings()]
    return minutes * _MINUTE, rows


def _counted_calls(connection: Connection, batch: str, step_s: int) -> list[Facts]:
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


class StoredGauge(NamedTuple):
    """A metric of a feature that is counted in the database whenever metrics are read.

    ``counts`` returns it by the values of its one label; ``text`` says what it counts.
    """

    name: str
    text: str
    label: str
    counts: Callable[[Connection, float], Mapping[str, int]]


def stored_gauges() -> list[StoredGauge]:
    """Return those of all features, in their order."""
    return [gauge for _, module in modules("gauges") for gauge in module.GAUGES]


def counts(connection: Connection, now: float) -> StoreCounts:
    """Count rollouts by the health of their verdict, and what features count."""
    return StoreCounts(
        verdicts=_healths(connection),
        gauges={gauge.name: gauge.counts(connection, now) for gauge in stored_gauges()},
    )


def _healths(connection: Connection) -> dict[str, int]:
    """Count verdicts by health, in an index."""
    query = select(verdicts.c.health, func.count()).group_by(verdicts.c.health)
    return {row.health: row[1] for row in connection.execute(query)}


# --- change detection ------------------------------------------------------------------------


def pulse(
    connection: Connection, *, batch: str | None = None, rollout_id: str | None = None
) -> tuple[Any, ...]:
    """Return a cheap value that changes as calls begin and end, and as verdicts are given."""
    if rollout_id is not None:
        return _rollout_pulse(connection, rollout_id)
    begun: Select[Any] = select(func.max(rollouts.c.created_at))  # no count of all: millions
    opened = select(func.count(), func.max(open_calls.c.id))
    if batch is not None:
        begun = select(batches.c.version).where(batches.c.batch == batch)
        opened = opened.where(_is_of(batch))
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


# --- upstreams and models ----------------------------------------------------------------------
# Calls over time.


_BATCHES = union_all(select(batches.c.batch), select(literal("")))


def usage(
    connection: Connection,
    *,
    since: float,
    until: float,
    step_s: int,
) -> list[Facts]:
    """Count ended calls by step, upstream, model and subcategory.

    Arguments:
        since: began in its minute or later, and before ``until``, in epoch seconds.
        step_s: whole minutes, in seconds.

    Returns:
        Rows of ``step`` (times ``step_s`` is epoch seconds), ``upstream``, ``model`` (that
        answered, else that was asked for), ``subcategory`` (None if answered), ``calls`` and
        ``last_at``, the minute in which the last of them began.
    """
    calls = call_usage.c
    step = (calls.minute // (step_s // _MINUTE)).label("step")
    by = (step, calls.upstream, calls.model, calls.cause)
    total, last = func.sum(calls.calls), func.max(calls.minute)
    query = (
        select(*by, total.label("calls"), last.label("last"))
        .where(calls.batch.in_(_BATCHES))  # so that the index is walked, whatever is older
        .where(calls.minute >= math.floor(since / _MINUTE))
        .where(calls.minute < math.ceil(until / _MINUTE))
        .group_by(*by)
        .having(total > 0)
    )
    return [_row(row) for row in connection.execute(query).all()]


def _row(row: Sequence[Any]) -> Facts:
    step, upstream, model, cause, calls, last = row
    return {
        "step": step,
        "upstream": upstream,
        "model": model or None,
        "subcategory": cause or None,
        "calls": int(calls),
        "last_at": float(last * _MINUTE),
    }
