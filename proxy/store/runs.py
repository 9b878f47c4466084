"""The runs that start a batch's rollouts, and the end of a batch.

A batch ends when those who start its rollouts have said so (`batch_runs`) and all of them are
judged. A rollout that has no outcome when they say so is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, case, func, select, update

from proxy.store.connections import Connections, Lock, hold
from proxy.store.events import batch_ended
from proxy.store.tables import batch_runs, insert_into, rollouts, unjudged

# When the last of some runs was declared over, where all of them were.
OVER_AT = case((func.count() == func.count(batch_runs.c.ended_at), func.max(batch_runs.c.ended_at)))


class RunCounts(NamedTuple):
    """The runs that start rollouts of a batch.

    ``begun`` counts all of them, ``open`` those that may still start rollouts. ``over_at`` is when
    the last one was over, in epoch seconds; None while any is open.
    """

    begun: int
    open: int
    over_at: float | None


class Runs:
    """Stores the runs that start a batch's rollouts, and reads if the batch has ended."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def any_of(self, batch: str) -> bool:
        """Return True if the batch has any rollout, with or without a task, or a run was begun."""
        query = select(rollouts.c.id).where(rollouts.c.batch == batch).limit(1)
        with self._connections.reading() as connection:
            return connection.scalar(query) is not None or runs_of(connection, batch).begun > 0

    def ended(self, batch: str) -> bool:
        """Return True if the batch has ended."""
        with self._connections.reading() as connection:
            return has_ended(connection, batch, runs_of(connection, batch).over_at)

    def begin(self, batch: str, run: str, *, now: float) -> tuple[RunCounts, bool]:
        """Note that a run starts rollouts of a batch; a run that was over begins again.

        Returns:
            The batch's runs, and False: it has not ended.
        """
        row = {"batch": batch, "run": run, "begun_at": now, "ended_at": None}
        with self._connections.writing() as connection:
            hold(connection, Lock.BATCH, batch)
            statement = insert_into(connection.dialect.name, batch_runs).values(**row)
            again = {"ended_at": None}
            connection.execute(
                statement.on_conflict_do_update(index_elements=["batch", "run"], set_=again)
            )
            return runs_of(connection, batch), False

    def end(self, batch: str, run: str | None, *, now: float) -> tuple[RunCounts, bool]:
        """Note that a run of a batch is over, or all of them; the run need not have been begun.

        If all are over, rollouts without an outcome are given up.

        Returns:
            The batch's runs, and True if the batch has ended. An event is written the first time.
        """
        of_batch = batch_runs.c.batch == batch
        row = {"batch": batch, "run": run or "", "begun_at": now, "ended_at": now}
        with self._connections.writing() as connection:
            hold(connection, Lock.BATCH, batch)
            open_ = update(batch_runs).where(of_batch, batch_runs.c.ended_at.is_(None))
            if run is not None:
                open_ = open_.where(batch_runs.c.run == run)
            closed = connection.execute(open_.values(ended_at=now)).rowcount
            if not closed and (run is not None or _goes_on(connection, batch)):
                added = insert_into(connection.dialect.name, batch_runs).values(**row)
                if run is None:
                    key, later = ["batch", "run"], {"ended_at": now}
                    added = added.on_conflict_do_update(index_elements=key, set_=later)
                else:
                    added = added.on_conflict_do_nothing()
                added = added.execution_options(preserve_rowcount=True)
                closed = connection.execute(added).rowcount
            runs = runs_of(connection, batch)
            ended = has_ended(connection, batch, runs.over_at)
            if ended and closed:
                batch_ended(connection, batch, now)
            return runs, ended


def runs_of(connection: Connection, batch: str) -> RunCounts:
    """Return the runs that start rollouts of a batch."""
    return RunCounts._make(connection.execute(_RUNS, {"of": batch}).one())


def has_ended(connection: Connection, batch: str, over_at: float | None) -> bool:
    """Return True if a batch was declared over and waits for none of its rollouts."""
    if over_at is None:
        return False
    of = {"of": batch, "over_at": over_at}
    return not any(connection.execute(query, of).first() for query in (_DUE, _BEGUN_SINCE))


def _goes_on(connection: Connection, batch: str) -> bool:
    """Return True unless all runs of a batch are over and no unended rollout began since."""
    over_at = runs_of(connection, batch).over_at
    of = {"of": batch, "over_at": over_at}
    return over_at is None or connection.execute(_BEGUN_SINCE, of).first() is not None


def note_imported(connection: Connection, newest: Mapping[str, float]) -> None:
    """Note that nobody starts rollouts of batches that were imported.

    Arguments:
        newest: when the newest imported rollout of each began.
    """
    for batch, at in newest.items():
        row = {"batch": batch, "run": "", "begun_at": at, "ended_at": at}
        statement = insert_into(connection.dialect.name, batch_runs).values(**row)
        later = (batch_runs.c.ended_at < at) & (batch_runs.c.run == "")
        statement = statement.on_conflict_do_update(
            index_elements=["batch", "run"], set_={"ended_at": at}, where=later
        )
        connection.execute(statement)


_RUNS = select(func.count(), func.count() - func.count(batch_runs.c.ended_at), OVER_AT).where(
    batch_runs.c.batch == bindparam("of")
)
_DUE: Select[Any] = (
    select(unjudged.c.rollout_id)
    .join(rollouts, rollouts.c.id == unjudged.c.rollout_id)
    .where(unjudged.c.batch == bindparam("of"), rollouts.c.outcome_at.is_not(None))
    .limit(1)
)
_BEGUN_SINCE: Select[Any] = (
    select(rollouts.c.id)
    .where(
        rollouts.c.batch == bindparam("of"),
        rollouts.c.created_at > bindparam("over_at"),
        rollouts.c.outcome_at.is_(None),
        rollouts.c.skipped.is_(None),
    )
    .limit(1)
)
