"""Causes of failed rollouts: where each struck, and how often over time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from proxy.store.dashboard import floor_of
from proxy.store.tables import verdicts

Facts = dict[str, Any]

_BEGAN = func.coalesce(verdicts.c.began_at, verdicts.c.given_at)  # not moved by judging again
_CAUSE = (
    verdicts.c.fingerprint,
    verdicts.c.subcategory,
    verdicts.c.cause,
    verdicts.c.lane,
)


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
