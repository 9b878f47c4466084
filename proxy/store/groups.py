"""Rollouts by task, a batch's attempts, and its end.

A batch ends when those who start its rollouts have said so (`batch_runs`) and all of them are
judged. A rollout that has no outcome when they say so is given up.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    tuple_,
    update,
)

from classifier.batches import Entry
from classifier.groups import Member
from classifier.reruns import MissingRepeats, RerunEntry, without_score
from proxy.store.batch_counts import UNREWARDED, why_no_score
from proxy.store.connections import Connections, Lock, hold
from proxy.store.events import batch_ended
from proxy.store.tables import (
    ENTRY_COLUMNS,
    JOINED,
    OLDEST_FIRST,
    UNSCORED,
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


class Tasks(NamedTuple):
    """Rollouts by task, in the order of the tasks' names, the oldest first.

    ``unjudged`` are those of them that have an outcome and no final verdict yet; ``over_at`` is
    when their batch was declared over, None before.
    """

    members: Mapping[str, Sequence[Member]]
    unjudged: Sequence[str]
    over_at: float | None


class Groups:
    """Reads a batch's rollouts by task."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def page(self, batch: str, *, after: str | None, limit: int) -> Tasks:
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
            hold(connection, Lock.BREAKERS, batch)
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
            hold(connection, Lock.BREAKERS, batch)
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

    def of_tasks(self, batch: str, tasks: Sequence[str]) -> Tasks:
        """Return the rollouts of some tasks of a batch."""
        with self._connections.reading() as connection:
            return by_task(connection, batch, tasks)

    def of_task(self, batch: str, task: str) -> Tasks:
        """Return the rollouts of one task of a batch; no task where it has none."""
        with self._connections.reading() as connection:
            return by_task(connection, batch, [task])


def by_task(connection: Connection, batch: str, tasks: Sequence[str]) -> Tasks:
    """Return the rollouts of some tasks of a batch, inside a transaction."""
    over_at = runs_of(connection, batch).over_at
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
    return Tasks(members, waiting, over_at)


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


# --- attempts of a batch -----------------------------------------------------------------------


_UNSCORED = or_(
    verdicts.c.rollout_id.is_(None),
    verdicts.c.provisional.is_(True),
    verdicts.c.scoreable != "yes",
    verdicts.c.reward.is_(None),
)


class SlotCursor(NamedTuple):
    """The place of a slot in its batch: the start of its first attempt, and that attempt's id."""

    at: float
    rollout_id: str


def unscored(
    connection: Connection, batch: str, *, after: SlotCursor | None = None, at_once: int = 500
) -> Iterator[tuple[SlotCursor, Sequence[RerunEntry]]]:
    """Yield the slots of a batch without a score, the oldest first: each attempt, by its number.

    They are read as they are asked for; what it costs to begin does not depend on the place.

    Arguments:
        after: the place of the slot before.
        at_once: how many rollouts are looked at by one query.
    """
    # Every attempt at a slot is without a score where the slot has none.
    attempts = heapq.merge(
        _in_pages(connection, _judged_unscored(batch), _PLACE, after, at_once),
        _in_pages(connection, _not_judged(batch), OLDEST_FIRST, after, at_once),
        key=lambda row: (row.created_at, row.id),
    )
    while first := list(islice(attempts, at_once)):
        places = frozenset(SlotCursor(row.created_at, row.id) for row in first)
        yield from _slots(connection, batch, first, places)


_ATTEMPT = (*OLDEST_FIRST, rollouts.c.task, rollouts.c.repeat, rollouts.c.attempt)
_PLACE = (verdicts.c.began_at, verdicts.c.rollout_id)


def _judged_unscored(batch: str) -> Select[Any]:
    """Select rollouts whose verdict has no score, by the index that holds no others."""
    judged = verdicts.join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
    return select(*_ATTEMPT).select_from(judged).where(verdicts.c.batch == batch, text(UNSCORED))


def _not_judged(batch: str) -> Select[Any]:
    judged = exists().where(verdicts.c.rollout_id == rollouts.c.id)
    return select(*_ATTEMPT).where(rollouts.c.batch == batch, not_(judged))


def _in_pages(
    connection: Connection,
    query: Select[Any],
    order: Sequence[Column[Any]],
    after: SlotCursor | None,
    at_once: int,
) -> Iterator[Row[Any]]:
    """Yield the rows of a query in their order, so many by one statement."""
    while True:
        rows = connection.execute(_page_of(query, order, after, at_once)).all()
        yield from rows
        if len(rows) < at_once:
            return
        after = SlotCursor(rows[-1].created_at, rows[-1].id)


def _page_of(
    query: Select[Any], order: Sequence[Column[Any]], after: SlotCursor | None, limit: int
) -> Select[Any]:
    rest = query if after is None else query.where(tuple_(*order) > after)
    return rest.order_by(*order).limit(limit)


