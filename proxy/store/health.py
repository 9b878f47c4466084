"""The rows that the health of lanes stands on: calls by minute, and samples of single calls.

Each query reads a bounded number of rows, whatever the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, or_, select, text, union_all

from classifier.records import RESERVED, Ending, Kind
from proxy.store import statistics
from proxy.store.tables import (
    FAILED,
    as_json,
    exchanges,
    open_calls,
    reference_series,
    rollouts,
    verdicts,
)

MOST = 480
"""Failed calls that are read at most, and answered ones."""
_MINUTE = 60
_SLICES = 12
_REFERENCES = 200
_OVERDUE = 500
_DRIFTED = 500

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


class FigureRow(NamedTuple):
    """One answered call, with what its answer's figures are measured of."""

    upstream: str
    model: str | None
    key_digest: str | None
    server: str | None
    rollout_id: str
    batch: str | None
    started_at: float
    streamed: bool | None
    first_byte_s: float | None
    duration_s: float | None
    input_total: int | None
    cached_input_tokens: int | None
    output_total: int | None
    output_limit: int | None
    finish_reason: str | None
    tool_calls: int | None
    content_seen: bool | None
    output_seen: bool | None
    weight_version: str | None


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


def figure_rows(
    connection: Connection, *, since: float, until: float, slices: int, most: int
) -> list[FigureRow]:
    """Read answered calls of agents of a time (epoch seconds), spread over it.

    Arguments:
        slices: parts of equal length, of each of which the newest ones are read.
        most: calls in all.
    """
    length = (until - since) / slices
    each = exchanges.c
    columns = (each[name] for name in FigureRow._fields[6:])
    query = (
        select(*_PLACE, each.rollout_id, rollouts.c.batch, *columns)
        .outerjoin_from(exchanges, rollouts, rollouts.c.id == each.rollout_id)
        .where(each.started_at >= bindparam("since"), each.started_at < bindparam("until"))
        .where(each.subcategory.is_(None), each.kind == Kind.INFERENCE.value)
        .where(each.role == "agent", each.rollout_id.not_in(RESERVED))
        .where(each.ending == Ending.COMPLETE.value, each.pending.is_not(True))
        .where(each.injected.is_(False))
        .order_by(each.started_at.desc())
        .limit(most // slices)
    )
    return [
        FigureRow._make(row)
        for n in range(slices)
        for row in connection.execute(
            query, {"since": since + n * length, "until": since + (n + 1) * length}
        ).all()
    ]


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


def _lane_is(columns: Any, lane: tuple[str, str | None, str | None]) -> tuple[Any, ...]:
    upstream, model, key = lane
    return (
        columns.upstream == upstream,
        columns.model.is_not_distinct_from(model),
        columns.key_digest.is_not_distinct_from(key),
    )


class JudgedBefore(NamedTuple):
    """Rollouts that were judged without a drift, by id, and from when on calls were looked at."""

    rollout_ids: Sequence[str]
    looked_from: float


def judged_before(
    connection: Connection,
    lane: tuple[str, str | None, str | None],
    measure: str,
    *,
    since: float,
    until: float,
    over: bool,
    after: str,
    most: int,
) -> JudgedBefore:
    """List rollouts with a final verdict that called a lane in a time, and lack a drift of then.

    The newest 20,000 calls of the time are looked at, of whatever lane.

    Arguments:
        lane: an upstream, a model and a key's digest.
        since, until: epoch seconds.
        over: list also those whose verdict has it as one that lasts.
        after: the id that they come after.
        most: rollouts that are listed.
    """
    within = (_EACH.started_at >= since, _EACH.started_at <= until)
    newest = _EACH.started_at.desc()
    beyond = select(_EACH.started_at).where(*within).order_by(newest).offset(_LOOKED_AT).limit(1)
    looked_from = connection.scalar(beyond) or since
    columns = (_EACH.rollout_id, _EACH.upstream, _EACH.model, _EACH.key_digest, _EACH.role,
               _EACH.kind)  # fmt: skip
    calls = select(*columns).where(*within).order_by(newest).limit(_LOOKED_AT).subquery()
    has = verdicts.c.drifts.contains(_drift_text(lane, measure), autoescape=True)
    lacks = or_(verdicts.c.drifts.is_(None), ~has)
    if over:
        lacks = or_(lacks, has & verdicts.c.drifts.contains('"until":null', autoescape=True))
    query = (
        select(calls.c.rollout_id)
        .distinct()
        .join_from(calls, verdicts, verdicts.c.rollout_id == calls.c.rollout_id)
        .where(calls.c.role == "agent", calls.c.kind == Kind.INFERENCE.value)
        .where(*_lane_is(calls.c, lane), verdicts.c.provisional.is_(False), lacks)
        .where(calls.c.rollout_id > after)
        .order_by(calls.c.rollout_id)
        .limit(most)
    )
    return JudgedBefore(list(connection.execute(query).scalars()), looked_from)


_LOOKED_AT = 20_000


def _drift_text(lane: tuple[str, str | None, str | None], measure: str) -> str:
    """Return what a drift of a lane has in `verdicts.drifts`, but for its upstream."""
    _, model, key = lane
    return as_json({"key_digest": key, "measure": measure, "model": model})[1:-1]


def drifted(connection: Connection, batch: str) -> list[tuple[str, int]]:
    """Count a batch's verdicts by the drifts that they stand on, JSON text; 500 texts at most."""
    count = func.count()
    query = (
        select(verdicts.c.drifts, count)
        .where(verdicts.c.batch == batch, verdicts.c.drifts.is_not(None))
        .group_by(verdicts.c.drifts)
        .order_by(count.desc(), verdicts.c.drifts)
        .limit(_DRIFTED)
    )
    return [(drifts, times) for drifts, times in connection.execute(query)]
