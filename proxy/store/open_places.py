"""Choose repeat and attempt of rollouts whose registration names a task and neither number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, case, exists, func, or_, select

from classifier.attempt_numbers import TaskPlace, TaskTries, Try, TryState, next_try
from proxy.store.runs import OVER_AT
from proxy.store.tables import (
    JOINED,
    OLDEST_FIRST,
    Registration,
    batch_runs,
    rollouts,
    verdicts,
)

PLACE = ("repeat", "attempt")


class NotJudged(Exception):
    """Some ended rollouts have to be judged before a place can be chosen."""

    def __init__(self, rollout_ids: Collection[str]) -> None:
        super().__init__(", ".join(rollout_ids))
        self.rollout_ids = rollout_ids


def leaves_open(registration: Registration) -> bool:
    """Return True if the place of a rollout in its task is left to the service."""
    named = None not in (registration.batch, registration.task)
    return named and registration.repeat is None and registration.attempt is None


class OpenPlaces:
    """Chooses the places of one transaction's rollouts.

    The batches are locked, so two registrations at once never get the same place.

    Arguments:
        registrations: those of the transaction.
        measured: by id, if an ended rollout without a stored verdict is measured.

    Raises:
        NotJudged: an ended rollout of a task has no verdict, and ``measured`` lacks it.
    """

    def __init__(
        self,
        connection: Connection,
        registrations: Iterable[Registration],
        measured: Mapping[str, bool],
    ) -> None:
        self._connection = connection
        self._tasks: defaultdict[tuple[str | None, str | None], TaskTries]
        self._tasks = defaultdict(TaskTries)
        self._moved: dict[str, TaskPlace] = {}
        tasks: dict[str, set[str]] = {}
        for each in registrations:
            if leaves_open(each):
                tasks.setdefault(str(each.batch), set()).add(str(each.task))
        for batch in sorted(tasks):
            self._read(batch, tasks[batch], measured)

    def _read(self, batch: str, tasks: Collection[str], measured: Mapping[str, bool]) -> None:
        of = {"of": batch, "tasks": sorted(tasks)}
        unknown = []
        for row in self._connection.execute(_TRIES, of).mappings():
            state = _state(row, measured)
            if state is None:
                unknown.append(row["id"])
            else:
                numbers = row["repeat"], row["attempt"], row["repeats"]
                each = Try(row["id"], row["task"], *numbers, state)
                self._tasks[batch, each.task].tries.append(each)
        if unknown:
            raise NotJudged(unknown)
        for name, *counts in self._connection.execute(_COUNTS, of):
            task = self._tasks[batch, name]
            task.next_repeat, task.numbered, task.planned, task.held = counts

    def of(self, registration: Registration) -> dict[str, int | None] | None:
        """Return the place of a rollout that leaves it open, as columns; None if none is left."""
        task = self._tasks[registration.batch, registration.task]
        found = next_try(task, registration.repeats)
        if found is None:
            return None
        if found.earlier is not None:
            self._moved[found.earlier] = found.earlier_place
            task.tries = [
                each._replace(**found.earlier_place._asdict())
                if each.rollout_id == found.earlier
                else each
                for each in task.tries
            ]
        return found.place._asdict()

    def taken(self, registration: Registration, place: Mapping[str, Any]) -> None:
        """Note that a new rollout of the batch has a place, given or not."""
        if registration.task is not None:
            numbers = place["repeat"], place["attempt"], registration.repeats
            each = Try(registration.id, registration.task, *numbers, TryState.RUNNING)
            self._tasks[registration.batch, registration.task].begin(each)

    def moved(self) -> dict[str, dict[str, int | None]]:
        """Return the places of earlier rollouts that had none, as columns by their ids."""
        return {name: place._asdict() for name, place in self._moved.items()}


def _state(row: Mapping[Any, Any], measured: Mapping[str, bool]) -> TryState | None:
    """Return what became of a rollout; None if it has ended, and is not judged."""
    if not row["ended"]:
        return TryState.RUNNING if row["holds"] else TryState.UNMEASURED
    if row["provisional"] is False:
        counts = row["scoreable"] == "yes"
    elif (known := measured.get(row["id"])) is not None:
        counts = known
    else:
        return None
    return TryState.MEASURED if counts else TryState.UNMEASURED


_OVER_AT = select(OVER_AT).where(batch_runs.c.batch == bindparam("of")).scalar_subquery()


def _holds(rollout: Any, verdict: Any) -> ColumnElement[int]:
    """Return 1 for a rollout that runs or is measured, so that its repeat is not tried again.

    A rollout without an outcome no longer runs once its batch is over.
    """
    given_up = rollout.c.created_at <= _OVER_AT
    runs = rollout.c.outcome.is_(None) & rollout.c.skipped.is_(None)
    return case(
        (runs & given_up, 0),
        (runs, 1),
        (
            rollout.c.outcome.is_not(None)
            & verdict.c.provisional.is_(False)
            & (verdict.c.scoreable == "yes"),
            1,
        ),
        else_=0,
    )


_HOLDS = _holds(rollouts, verdicts)
_OF_TASKS = (
    rollouts.c.batch == bindparam("of"),
    rollouts.c.task.in_(bindparam("tasks", expanding=True)),
)
_other, _its_verdict = rollouts.alias(), verdicts.alias()
_HELD_BY_ANOTHER = (
    exists()
    .select_from(_other.outerjoin(_its_verdict, _its_verdict.c.rollout_id == _other.c.id))
    .where(
        _other.c.batch == rollouts.c.batch,
        _other.c.task == rollouts.c.task,
        _other.c.repeat == rollouts.c.repeat,
        _holds(_other, _its_verdict) == 1,
    )
)
# Of repeats with a number only those that may be tried again: a task has thousands of others.
_TRIES = (
    select(
        rollouts.c.id,
        rollouts.c.task,
        rollouts.c.repeat,
        rollouts.c.attempt,
        rollouts.c.repeats,
        rollouts.c.outcome.is_not(None).label("ended"),
        _HOLDS.label("holds"),
        verdicts.c.provisional,
        verdicts.c.scoreable,
    )
    .select_from(JOINED)
    .where(*_OF_TASKS)
    .where(
        or_(
            (_HOLDS == 0) & ~_HELD_BY_ANOTHER,
            rollouts.c.repeat.is_(None) & rollouts.c.attempt.is_not(None),
        )
    )
    .order_by(*OLDEST_FIRST)
)
_nameless = rollouts.c.repeat.is_(None) & rollouts.c.attempt.is_(None)
_COUNTS = (
    select(
        rollouts.c.task,
        func.coalesce(func.max(rollouts.c.repeat) + 1, 0),
        func.count(rollouts.c.repeat.distinct()),
        func.count(case((rollouts.c.repeats.is_not(None), rollouts.c.repeat)).distinct()),
        func.sum(case((_nameless, _HOLDS), else_=0)),
    )
    .select_from(JOINED)
    .where(*_OF_TASKS)
    .group_by(rollouts.c.task)
)
