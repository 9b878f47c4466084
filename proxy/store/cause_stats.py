"""Causes of failed rollouts: where each struck, and how often over time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from proxy.store.dashboard import floor_of
from proxy.store.tables import exchanges, verdicts

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


def causes_of(connection: Connection, rollout_ids: Collection[str]) -> list[Facts]:
    """Return the cause of each of these rollouts that failed.

    Returns:
        Rows of ``fingerprint``, ``subcategory``, ``cause`` and ``lane``, each once.
    """
    query = (
        select(*_CAUSE)
        .where(verdicts.c.rollout_id.in_(rollout_ids))
        .where(verdicts.c.fingerprint.is_not(None))
        .distinct()
    )
    return [dict(row) for row in connection.execute(query).mappings()]


class CallCause(NamedTuple):
    """Why calls to a model failed; ``code`` is the provider's, else our reason."""

    model: str | None
    subcategory: str
    status: int | None
    code: str | None


def causes_of_calls(
    connection: Connection, upstream: str, *, since: float, most: int
) -> list[CallCause]:
    """Return why calls to an upstream failed, each once; not those that were rejected as wrong.

    Arguments:
        since: began at or after it, in epoch seconds.
        most: the latest failed calls, of which it is said.
    """
    code = func.coalesce(exchanges.c.error_code, exchanges.c.reason)
    query = (
        select(exchanges.c.model, exchanges.c.subcategory, exchanges.c.status, code)
        .where(exchanges.c.started_at >= since, exchanges.c.upstream == upstream)
        .where(exchanges.c.subcategory.is_not(None))
        .where(exchanges.c.subcategory != "rejected_request")
        .order_by(exchanges.c.started_at.desc())
        .limit(most)
    )
    return list({CallCause(*row): None for row in connection.execute(query)})
