"""Queries for causes of failed rollouts, and for failed calls that nothing explains.

Each is one SELECT.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, and_, case, func, literal, or_, select, text

from classifier.cause_table import known_rows
from classifier.records import RESERVED, Kind
from proxy.store.statistics import Facts, floor_of
from proxy.store.tables import FAILED, Row, exchanges, verdicts

# --- causes of failed rollouts -----------------------------------------------------------------


_BEGAN = func.coalesce(verdicts.c.began_at, verdicts.c.given_at)  # not moved by judging again
_CAUSE = (
    verdicts.c.fingerprint,
    verdicts.c.subcategory,
    verdicts.c.cause,
    verdicts.c.lane,
)


def fingerprints(connection: Connection) -> list[Row]:
    """List causes by how many rollouts they affect across batches, the most frequent first."""
    affected = func.count().label("rollouts")
    query = (
        select(
            verdicts.c.fingerprint,
            verdicts.c.subcategory,
            affected,
            func.count(verdicts.c.batch.distinct()).label("batches"),
            func.min(verdicts.c.given_at).label("first_seen"),
            func.max(verdicts.c.given_at).label("last_seen"),
        )
        .where(verdicts.c.fingerprint.is_not(None))
        .group_by(verdicts.c.fingerprint, verdicts.c.subcategory)
        .order_by(affected.desc(), verdicts.c.fingerprint)
    )
    return list(connection.execute(query).mappings())


def causes(connection: Connection) -> list[Facts]:
    """Count the rollouts of each cause, lane and batch.

    Returns:
        Rows of ``fingerprint``, ``subcategory``, ``cause`` and ``lane`` (as in a verdict),
        ``batch`` (None: of none), ``rollouts``, and in epoch seconds ``first_seen``, when the first
        of them began, and ``last_seen``, when the last was judged.
    """
    query = (
        select(
            *_CAUSE,
            verdicts.c.batch,
            func.count().label("rollouts"),
            func.min(_BEGAN).label("first_seen"),
            func.max(verdicts.c.given_at).label("last_seen"),
        )
        .where(verdicts.c.fingerprint.is_not(None))
        .group_by(*_CAUSE, verdicts.c.batch)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def causes_over_time(connection: Connection, *, since: float, step_s: int) -> list[Facts]:
    """Count the rollouts of each cause and lane by step of time.

    Arguments:
        since: began at or after it, in epoch seconds.

    Returns:
        Rows of ``fingerprint``, ``subcategory``, ``cause``, ``lane``, ``step`` (times ``step_s`` is
        epoch seconds) and ``rollouts``.
    """
    step = floor_of(connection, _BEGAN / step_s).label("step")
    query = (
        select(*_CAUSE, step, func.count().label("rollouts"))
        .where(verdicts.c.fingerprint.is_not(None), since <= _BEGAN)
        .group_by(*_CAUSE, step)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


# --- failures that nothing explains ------------------------------------------------------------


# The condition of the index `exchanges_failed`, word for word, so that it is used.
_FAILED = text(FAILED)
_BY = (
    exchanges.c.upstream,
    exchanges.c.status,
    exchanges.c.error_code,
    exchanges.c.subcategory,
    exchanges.c.rule,
)
_SEPARATOR = "\x1f"  # in no id
_UNREAD = exchanges.c.subcategory.is_(None)  # and failed: only an answer that was not read


def unexplained(
    connection: Connection, *, since: float, until: float, limit: int
) -> tuple[list[Facts], int]:
    """Count calls that failed without an explanation, and answers that could not be read.

    Arguments:
        since: began at or after it, and before ``until``, in epoch seconds.
        limit: groups that are listed, those with most calls.

    Returns:
        Rows of ``upstream``, ``status``, ``error_code``, ``subcategory`` and ``rule`` (None of
        answers that were not read), ``calls``, ``first_seen`` and ``last_seen`` (starts in epoch
        seconds), and ``exchange_id`` and ``rollout_id`` of the last call that names a rollout;
        and how many groups there are.
    """
    query = unexplained_query(since=since, until=until, limit=limit)
    rows = [dict(row) for row in connection.execute(query).mappings()]
    groups = 0
    for row in rows:
        groups = row.pop("groups")
        exchange_id, _, rollout_id = (row.pop("example") or "").partition(_SEPARATOR)
        row |= {"exchange_id": exchange_id or None, "rollout_id": rollout_id or None}
    return rows, groups


def unexplained_query(*, since: float, until: float, limit: int) -> Select[Any]:
    """Return the query of ``unexplained``."""
    named = case(
        (
            exchanges.c.rollout_id.not_in(RESERVED),
            exchanges.c.id + literal(_SEPARATOR) + exchanges.c.rollout_id,
        )
    )
    # The field that an error names explains a rejection that has no other reason.
    unnamed = and_(
        exchanges.c.rule.in_(sorted(known_rows().unexplained)),
        or_(exchanges.c.reason.is_(None), exchanges.c.reason != "malformed"),
    )
    calls = func.count().label("calls")
    return (
        select(
            *_BY,
            calls,
            func.min(exchanges.c.started_at).label("first_seen"),
            func.max(exchanges.c.started_at).label("last_seen"),
            func.max(named).label("example"),
            func.count().over().label("groups"),
        )
        .where(_FAILED, exchanges.c.started_at >= since, exchanges.c.started_at < until)
        .where(or_(unnamed, _UNREAD), exchanges.c.injected.is_(False))
        .where(exchanges.c.kind != Kind.PROBE.value)
        .group_by(*_BY)
        .order_by(calls.desc(), func.max(exchanges.c.started_at).desc())
        .limit(limit)
    )
