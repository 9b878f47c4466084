"""Series of reference calls: what every process asks a lane and has asked, and who shares it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Subquery, delete, func, or_, select, update

from classifier.records import RESERVED, Kind
from proxy.store.connections import Connections
from proxy.store.deployment import STOPPED
from proxy.store.tables import (
    Row,
    add,
    exchanges,
    reference_failures,
    reference_series,
    rollouts,
)

LONGEST_S = 90.0
"""How long a series can last, in seconds; one that has not ended by then was killed."""

_LOOKED_AT = 2000  # calls among which the last answered one of a lane is looked for
_DAY_S = 86_400.0


class ReferenceLane(NamedTuple):
    """The subject of series: an upstream, and a model's name as it is asked."""

    upstream: str
    model: str


class AnsweredCall(NamedTuple):
    """The last answered call to a lane: its rollout, the model as it was named, API and method.

    ``streamed``: its answer came in parts. ``answered_as``: names under which the model answered
    lately.
    """

    rollout_id: str
    model: str
    api: str
    method: str
    streamed: bool | None = None
    answered_as: tuple[str, ...] = ()


class References:
    """Reads and writes the tables `reference_series` and `reference_failures`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def begin(
        self, series_id: str, lane: ReferenceLane, *, api: str, worker: str, at: float
    ) -> None:
        """Store a series as it starts, for others to see; ``at`` in epoch seconds."""
        row = {"id": series_id, "upstream": lane.upstream, "model": lane.model, "api": api,
               "worker": worker, "started_at": at}  # fmt: skip
        with self._connections.writing() as connection:
            add(connection, reference_series, row)

    def end(
        self, series_id: str, *, at: float, calls: str = "[]", not_run: str | None = None
    ) -> None:
        """Store how a series ended. Final verdicts that were given without it stand.

        Arguments:
            at: epoch seconds.
            calls: JSON, in order.
            not_run: why it counts for nothing; None if it does.
        """
        open_ = (reference_series.c.id == series_id) & reference_series.c.ended_at.is_(None)
        ended = update(reference_series).where(open_)
        with self._connections.writing() as connection:
            connection.execute(ended.values(ended_at=at, calls=calls, not_run=not_run))

    def share(self, series_id: str, failures: Iterable[tuple[str, str]]) -> None:
        """Store that failed calls, as rollout and exchange, share a series; the first stands."""
        with self._connections.writing() as connection:
            for rollout_id, exchange_id in sorted(failures):
                row = {"rollout_id": rollout_id, "exchange_id": exchange_id, "series_id": series_id}
                add(connection, reference_failures, row)

    def of_id(self, series_id: str) -> Row | None:
        """Return one series; None if there is none of this id."""
        query = select(reference_series).where(reference_series.c.id == series_id)
        with self._connections.reading() as connection:
            return connection.execute(query).mappings().one_or_none()

    def recent(self, lane: ReferenceLane, *, since: float) -> list[Row]:
        """List the series of a lane that started since then (epoch seconds), the newest first."""
        query = (
            select(reference_series)
            .where(reference_series.c.upstream == lane.upstream)
            .where(reference_series.c.model == lane.model)
            .where(reference_series.c.started_at > since)
            .order_by(reference_series.c.started_at.desc(), reference_series.c.id.desc())
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).mappings())

    def started(self, *, since: float) -> int:
        """Count the series of all lanes that started since then (epoch seconds) and were run."""
        query = select(func.count()).where(
            reference_series.c.started_at > since,
            or_(reference_series.c.not_run.is_(None), reference_series.c.not_run == STOPPED),
        )
        with self._connections.reading() as connection:
            return connection.scalar(query) or 0

    def of_rollout(self, rollout_id: str) -> dict[str, Row]:
        """Return the series that a rollout's failed calls share, by exchange id."""
        query = (
            select(reference_failures.c.exchange_id, reference_series)
            .join_from(
                reference_failures,
                reference_series,
                reference_series.c.id == reference_failures.c.series_id,
            )
            .where(reference_failures.c.rollout_id == rollout_id)
        )
        with self._connections.reading() as connection:
            return {row["exchange_id"]: row for row in connection.execute(query).mappings()}

    def last_answered(
        self,
        upstream: str,
        models: Collection[str],
        *,
        now: float,
        batch: str | None = None,
        named: str | None = None,
    ) -> AnsweredCall | None:
        """Return the last answered call to an upstream by a rollout registered for these models.

        Arguments:
            models: registered names; none takes rollouts registered for none.
            now: epoch seconds; at most 2,000 calls of the day before are looked at.
            batch: takes this batch's rollouts only.
            named: takes calls only that asked for the model by this name.
        """
        last = _last_calls(now)
        columns = (last.c.rollout_id, last.c.model, last.c.api, last.c.method, last.c.streamed)
        query = (
            select(*columns)
            .join(rollouts, rollouts.c.id == last.c.rollout_id)
            .where(*_answered(last, upstream, models, batch))
            .order_by(last.c.started_at.desc())
            .limit(1)
        )
        if named is not None:
            query = query.where(last.c.model == named)
        with self._connections.reading() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            names = (
                select(last.c.answered_model)
                .distinct()
                .where(last.c.upstream == upstream, last.c.model == row.model)
                .where(last.c.subcategory.is_(None), last.c.answered_model.is_not(None))
                .where(last.c.fallback.is_not(True), last.c.rollout_id.not_in(RESERVED))
            )
            known = tuple(sorted(connection.execute(names).scalars()))
            return AnsweredCall(*row, answered_as=known)

    def answered_names(
        self, upstream: str, models: Collection[str], *, now: float, batch: str | None = None
    ) -> list[str]:
        """List the names by which such calls asked for a model, the last answered first.

        Arguments:
            models: as of `last_answered`, and the others too.
        """
        last = _last_calls(now)
        query = (
            select(last.c.model)
            .join(rollouts, rollouts.c.id == last.c.rollout_id)
            .where(*_answered(last, upstream, models, batch))
            .group_by(last.c.model)
            .order_by(func.max(last.c.started_at).desc())
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def newest(self, *, since: float, limit: int) -> list[Row]:
        """List series that started since then (epoch seconds), the newest first."""
        query = (
            select(reference_series)
            .where(reference_series.c.started_at > since)
            .order_by(reference_series.c.started_at.desc(), reference_series.c.id.desc())
            .limit(limit)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).mappings())


