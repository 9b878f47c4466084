"""The rows that the health of lanes stands on: calls by minute, and samples of single calls.

Each query reads a bounded number of rows, whatever the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select, text, union_all

from classifier.records import RESERVED, Kind
from proxy.store import statistics
from proxy.store.tables import FAILED, exchanges, open_calls, reference_series, rollouts

MOST = 480
"""Failed calls that are read at most, and answered ones."""
_MINUTE = 60
_SLICES = 12
_REFERENCES = 200
_OVERDUE = 500

_ANSWERING = (Kind.INFERENCE.value, Kind.CONTINUATION.value)
_SERVER = func.coalesce(exchanges.c.served_by, exchanges.c.system_fingerprint).label("server")
_PLACE = (exchanges.c.upstream, exchanges.c.model, exchanges.c.key_digest, _SERVER)


class FailedRow(NamedTuple):
    """One failed call, with what says whose failure it is."""

    upstream: str
    model: str | None
    key_digest: str | None
    server: str | None
    rollout_id: str
    started_at: float
    subcategory: str
    status: int | None
    ending: str | None
    held: bool | None
    key_source: str | None
    injected: bool


class AnsweredRow(NamedTuple):
    """One answered call; ``answers`` is True if a model was asked for an answer."""

    upstream: str
    model: str | None
    key_digest: str | None
    server: str | None
    rollout_id: str
    started_at: float
    duration_s: float | None
    answered_model: str | None
    kind: str


class OpenRow(NamedTuple):
    """Calls in flight that began in one minute."""

    upstream: str
    model: str | None
    key_digest: str | None
    minute: int
    calls: int


class OverdueRow(NamedTuple):
    """A call that has been in flight for a while."""

    upstream: str
    model: str | None
    key_digest: str | None
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRows:
    """The rows that lanes are judged by.

    ``counts`` are as `proxy.store.statistics.usage` returns them, by minute. ``failed`` and
    ``answered`` are samples of them: the newest failed ones from ``failed_from`` on, and answered
    ones spread over the time.
    """

    since: float
    counts: Sequence[dict[str, Any]]
    failed: Sequence[FailedRow]
    failed_from: float
    answered: Sequence[AnsweredRow]
    open: Sequence[OpenRow]
    overdue: Sequence[OverdueRow]
    series: Sequence[dict[str, Any]]


def lane_rows(connection: Connection, *, since: float, now: float, overdue_s: float) -> LaneRows:
    """Read what lanes are judged by: calls that began from ``since`` to ``now`` (epoch seconds).

    Arguments:
        overdue_s: calls in flight for longer are listed, up to 500, the oldest first.
    """
    counts = statistics.usage(connection, since=since, until=now, step_s=_MINUTE)
    given = {"since": since, "until": now, "most": MOST}
    failed = [FailedRow._make(row) for row in connection.execute(_FAILED, given).all()]
    whole = len(failed) < MOST
    return LaneRows(
        since=since,
        counts=counts,
        failed=failed,
        failed_from=since if whole else failed[-1].started_at,
        answered=_answered(connection, counts, since, now),
        open=_open(connection),
        overdue=_overdue(connection, now - overdue_s),
        series=_series(connection, since),
    )


# The statements are made once: to make one takes longer than SQLite takes for a short answer.
_EACH = exchanges.c
_SINCE, _UNTIL = _EACH.started_at >= bindparam("since"), _EACH.started_at <= bindparam("until")
_FAILED = (
    select(*_PLACE, *(_EACH[name] for name in FailedRow._fields[4:]))
    .where(text(FAILED), _SINCE, _UNTIL)
    .where(_EACH.subcategory.is_not(None), _EACH.kind.in_(_ANSWERING))
    .where(_EACH.rollout_id.not_in(RESERVED))
    .order_by(_EACH.started_at.desc())
    .limit(bindparam("most"))
)


def _answered_slice(name: str) -> Select[Any]:
    """Select the newest answered calls of one slice of the time."""
    newest = (
        select(*_PLACE, *(_EACH[name] for name in AnsweredRow._fields[4:]))
        .where(_EACH.started_at >= bindparam(f"since_{name}"))
        .where(_EACH.started_at < bindparam(f"until_{name}"))
        .where(_EACH.subcategory.is_(None))
        .order_by(_EACH.started_at.desc())
        .limit(bindparam("most"))
    )
    return select(newest.subquery())


_ANSWERED = {
    slices: union_all(*(_answered_slice(str(n)) for n in range(slices))) for slices in (1, _SLICES)
}


def _answered(
    connection: Connection, counts: Iterable[dict[str, Any]], since: float, now: float
) -> list[AnsweredRow]:
    calls = sum(row["calls"] for row in counts)
    slices = 1 if calls <= MOST else _SLICES
    length = (now - since) / slices
    given: dict[str, float] = {"most": MOST // slices}
    for n in range(slices):
        given[f"since_{n}"] = since + n * length
        given[f"until_{n}"] = since + (n + 1) * length + (n == slices - 1)
    return list(map(AnsweredRow._make, connection.execute(_ANSWERED[slices], given).all()))


def _open(connection: Connection) -> list[OpenRow]:
    each = open_calls.c
    minute = statistics.floor_of(connection, each.started_at / _MINUTE).label("minute")
    by = (each.upstream, each.model, each.key_digest, minute)
    query = select(*by, func.count()).where(each.kind.in_(_ANSWERING)).group_by(*by)
    return [OpenRow._make(row) for row in connection.execute(query)]


def _overdue(connection: Connection, before: float) -> list[OverdueRow]:
    each = open_calls.c
    query = (
        select(each.upstream, each.model, each.key_digest, each.started_at)
        .where(each.kind.in_(_ANSWERING), each.started_at < before)
        .order_by(each.started_at)
        .limit(_OVERDUE)
    )
    return [OverdueRow._make(row) for row in connection.execute(query)]


def _series(connection: Connection, since: float) -> list[dict[str, Any]]:
    each = reference_series.c
    query = (
        select(each.upstream, each.model, each.ended_at, each.calls, each.not_run)
        .where(each.started_at > since, each.ended_at.is_not(None))
        .order_by(each.started_at.desc())
        .limit(_REFERENCES)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def struck(
    connection: Connection, batch: str, place: tuple[str, str | None], since: float, until: float
) -> int:
    """Count a batch's rollouts with a failed call on an upstream and model that began in a time.

    Arguments:
        since, until: epoch seconds.
    """
    each = exchanges.c
    query = (
        select(func.count(each.rollout_id.distinct()))
        .join_from(exchanges, rollouts, rollouts.c.id == each.rollout_id)
        .where(text(FAILED), each.started_at >= since, each.started_at < until)
        .where(rollouts.c.batch == batch, each.upstream == place[0], each.kind.in_(_ANSWERING))
        .where(each.model.is_not_distinct_from(place[1]), each.subcategory.is_not(None))
    )
    return connection.scalar(query) or 0
