"""The places of rollouts in their tasks that registrations leave open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select

from classifier.next_try import NextTry, TaskPlace, Try, TryState, next_try
from proxy.store.tables import JOINED, OLDEST_FIRST, Registration, rollouts, verdicts

PLACE = ("repeat", "attempt")


class NotJudged(Exception):
    """Nobody knows yet whether some rollouts that have ended are measured: judge them first."""

    def __init__(self, rollout_ids: Collection[str]) -> None:
        super().__init__(", ".join(rollout_ids))
        self.rollout_ids = rollout_ids


def leaves_open(registration: Registration) -> bool:
    """Return True if the place of a rollout in its task is left to the service."""
    named = None not in (registration.batch, registration.task)
    return named and registration.repeat is None and registration.attempt is None


class OpenPlaces:
    """The places that one transaction gives.

    The batches are locked: of two registrations at once, one gets the next try.

    Arguments:
        registrations: those of the transaction.
        measured: whether rollouts are, that have ended and whose verdict is not stored.
    """

    def __init__(
        self,
        connection: Connection,
        registrations: Iterable[Registration],
        measured: Mapping[str, bool],
    ) -> None:
        self._connection = connection
        self._tries: dict[tuple[str | None, str | None], list[Try]] = {}
        self._moved: dict[str, TaskPlace] = {}
        tasks: dict[str, set[str]] = {}
        for each in registrations:
            if leaves_open(each):
                tasks.setdefault(str(each.batch), set()).add(str(each.task))
        for batch in sorted(tasks):
            self._read(batch, tasks[batch], measured)

    def _read(self, batch: str, tasks: Collection[str], measured: Mapping[str, bool]) -> None:
        rows = self._connection.execute(_TRIES, {"of": batch, "tasks": sorted(tasks)}).mappings()
        unknown = []
        for row in rows:
            state = _state(row, measured)
            if state is None:
                unknown.append(row["id"])
            else:
                numbers = row["repeat"], row["attempt"], row["repeats"]
                self._add(batch, Try(row["id"], row["task"], *numbers, state))
        if unknown:
            raise NotJudged(unknown)

    def _add(self, batch: str | None, each: Try) -> None:
        self._tries.setdefault((batch, each.task), []).append(each)

    def of(self, registration: Registration) -> dict[str, int | None]:
        """Return the place of a rollout that leaves it open, as columns."""
        key = registration.batch, registration.task
        found: NextTry = next_try(self._tries.get(key, ()), registration.repeats)
        if found.earlier is not None:
            self._moved[found.earlier] = found.earlier_place
            self._tries[key] = [
                each._replace(**found.earlier_place._asdict())
                if each.rollout_id == found.earlier
                else each
                for each in self._tries[key]
            ]
        return found.place._asdict()

    def taken(self, registration: Registration, place: Mapping[str, Any]) -> None:
        """Note that a rollout has a place from now on, given or not."""
        if registration.task is not None:
            numbers = place["repeat"], place["attempt"], registration.repeats
            each = Try(registration.id, registration.task, *numbers, TryState.RUNNING)
            self._add(registration.batch, each)

    def moved(self) -> dict[str, dict[str, int | None]]:
        """Return the places of earlier rollouts that had none, as columns by their ids."""
        return {name: place._asdict() for name, place in self._moved.items()}


def _state(row: Mapping[Any, Any], measured: Mapping[str, bool]) -> TryState | None:
    """Return what became of a rollout; None if it has ended, and is not judged."""
    if not row["ended"]:
        return TryState.UNMEASURED if row["skipped"] else TryState.RUNNING
    if row["provisional"] is False:
        counts = row["scoreable"] == "yes"
    elif (known := measured.get(row["id"])) is not None:
        counts = known
    else:
        return None
    return TryState.MEASURED if counts else TryState.UNMEASURED


_TRIES = (
    select(
        rollouts.c.id,
        rollouts.c.task,
        rollouts.c.repeat,
        rollouts.c.attempt,
        rollouts.c.repeats,
        rollouts.c.outcome.is_not(None).label("ended"),
        rollouts.c.skipped.is_not(None).label("skipped"),
        verdicts.c.provisional,
        verdicts.c.scoreable,
    )
    .select_from(JOINED)
    .where(rollouts.c.batch == bindparam("of"))
    .where(rollouts.c.task.in_(bindparam("tasks", expanding=True)))
    .order_by(*OLDEST_FIRST)
)