def _last_calls(now: float) -> Subquery:
    """Select the calls among which an answered one of a lane is looked for."""
    return (
        select(exchanges)
        .where(exchanges.c.started_at.between(now - _DAY_S, now))
        .order_by(exchanges.c.started_at.desc())
        .limit(_LOOKED_AT)
        .subquery()
    )


def _answered(
    last: Subquery, upstream: str, models: Collection[str], batch: str | None
) -> list[ColumnElement[bool]]:
    """Select answered calls to an upstream, and rollouts by what they are registered for."""
    registered = rollouts.c.model.in_(models) if models else rollouts.c.model.is_(None)
    return [
        registered,
        *([] if batch is None else [rollouts.c.batch == batch]),
        last.c.upstream == upstream,
        last.c.kind == Kind.INFERENCE.value,
        last.c.subcategory.is_(None),
        last.c.status.between(200, 299),
        last.c.injected.is_(False),
        last.c.model.is_not(None),
        last.c.model_ambiguous.is_not(True),
        last.c.fallback.is_not(True),
        last.c.rollout_id.not_in(RESERVED),
    ]


def delete_series(connection: Connection, before: float) -> None:
    """Delete series that started before a time, in epoch seconds; verdicts keep what they took."""
    old = select(reference_series.c.id).where(reference_series.c.started_at < before)
    theirs = reference_failures.c.series_id.in_(old)
    connection.execute(delete(reference_failures).where(theirs))
    connection.execute(delete(reference_series).where(reference_series.c.started_at < before))
