"""Verdicts: stored once judged, and read by batch, by task and across batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
)

from proxy.store.breakers import states_of, store_states
from proxy.store.connections import Connections
from proxy.store.derived import unjudged
from proxy.store.events import breaker_opened, verdict_given
from proxy.store.groups import announce
from proxy.store.locks import Lock, hold
from proxy.store.rollup import changing
from proxy.store.statements import insert_into
from proxy.store.tables import exchanges, open_calls, rollouts, verdicts
from proxy.store.types import Feed, Row


class LastChange(NamedTuple):
    """The last change of a rollout that was not judged yet; without a number there is none."""

    number: int | None


class Outdated(NamedTuple):
    """Rollouts to be judged, in this order; the last ``again`` of them run and have a verdict."""

    ids: list[str]
    again: int


class Verdicts:
    """Reads and writes the table `verdicts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def store(
        self, row: Mapping[str, Any], feed: Feed | None = None, *, known: LastChange | None = None
    ) -> bool:
        """Store a verdict in place of the one before; columns as in `verdicts`.

        A provisional one is not stored where the rollout has changed since it was judged.

        Returns:
            Whether it is the rollout's first final one, of all processes.

        Arguments:
            feed: returns the breakers of the batch as they are after a final verdict; called
                once a rollout, in the order in which verdicts were given.
            known: the last change of the rollout that the verdict knows; without it, it is stored
                whatever has changed.
        """
        batch, rollout_id = row["batch"], row["rollout_id"]
        with (
            self._connections.writing() as connection,
            changing(connection, [rollout_id], held=batch),
        ):
            hold(connection, Lock.VERDICT, rollout_id)
            if row["provisional"]:
                if _is_newest(connection, rollout_id, known):
                    _store_provisional(connection, row)
                    _note_judged(connection, rollout_id, reported=False)
                return False
            first = _store_final(connection, row)
            if first:
                verdict_given(connection, row)
                announce(connection, row)
                if feed is not None and batch is not None:
                    _feed_breakers(connection, row, feed)
            # The last of all: calls that end now wait for it, and others for those.
            _note_judged(connection, rollout_id)
            return first

    def final(self, rollout_id: str) -> Row | None:
        """Return the final verdict of a rollout with an outcome, None where it has none.

        Returns:
            ``verdict`` and ``result`` as JSON text, ``late_calls``: calls that it does not know.
        """
        with self._connections.reading() as connection:
            found = connection.execute(_FINAL, {"name": rollout_id})
            return found.mappings().one_or_none()

    def unjudged(
        self,
        *,
        batch: str | None = None,
        among: Sequence[str] | None = None,
        limit: int,
        running: int | None = None,
        new: int | None = None,
    ) -> Outdated:
        """List rollouts whose verdict may have changed since they were judged.

        Those with an outcome, then those without a verdict, the oldest first; then those with a
        provisional one that have changed since, the one judged longest ago first. Of one batch,
        among these ids, or of all. What it costs depends on how many those are.

        Arguments:
            running: at most so many of the last.
            new: at most so many without a verdict.
        """
        ended, judged = rollouts.c.outcome_at.is_not(None), verdicts.c.rollout_id.is_not(None)
        kind = case((ended, 0), (~judged, 1), else_=2)
        query = (
            select(unjudged.c.rollout_id, kind)
            .join_from(unjudged, rollouts, _SAME_ROLLOUT)
            .outerjoin(verdicts, verdicts.c.rollout_id == unjudged.c.rollout_id)
        )
        if batch is not None:
            query = query.where(unjudged.c.batch == batch)
        if among is not None:
            query = query.where(unjudged.c.rollout_id.in_(among))
        since = case((kind == 2, verdicts.c.given_at), else_=rollouts.c.created_at)
        query = query.order_by(kind, since).limit(limit)
        found: tuple[list[str], ...] = ([], [], [])
        with self._connections.reading() as connection:
            for name, of_kind in connection.execute(query):
                found[of_kind].append(name)
        again = found[2][:running]
        return Outdated([*found[0], *found[1][:new], *again], len(again))

    def earlier_causes(
        self, batch: str | None, task: str, attempt: int, *, repeat: int | None = None
    ) -> list[str]:
        """Return the causes of a task's attempts before this one, of its repeat, oldest first."""
        query = (
            select(verdicts.c.cause)
            .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
            .where(rollouts.c.batch == batch, rollouts.c.task == task)
            .where(rollouts.c.repeat.is_not_distinct_from(repeat))
            .where(rollouts.c.attempt < attempt, verdicts.c.cause.is_not(None))
            .order_by(rollouts.c.attempt)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def neighbours(self, rollout_id: str) -> str | None:
        """Return what a rollout's final verdict stands on of other rollouts, as JSON text."""
        kept: str | None = self._kept(verdicts.c.neighbours, rollout_id)
        return kept

    def unattributed_calls(self, rollout_id: str) -> int | None:
        """Return how many calls that named no rollout a final verdict stands on."""
        kept: int | None = self._kept(verdicts.c.unattributed_calls, rollout_id)
        return kept

    def _kept(self, column: ColumnElement[Any], rollout_id: str) -> Any:
        """Return a column of a rollout's final verdict; None where it has none."""
        query = select(column).where(
            verdicts.c.rollout_id == rollout_id, verdicts.c.provisional.is_(False)
        )
        with self._connections.reading() as connection:
            return connection.scalar(query)

    def fingerprints(self) -> list[Row]:
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
        with self._connections.reading() as connection:
            return list(connection.execute(query).mappings())


def _final_query() -> Select[Any]:
    name: BindParameter[str] = bindparam("name")
    ended = select(func.count()).where(exchanges.c.rollout_id == name).scalar_subquery()
    known = select(exchanges.c.id).where(
        exchanges.c.rollout_id == name, exchanges.c.id == open_calls.c.id
    )
    in_flight = (
        select(func.count())
        .where(open_calls.c.rollout_id == name, ~known.exists())
        .scalar_subquery()
    )
    late = (ended + in_flight - verdicts.c.calls).label("late_calls")
    return (
        select(verdicts.c.verdict, verdicts.c.result, late)
        .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
        .where(verdicts.c.rollout_id == name, verdicts.c.provisional.is_(False))
        .where(rollouts.c.outcome_at.is_not(None))
    )


_FINAL = _final_query()  # made once: to make it takes longer than to ask it


def _store_provisional(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(_provisional(connection.dialect.name), row)


@cache
def _provisional(dialect: str) -> Any:
    """Return the statement that stores a verdict unless a final one stands.

    A provisional verdict may have been read before the outcome came.
    """
    statement = insert_into(dialect, verdicts)
    return statement.on_conflict_do_update(
        index_elements=["rollout_id"],
        set_={name: statement.excluded[name] for name in verdicts.columns.keys()},  # noqa: SIM118
        where=verdicts.c.provisional.is_(True),
    )


def _store_final(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Store a final verdict; returns whether it is the rollout's first final one."""
    key = verdicts.c.rollout_id == row["rollout_id"]
    before = connection.execute(select(verdicts.c.provisional).where(key)).one_or_none()
    connection.execute(delete(verdicts).where(key))
    connection.execute(insert(verdicts), row)
    return before is None or bool(before.provisional)


def _feed_breakers(connection: Connection, row: Mapping[str, Any], feed: Feed) -> None:
    changed = feed(states_of(connection, row["batch"]))
    store_states(connection, changed)
    for state in changed:
        if state.opened_at == row["given_at"]:
            breaker_opened(connection, state, row)


def _is_newest(connection: Connection, rollout_id: str, known: LastChange | None) -> bool:
    """Whether nothing has changed since a rollout was judged, and nobody else judged it since."""
    if known is None:
        return True
    query = select(unjudged.c.change).where(unjudged.c.rollout_id == rollout_id)
    now: int | None = connection.scalar(query)
    return now == known.number


def _note_judged(connection: Connection, rollout_id: str, *, reported: bool = True) -> None:
    """Note that a rollout's verdict is up to date.

    Arguments:
        reported: also of one with an outcome, whose verdict is to become final.
    """
    same = unjudged.c.rollout_id == rollout_id
    if not reported:
        running = select(rollouts.c.id).where(_SAME_ROLLOUT, rollouts.c.outcome_at.is_(None))
        same &= running.exists()
    connection.execute(delete(unjudged).where(same))


_SAME_ROLLOUT = rollouts.c.id == unjudged.c.rollout_id
