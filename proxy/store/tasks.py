"""Rollouts by task, and the end of a batch.

A batch ends when those who start its rollouts have said so (`batch_runs`) and all of them are
judged. A rollout that has no outcome when they say so is given up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    case,
    func,
    select,
    update,
)

from classifier.batches import Entry
from classifier.groups import Member
from proxy.store.batch_counts import UNREWARDED, why_no_score
from proxy.store.connections import Connections, Lock, hold
from proxy.store.events import batch_ended
from proxy.store.tables import (
    ENTRY_COLUMNS,
    JOINED,
    OLDEST_FIRST,
    WITHOUT_DETAILS,
    batch_runs,
    insert_into,
    rollouts,
    unjudged,
    verdicts,
)

_ASIDE = (
    rollouts.c.repeats,
    rollouts.c.skipped,
    rollouts.c.outcome_at,
    rollouts.c.group_revision,
    rollouts.c.created_at,
    case((verdicts.c.scoreable != "yes", verdicts.c.verdict)).label("masked_by"),
    case((UNREWARDED, rollouts.c.outcome)),
    rollouts.c.score_key,
)


# When the last of some runs was declared over, where all of them were.
OVER_AT = case((func.count() == func.count(batch_runs.c.ended_at), func.max(batch_runs.c.ended_at)))


class Runs(NamedTuple):
    """The runs that start rollouts of a batch.

    ``begun`` counts the runs that were announced, ``open`` those of them that have not said yet
    that no more rollouts come. ``over_at`` is the time at which the last one said so, None before.
    """

    begun: int
    open: int
    over_at: float | None


# --- rollouts by task --------------------------------------------------------------------------


class TaskMembers(NamedTuple):
    """Rollouts by task, in the order of the tasks' names, the oldest first.

    ``unjudged`` are those of them that have an outcome and no final verdict yet; ``over_at`` is
    when their batch was declared over, None before.
    """

    members: Mapping[str, Sequence[Member]]
    unjudged: Sequence[str]
    over_at: float | None


class Tasks:
    """Reads a batch's rollouts by task."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def page(self, batch: str, *, after: str | None, limit: int) -> TaskMembers:
        """Return the rollouts of a batch's next tasks.

        Arguments:
            after: the last task of the page before; None begins.
            limit: how many tasks.
        """
        named = select(rollouts.c.task).where(
            rollouts.c.batch == batch, rollouts.c.task > ("" if after is None else after)
        )
        named = named.distinct().order_by(rollouts.c.task).limit(limit)
        with self._connections.reading() as connection:
            return by_task(connection, batch, list(connection.execute(named).scalars()))

    def any_of(self, batch: str) -> bool:
        """Return True if the batch has any rollout, with or without a task, or a run was begun."""
        query = select(rollouts.c.id).where(rollouts.c.batch == batch).limit(1)
        with self._connections.reading() as connection:
            return connection.scalar(query) is not None or runs_of(connection, batch).begun > 0

    def ended(self, batch: str) -> bool:
        """Return True if the batch has ended."""
        with self._connections.reading() as connection:
            return has_ended(connection, batch, runs_of(connection, batch).over_at)

    def begin(self, batch: str, run: str, *, now: float) -> tuple[Runs, bool]:
        """Note that somebody starts rollouts of a batch, again where that run was over.

        Returns:
            Its runs, and whether it has ended.
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

    def end(self, batch: str, run: str | None, *, now: float) -> tuple[Runs, bool]:
        """Note that a run of a batch is over, or all of them; it may be one that nobody began.

        Returns:
            Its runs, and whether it has ended with that; the first time, an event is written.
        """
        of_batch = batch_runs.c.batch == batch
        row = {"batch": batch, "run": run or "", "begun_at": now, "ended_at": now}
        with self._connections.writing() as connection:
            hold(connection, Lock.BATCH, batch)
            open_ = update(batch_runs).where(of_batch, batch_runs.c.ended_at.is_(None))
            if run is not None:
                open_ = open_.where(batch_runs.c.run == run)
            closed = connection.execute(open_.values(ended_at=now)).rowcount
            if not closed and (run is not None or not runs_of(connection, batch).begun):
                added = insert_into(connection.dialect.name, batch_runs).values(**row)
                added = added.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
                closed = connection.execute(added).rowcount
            runs = runs_of(connection, batch)
            ended = has_ended(connection, batch, runs.over_at)
            if ended and closed:
                batch_ended(connection, batch, now)
            return runs, ended

    def of_tasks(self, batch: str, tasks: Sequence[str]) -> TaskMembers:
        """Return the rollouts of some tasks of a batch."""
        with self._connections.reading() as connection:
            return by_task(connection, batch, tasks)

    def of_task(self, batch: str, task: str) -> TaskMembers:
        """Return the rollouts of one task of a batch; no task where it has none."""
        with self._connections.reading() as connection:
            return by_task(connection, batch, [task])


def by_task(connection: Connection, batch: str, tasks: Sequence[str]) -> TaskMembers:
    """Return the rollouts of some tasks of a batch, inside a transaction."""
    return by_task_of(connection, batch, tasks, runs_of(connection, batch).over_at)


def by_task_of(
    connection: Connection, batch: str, tasks: Sequence[str], over_at: float | None
) -> TaskMembers:
    """Do so for a batch of which it is known when it was declared over."""
    query = (
        select(*ENTRY_COLUMNS, *_ASIDE)
        .select_from(JOINED)
        .where(rollouts.c.batch == batch, rollouts.c.task.in_(tasks))
        .order_by(rollouts.c.task, *OLDEST_FIRST)
    )
    members: dict[str, list[Member]] = {}
    waiting: list[str] = []
    for row in connection.execute(query):
        *judged, repeats, skipped, reported, revision, began_at, masked_by, outcome, key = row
        member = Member(
            entry=Entry._make((*judged, *WITHOUT_DETAILS)),
            wanted=repeats,
            retry=masked_by is not None and advised(masked_by),
            skipped=skipped is not None,
            given_up=reported is None and over_at is not None and began_at <= over_at,
            revision=revision,
            no_score=why_no_score(outcome, key),
        )
        members.setdefault(row.task, []).append(member)
        if reported is not None and member.entry.provisional is not False:
            waiting.append(row.id)
    return TaskMembers(members, waiting, over_at)


def advised(verdict: str) -> bool:
    """Return True if a verdict, as JSON text, advises running its rollout again."""
    return bool(json.loads(verdict).get("retry", {}).get("eligible"))


# --- the end of a batch ------------------------------------------------------------------------


def runs_of(connection: Connection, batch: str) -> Runs:
    """Return who starts rollouts of a batch."""
    return Runs._make(connection.execute(_RUNS, {"of": batch}).one())


def has_ended(connection: Connection, batch: str, over_at: float | None) -> bool:
    """Return True if a batch was declared over and waits for none of its rollouts."""
    if over_at is None:
        return False
    of = {"of": batch, "over_at": over_at}
    return not any(connection.execute(query, of).first() for query in (_DUE, _BEGUN_SINCE))


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