def _slots(
    connection: Connection, batch: str, first: Sequence[Row[Any]], places: Collection[SlotCursor]
) -> Iterator[tuple[SlotCursor, Sequence[RerunEntry]]]:
    """Yield the slots without a score that begin with one of these attempts."""
    attempts: dict[SlotCursor, RerunEntry] = {}
    for query in _attempts(batch, first):
        for at, *row in connection.execute(query):
            attempt = _attempt(row)
            attempts[SlotCursor(at, attempt.entry.rollout_id)] = attempt
    oldest = sorted(attempts)
    begun = {attempts[place].entry.rollout_id: place for place in oldest}
    for tried in without_score(attempts[place] for place in oldest):
        place = min(begun[each.entry.rollout_id] for each in tried)
        if place in places:
            yield place, tried


def _attempts(batch: str, first: Sequence[Row[Any]]) -> Iterator[Select[Any]]:
    """Select all attempts at the slots of some, each query by an index.

    Of a task without repeats all attempts are of its slots: which is of which follows from all.
    """
    r = rollouts.c
    repeats = {
        (row.task, row.repeat): row.id for row in first if None not in (row.task, row.repeat)
    }
    rest = [row for row in first if None in (row.task, row.repeat)]
    tasks = {row.task for row in rest if None not in (row.task, row.attempt)}
    single = [row.id for row in rest if None in (row.task, row.attempt)]
    if repeats:
        # By a join, since SQLite looks up pairs in a list by the first of them only. Told which
        # batch it is, it would begin with all of that.
        one = rollouts.alias("one")
        same = (r.batch == one.c.batch, r.task == one.c.task, r.repeat == one.c.repeat)
        joined = one.join(rollouts, and_(*same)).outerjoin(verdicts, verdicts.c.rollout_id == r.id)
        query = select(*_COLUMNS).select_from(joined)
        yield query.where(one.c.id.in_(repeats.values()))
    alone = select(*_COLUMNS).select_from(JOINED)
    if tasks:
        unnumbered = (r.repeat.is_(None), r.attempt.is_not(None))
        yield alone.where(r.batch == batch, r.task.in_(tasks), *unnumbered)
    if single:
        yield alone.where(r.id.in_(single))


_COLUMNS = (
    rollouts.c.created_at,
    *ENTRY_COLUMNS,
    rollouts.c.skipped,
    case((_UNSCORED, verdicts.c.cause)).label("cause"),
    case((_UNSCORED, verdicts.c.verdict)).label("verdict"),
    rollouts.c.model,
    rollouts.c.upstream,
    rollouts.c.repeats,
    case((UNREWARDED, rollouts.c.outcome)),
    rollouts.c.score_key,
)


def _attempt(row: Sequence[Any]) -> RerunEntry:
    *judged, skipped, cause, stored, model, upstream, repeats, outcome, key = row
    verdict = orjson.loads(stored) if stored else {}
    return RerunEntry(
        entry=Entry._make((*judged, *WITHOUT_DETAILS)),
        transient=verdict.get("transient"),
        cause=cause,
        rule=verdict.get("rule"),
        after_s=verdict.get("retry", {}).get("after_s"),
        skipped=skipped,
        warnings=tuple(verdict.get("warnings", ())),
        excluded_by=tuple(verdict.get("excluded_by", ())),
        model=model,
        upstream=upstream,
        repeats=repeats,
        no_score=why_no_score(outcome, key),
    )


def lacking(
    connection: Connection, batch: str, *, since: str = "", at_once: int = 500
) -> Iterator[MissingRepeats]:
    """Yield the tasks with fewer repeats than they were registered to have, by their names.

    Arguments:
        since: begin with this task.
        at_once: how many tasks are looked at by one query.
    """
    begun = rollouts.c.task >= since
    while rows := connection.execute(_lacking(batch, begun, at_once)).all():
        repeats: dict[str, set[int]] = {row.task: set() for row in rows}
        for task, repeat in connection.execute(_repeats(batch, list(repeats))):
            repeats[task].add(repeat)
        for row in rows:
            yield MissingRepeats(row.task, row.wanted, repeats[row.task], row.model, row.upstream)
        begun = rollouts.c.task > rows[-1].task
        if len(rows) < at_once:
            return


def _lacking(batch: str, begun: ColumnElement[bool], limit: int) -> Select[Any]:
    r = rollouts.c
    wanted = func.max(r.repeats)
    same = (
        case((func.min(column) == func.max(column), func.min(column))).label(column.name)
        for column in (r.model, r.upstream)
    )
    return (
        select(r.task, wanted.label("wanted"), *same)
        .where(r.batch == batch, begun, r.repeats.is_not(None), r.repeat.is_not(None))
        .group_by(r.task)
        .having(wanted > func.count(r.repeat.distinct()))
        .order_by(r.task)
        .limit(limit)
    )


def _repeats(batch: str, tasks: Sequence[str]) -> Select[str, int]:
    r = rollouts.c
    known = (r.repeats.is_not(None), r.repeat.is_not(None))
    return select(r.task, r.repeat).where(r.batch == batch, r.task.in_(tasks), *known)
