"""The attempts of a batch at repeats without a score, and the tasks that lack repeats."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
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
    case,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    tuple_,
)

from classifier.batches import Entry
from classifier.reruns import MissingRepeats, RerunEntry, without_score
from proxy.store.batch_counts import UNREWARDED, why_no_score
from proxy.store.tables import (
    ENTRY_COLUMNS,
    JOINED,
    OLDEST_FIRST,
    UNSCORED,
    WITHOUT_DETAILS,
    rollouts,
    verdicts,
)

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
