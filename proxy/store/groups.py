"""Groups of one task's rollouts: read for training, and announced once they settle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, select

from classifier.batches import Entry
from classifier.groups import Group, Member, group
from proxy.store.connections import Connections
from proxy.store.events import group_settled
from proxy.store.tables import ENTRY_COLUMNS, JOINED, OLDEST_FIRST, rollouts, verdicts

_ASIDE = (
    rollouts.c.repeats,
    rollouts.c.skipped,
    rollouts.c.outcome_at,
    case((verdicts.c.scoreable != "yes", verdicts.c.verdict)).label("masked_by"),
)


class Tasks(NamedTuple):
    """Rollouts by task, in the order of the tasks' names, the oldest first.

    ``unjudged`` are those of them that have an outcome and no final verdict yet.
    """

    members: Mapping[str, Sequence[Member]]
    unjudged: Sequence[str]


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
            return _tasks(connection, batch, list(connection.execute(named).scalars()))

    def any_of(self, batch: str) -> bool:
        """Whether the batch has any rollout, with a task or without."""
        query = select(rollouts.c.id).where(rollouts.c.batch == batch).limit(1)
        with self._connections.reading() as connection:
            return connection.scalar(query) is not None

    def of_task(self, batch: str, task: str) -> Tasks:
        """Return the rollouts of one task of a batch; no task where it has none."""
        with self._connections.reading() as connection:
            return _tasks(connection, batch, [task])


def _tasks(connection: Connection, batch: str, tasks: Sequence[str]) -> Tasks:
    query = (
        select(*ENTRY_COLUMNS, *_ASIDE)
        .select_from(JOINED)
        .where(rollouts.c.batch == batch, rollouts.c.task.in_(tasks))
        .order_by(rollouts.c.task, *OLDEST_FIRST)
    )
    found: dict[str, list[Member]] = {}
    unjudged: list[str] = []
    for row in connection.execute(query):
        *judged, repeats, skipped, reported, masked_by = row
        member = Member(
            entry=Entry._make((*judged, ())),
            wanted=repeats,
            retry=masked_by is not None and _advised(masked_by),
            skipped=skipped is not None,
        )
        found.setdefault(row.task, []).append(member)
        if reported is not None and member.entry.provisional is not False:
            unjudged.append(row.id)
    return Tasks(found, unjudged)


def _advised(verdict: str) -> bool:
    """Whether a verdict, as JSON text, advises to run its rollout again."""
    return bool(json.loads(verdict).get("retry", {}).get("eligible"))


def announce(connection: Connection, row: Mapping[str, Any]) -> None:
    """Write the event of a group that a rollout has just settled, the last to be judged.

    The caller holds the lock of the batch, so that no two rollouts are both the last one.

    Arguments:
        row: as for `settled_by`, and ``given_at``, when it was judged or not admitted.
    """
    now = settled_by(connection, row)
    if now is not None:
        group_settled(connection, now, row)


def settled_by(connection: Connection, row: Mapping[str, Any]) -> Group | None:
    """Return the group that a rollout settles, the last to be judged; None if it settles none.

    A group settles by itself only where registrations say how many repeats are wanted; a rollout
    whose own does not costs one look.

    Arguments:
        row: ``rollout_id`` and ``batch`` of one that is not admitted, or the columns of a final
            verdict, which need not be stored yet.
    """
    own = select(rollouts.c.batch, rollouts.c.task).where(
        rollouts.c.id == row["rollout_id"], rollouts.c.repeats.is_not(None)
    )
    batch, task = connection.execute(own).one_or_none() or (None, None)
    if batch is None or task is None:
        return None
    found = [_with_verdict(m, row) for m in _tasks(connection, batch, [task]).members[task]]
    now = group(task, found)
    before = [_running(member, row["rollout_id"]) for member in found]
    return now if now.settled and not group(task, before).settled else None


def _with_verdict(member: Member, row: Mapping[str, Any]) -> Member:
    """Return the member with the verdict, if it is of that rollout."""
    if member.entry.rollout_id != row["rollout_id"] or "verdict" not in row:
        return member
    judged = map(row.get, Entry._fields[4:-1])
    retry = row["scoreable"] != "yes" and _advised(row["verdict"])
    return member._replace(entry=Entry._make((*member.entry[:4], *judged, ())), retry=retry)


def _running(member: Member, rollout_id: str) -> Member:
    """Return the member as it was before its verdict, if it is that rollout."""
    if member.entry.rollout_id != rollout_id:
        return member
    return member._replace(entry=member.entry._replace(provisional=True), skipped=False)
