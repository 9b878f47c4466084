"""The rollouts of some tasks of a batch, as they count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from classifier.batches import Entry
from proxy.store.tables import JOINED, OLDEST_FIRST, rollouts, verdicts

_COUNTING = (
    rollouts.c.id, rollouts.c.task, rollouts.c.repeat, rollouts.c.attempt, verdicts.c.health,
    verdicts.c.scoreable, verdicts.c.provisional, verdicts.c.reward,
)  # fmt: skip


def entries(connection: Connection, batch: str, tasks: Sequence[str]) -> list[Entry]:
    """List the rollouts of some tasks of a batch as they count, oldest first.

    Tokens and causes are left out.
    """
    query = select(*_COUNTING).select_from(JOINED)
    query = query.where(rollouts.c.batch == batch, rollouts.c.task.in_(tasks))
    return [_counting(row) for row in connection.execute(query.order_by(*OLDEST_FIRST))]


def without_task(connection: Connection, batch: str) -> int:
    """Count the rollouts of a batch that name no task."""
    own = (rollouts.c.batch == batch, rollouts.c.task.is_(None))
    return connection.scalar(select(func.count()).where(*own)) or 0


def _counting(row: Sequence[Any]) -> Entry:
    name, task, repeat, attempt, health, scoreable, provisional, reward = row
    return Entry(
        rollout_id=name, task=task, repeat=repeat, attempt=attempt, health=health,
        subcategory=None, fingerprint=None, scoreable=scoreable or "unknown",
        provisional=provisional is not False, reward=reward, input_tokens=None,
        output_tokens=None, total_tokens=None, cost_usd=None,
    )  # fmt: skip
