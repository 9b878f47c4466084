"""The attempts of a batch: all of them as they count, and those without a score."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, or_, select, tuple_

from classifier.batches import Entry
from classifier.reruns import LackingTask, RerunEntry, without_score
from proxy.store.tables import ENTRY_COLUMNS, JOINED, OLDEST_FIRST, rollouts, verdicts

_UNSCORED = or_(
    verdicts.c.rollout_id.is_(None),
    verdicts.c.provisional.is_(True),
    verdicts.c.scoreable != "yes",
    verdicts.c.reward.is_(None),
)
_COUNTING = (
    rollouts.c.id, rollouts.c.task, rollouts.c.repeat, rollouts.c.attempt, verdicts.c.health,
    verdicts.c.scoreable, verdicts.c.provisional, verdicts.c.reward,
)  # fmt: skip


def entries(connection: Connection, batch: str) -> list[Entry]:
    """List every rollout of a batch as it counts, oldest first; tokens and causes are left out."""
    query = select(*_COUNTING).select_from(JOINED).where(rollouts.c.batch == batch)
    return [_counting(row) for row in connection.execute(query.order_by(*OLDEST_FIRST))]


def _counting(row: Sequence[Any]) -> Entry:
    name, task, repeat, attempt, health, scoreable, provisional, reward = row
    return Entry(
        rollout_id=name, task=task, repeat=repeat, attempt=attempt, health=health,
        subcategory=None, fingerprint=None, scoreable=scoreable or "unknown",
        provisional=provisional is not False, reward=reward, input_tokens=None,
        output_tokens=None, total_tokens=None, cost_usd=None,
    )  # fmt: skip


class SlotPlace(NamedTuple):
    """Where a slot is among those of its batch: when its first attempt began, and that one's id."""

    at: float
    rollout_id: str


def unscored(
    connection: Connection, batch: str, *, after: SlotPlace | None = None, at_once: int = 500
) -> Iterator[tuple[SlotPlace, Sequence[RerunEntry]]]:
    """Yield the slots of a batch without a score, the oldest first: each attempt, by its number.

    They are read as they are asked for; what it costs to begin does not depend on the place.

    Arguments:
        after: the place of the slot before.
        at_once: how many rollouts are looked at by one query.
    """
    while first := connection.execute(_first_attempts(batch, after, at_once)).all():
        places = [SlotPlace(row.created_at, row.id) for row in first]
        yield from _slots(connection, batch, first, frozenset(places))
        after = places[-1]
        if len(first) < at_once:
            return


def _first_attempts(batch: str, after: SlotPlace | None, limit: int) -> Select[Any]:
    """Select rollouts without a score: every attempt at a slot is one where the slot has none."""
    query = (
        select(*OLDEST_FIRST, rollouts.c.task, rollouts.c.repeat, rollouts.c.attempt)
        .select_from(JOINED)
        .where(rollouts.c.batch == batch, _UNSCORED)
    )
    if after is not None:
        query = query.where(tuple_(*OLDEST_FIRST) > after)
    return query.order_by(*OLDEST_FIRST).limit(limit)


def _slots(
    connection: Connection, batch: str, first: Sequence[Row[Any]], places: Collection[SlotPlace]
) -> Iterator[tuple[SlotPlace, Sequence[RerunEntry]]]:
    """Yield the slots without a score that begin with one of these attempts."""
    found: dict[SlotPlace, RerunEntry] = {}
    for query in _attempts(batch, first):
        for at, *row in connection.execute(query):
            attempt = _attempt(row)
            found[SlotPlace(at, attempt.entry.rollout_id)] = attempt
    oldest = sorted(found)
    begun = {found[place].entry.rollout_id: place for place in oldest}
    for tried in without_score(found[place] for place in oldest):
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
)


def _attempt(row: Sequence[Any]) -> RerunEntry:
    *judged, skipped, cause, text = row
    verdict = orjson.loads(text) if text else {}
    return RerunEntry(
        entry=Entry._make((*judged, ())),
        transient=verdict.get("transient"),
        cause=cause,
        rule=verdict.get("rule"),
        after_s=verdict.get("retry", {}).get("after_s"),
        skipped=skipped,
        warnings=tuple(verdict.get("warnings", ())),
        excluded_by=tuple(verdict.get("excluded_by", ())),
    )


def lacking(
    connection: Connection, batch: str, *, since: str = "", at_once: int = 500
) -> Iterator[LackingTask]:
    """Yield the tasks with fewer repeats than they were registered to have, by their names.

    Arguments:
        since: begin with this task.
        at_once: how many tasks are looked at by one query.
    """
    begun = rollouts.c.task >= since
    while found := connection.execute(_lacking(batch, begun, at_once)).all():
        repeats: dict[str, set[int]] = {row.task: set() for row in found}
        for task, repeat in connection.execute(_repeats(batch, list(repeats))):
            repeats[task].add(repeat)
        for row in found:
            yield LackingTask(row.task, row.wanted, repeats[row.task])
        begun = rollouts.c.task > found[-1].task
        if len(found) < at_once:
            return


def _lacking(batch: str, begun: ColumnElement[bool], limit: int) -> Select[str, int]:
    r = rollouts.c
    wanted = func.max(r.repeats)
    return (
        select(r.task, wanted.label("wanted"))
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
