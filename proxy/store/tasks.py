"""A batch's rollouts by task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import (
    Connection,
    case,
    select,
)

from classifier.batches import Entry
from classifier.groups import Member
from proxy.store.batch_counts import UNREWARDED, why_no_score
from proxy.store.connections import Connections
from proxy.store.runs import runs_of
from proxy.store.tables import (
    ENTRY_COLUMNS,
    JOINED,
    OLDEST_FIRST,
    WITHOUT_DETAILS,
    rollouts,
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
