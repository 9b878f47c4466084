"""The attempts of a batch: all of them as they count, and those without a score."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Select, case, func, or_, select, tuple_

from classifier.batches import Entry
from classifier.reruns import RerunEntry
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


def to_rerun(connection: Connection, batch: str) -> list[RerunEntry]:
    """List the attempts at each repeat without a score, oldest first.

    Of tasks without repeats all attempts are listed, and those of tasks that lack a repeat: only
    these say how many repeats are wanted.
    """
    incomplete: set[str] = set(connection.scalars(_tasks_incomplete(batch)))
    unscored = _unscored(batch)
    sampled = tuple_(rollouts.c.task, rollouts.c.repeat).in_(
        unscored.add_columns(rollouts.c.repeat).where(rollouts.c.repeat.is_not(None))
    )
    tried = rollouts.c.task.in_(unscored.where(rollouts.c.repeat.is_(None)))
    wanted = [rollouts.c.task.is_(None) & _UNSCORED, sampled, tried]
    if incomplete:  # else it costs as much as the rest
        wanted.append(rollouts.c.task.in_(_tasks_incomplete(batch)))
    query = (
        select(
            *ENTRY_COLUMNS,
            rollouts.c.skipped,
            rollouts.c.repeats,
            case((_UNSCORED, verdicts.c.cause)).label("cause"),
            case((_UNSCORED, verdicts.c.verdict)).label("verdict"),
        )
        .select_from(JOINED)
        .where(rollouts.c.batch == batch)
        .where(or_(*wanted))
        .order_by(*OLDEST_FIRST)
    )
    return [_attempt(row, incomplete) for row in connection.execute(query)]


def _unscored(batch: str) -> Select[tuple[str]]:
    query = select(rollouts.c.task).select_from(JOINED)
    return query.where(rollouts.c.batch == batch, rollouts.c.task.is_not(None), _UNSCORED)


def _tasks_incomplete(batch: str) -> Select[tuple[str]]:
    """Select the tasks with fewer repeats than they were registered to have."""
    query = select(rollouts.c.task).where(
        rollouts.c.batch == batch, rollouts.c.task.is_not(None), rollouts.c.repeats.is_not(None)
    )
    lacking = func.max(rollouts.c.repeats) > func.count(rollouts.c.repeat.distinct())
    return query.group_by(rollouts.c.task).having(lacking)


def _attempt(row: Sequence[Any], incomplete: Collection[str]) -> RerunEntry:
    *judged, skipped, repeats, cause, text = row
    entry = Entry._make((*judged, ()))
    verdict = orjson.loads(text) if text else {}
    return RerunEntry(
        entry=entry,
        transient=verdict.get("transient"),
        cause=cause,
        rule=verdict.get("rule"),
        after_s=verdict.get("retry", {}).get("after_s"),
        skipped=skipped,
        wanted=repeats if entry.task in incomplete else None,
        warnings=tuple(verdict.get("warnings", ())),
        excluded_by=tuple(verdict.get("excluded_by", ())),
    )
