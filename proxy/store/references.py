"""Series of reference calls that processes ask or have asked, and the failures that share them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, or_, select, update

from classifier.codec import decode_series
from classifier.records import Kind
from classifier.reference_rules import Use
from classifier.references import ReferenceSeries
from proxy.store.connections import Connections
from proxy.store.deployment import STOPPED
from proxy.store.tables import (
    Row,
    add,
    asked_ways,
    exchanges,
    insert_into,
    reference_failures,
    reference_series,
    rollouts,
)

_SERIES = ("id", "upstream", "model", "api", "started_at", "ended_at", "not_run", "way")

LONGEST_S = 90.0
"""How long a series can last, in seconds; one that has not ended by then was killed."""

AGENT = "agent"  # the role
_OTHERS = 12  # rollouts of a batch whose calls are looked at


class ReferenceLane(NamedTuple):
    """The subject of series: an upstream, and a model's name as it is asked."""

    upstream: str
    model: str


class AskedWay(NamedTuple):
    """The request form (JSON) of a call to a canonical model; ``at`` in epoch seconds."""

    exchange_id: str
    rollout_id: str
    upstream: str
    model: str
    at: float
    way: str


class References:
    """Reads and writes the tables `reference_series`, `reference_failures` and `asked_ways`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def begin(
        self,
        series_id: str,
        lane: ReferenceLane,
        *,
        api: str,
        worker: str,
        at: float,
        way: str | None = None,
    ) -> None:
        """Store a series as it starts, for others to see.

        Arguments:
            at: epoch seconds.
            way: a digest of how it asks; None in the plain form.
        """
        row = {"id": series_id, "upstream": lane.upstream, "model": lane.model, "api": api,
               "worker": worker, "started_at": at, "way": way}  # fmt: skip
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

    def models_of(self, ids: Collection[str]) -> dict[str, str]:
        """Return the models that series asked, by their ids, of those that are not deleted."""
        query = select(reference_series.c.id, reference_series.c.model)
        with self._connections.reading() as connection:
            return dict(connection.execute(query.where(reference_series.c.id.in_(list(ids)))).all())

    def recent(self, lane: ReferenceLane, *, since: float) -> list[ReferenceSeries]:
        """List the series of a lane that started since then (epoch seconds), the newest first."""
        query = (
            select(reference_series)
            .where(reference_series.c.upstream == lane.upstream)
            .where(reference_series.c.model == lane.model)
            .where(reference_series.c.started_at > since)
            .order_by(reference_series.c.started_at.desc(), reference_series.c.id.desc())
        )
        with self._connections.reading() as connection:
            return [series_of(row) for row in connection.execute(query).mappings()]

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

    def last_registered(self, batch: str | None) -> list[str]:
        """Return the ids of a batch's last registered rollouts, newest first; None: of no batch."""
        query = (
            select(rollouts.c.id)
            .where(rollouts.c.batch == batch if batch is not None else rollouts.c.batch.is_(None))
            .order_by(rollouts.c.created_at.desc(), rollouts.c.id.desc())
            .limit(_OTHERS)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def uses(self, upstream: str, rollout_ids: Sequence[str]) -> list[Use]:
        """List how agents called an upstream in some rollouts; in their order, the latest first."""
        x = exchanges.c
        itself = x.subcategory.is_(None) & x.status.between(200, 299) & x.fallback.is_not(True)
        by = (x.rollout_id, x.model, x.api, x.streamed, itself, x.answered_model)
        query = (
            select(*by, func.max(x.started_at))
            .where(x.rollout_id.in_(rollout_ids), x.upstream == upstream)
            .where(x.kind == Kind.INFERENCE.value, x.role == AGENT)
            .where(x.injected.is_(False), x.model_ambiguous.is_not(True))
            .group_by(*by)
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        place = {each: -at for at, each in enumerate(rollout_ids)}
        latest = sorted(rows, key=lambda row: (place[row[0]], row[6]), reverse=True)
        return [
            Use(rollout, model, api, streamed, bool(answered), named if answered else None)
            for rollout, model, api, streamed, answered, named, _ in latest
        ]

    def note_ways(self, ways: Sequence[AskedWay]) -> None:
        """Store the ways of calls; one that is stored already stands."""
        with self._connections.writing() as connection:
            statement = insert_into(connection.dialect.name, asked_ways).on_conflict_do_nothing()
            connection.execute(statement, [each._asdict() for each in ways])

    def way_of(self, exchange_id: str) -> str | None:
        """Return the way of a call as it is stored; None if it is not."""
        query = select(asked_ways.c.way).where(asked_ways.c.exchange_id == exchange_id)
        with self._connections.reading() as connection:
            return connection.scalar(query)

    def ways_to(
        self, upstream: str, model: str, rollout_ids: Sequence[str] | None = None
    ) -> list[tuple[str, str]]:
        """List rollouts and their ways to a canonical model, the last first.

        Arguments:
            rollout_ids: None takes the last one of all.
        """
        each = asked_ways.c
        query = (
            select(each.rollout_id, each.way)
            .where(each.upstream == upstream, each.model == model)
            .order_by(each.at.desc())
        )
        query = query.limit(1) if rollout_ids is None else (
            query.where(each.rollout_id.in_(rollout_ids))
        )  # fmt: skip
        with self._connections.reading() as connection:
            return [(row[0], row[1]) for row in connection.execute(query)]

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


def series_of(row: Row) -> ReferenceSeries:
    """Return a series by its row."""
    named = {name: row[name] for name in _SERIES}
    return decode_series({**named, "calls": json.loads(row["calls"])})


def delete_series(connection: Connection, before: float) -> None:
    """Delete series, and ways, from before an epoch second; verdicts keep what they took."""
    old = select(reference_series.c.id).where(reference_series.c.started_at < before)
    theirs = reference_failures.c.series_id.in_(old)
    connection.execute(delete(reference_failures).where(theirs))
    connection.execute(delete(reference_series).where(reference_series.c.started_at < before))
    connection.execute(delete(asked_ways).where(asked_ways.c.at < before))
