"""The rollouts of a batch as they are summed up, by units that decide together what counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import orjson
from sqlalchemy import Connection, Select, bindparam, case, func, or_, select, type_coerce
from sqlalchemy.types import NULLTYPE

from classifier import verdict_codec
from classifier.batches import Entry, reward_in
from classifier.diagnostic_kind import Diagnostic
from classifier.diagnostics import diagnose
from classifier.rollup import Addend
from classifier.verdicts import AttributedTo
from proxy.store.tables import ENTRY_COLUMNS, JOINED, rollouts, verdicts

PLACE = ("id", "batch", "task", "repeat", "attempt")  # columns that say which unit a rollout is of
_LARGEST = 2000  # rollouts of one unit; a larger one is not summed again with each change


class Unit(NamedTuple):
    """Rollouts that decide together what counts: of one repeat of a task, or a single one."""

    task: str | None
    repeat: int | None
    rollout_id: str | None = None

    @classmethod
    def of(cls, place: Mapping[str, Any]) -> Unit:
        """Return the unit of a rollout's columns, as `classifier.rollup.sample_of` does."""
        if place["task"] is None or (place["repeat"] is None and place["attempt"] is None):
            return cls(None, None, place["id"])
        return cls(place["task"], place["repeat"])


def attempts_of(
    connection: Connection, batch: str, units: set[Unit], *, most: int = _LARGEST
) -> list[Addend] | None:
    """Return the rollouts of some units; None of one with more than ``most``."""
    if len(units) == 1:
        (unit,) = units
        asked = {"of_batch": batch, "most": most + 1, **unit._asdict()}
        rows = connection.execute(_unit(unit.rollout_id is not None, unit.repeat is None), asked)
        read = rows.all()
        return None if len(read) > most else list(map(_attempt, read))
    tasks = {unit.task for unit in units if unit.rollout_id is None}
    single = {unit.rollout_id for unit in units if unit.rollout_id is not None}
    some = or_(rollouts.c.task.in_(tasks), rollouts.c.id.in_(single))
    found = map(_attempt, connection.execute(_rows().where(some), {"of_batch": batch}))
    return [attempt for attempt in found if _unit_of(attempt.entry) in units]


def all_of(connection: Connection, batch: str) -> list[Addend]:
    """Return all rollouts of a batch."""
    return list(map(_attempt, connection.execute(_rows(), {"of_batch": batch})))


def some_of(connection: Connection, batch: str, ids: Collection[str]) -> dict[str, Addend]:
    """Return some rollouts of a batch by their ids."""
    if not ids:
        return {}
    found = connection.execute(_SOME, {"ids": list(ids), "of_batch": batch})
    return {attempt.entry.rollout_id: attempt for attempt in map(_attempt, found)}


def with_verdict(attempt: Addend, row: Mapping[str, Any], outcome: str | None) -> Addend:
    """Return a rollout as it is read once a verdict is stored.

    Arguments:
        row: columns of `verdicts`; one that is left out is unknown.
        outcome: the rollout's own, as JSON text.
    """
    judged = map(row.get, Entry._fields[4:-1])
    unhealthy, excluded = row["health"] != "healthy", row["scoreable"] != "yes"
    told = unhealthy or excluded or row.get("attributed_to") == AttributedTo.AGENT.value
    made = _attempt(
        (
            *attempt.entry[:4],
            *judged,
            row["verdict"] if told else None,
            outcome if excluded else None,
            attempt.at,
            None,
            row.get("servings"),
            attempt.fallbacks,
            attempt.wanted,
            row.get("cause") if unhealthy else None,
        )
    )
    return made._replace(skipped=attempt.skipped)


def _unit_of(entry: Entry) -> Unit:
    place = {"id": entry.rollout_id, **{name: getattr(entry, name) for name in PLACE[2:]}}
    return Unit.of(place)


@cache  # it is read twice with each change of a rollout, and takes longer to make than to run
def _unit(single: bool, unrepeated: bool) -> Select[Any]:
    """Select the rollouts of one unit of a batch, of the kind that is told."""
    own = rollouts.c.id == bindparam("rollout_id")
    if not single:
        repeat = rollouts.c.repeat == bindparam("repeat")
        if unrepeated:
            repeat = rollouts.c.repeat.is_(None) & rollouts.c.attempt.is_not(None)
        own = (rollouts.c.task == bindparam("task")) & repeat
    return _rows().where(own).limit(bindparam("most"))


@cache
def _rows() -> Select[Any]:
    """Select the rollouts of a batch, oldest first."""
    own = rollouts.c.batch == bindparam("of_batch")
    return _any_rows().where(own).order_by(rollouts.c.created_at, rollouts.c.id)


@cache
def _any_rows() -> Select[Any]:
    """Select rollouts with what a summary has to know of them."""
    told = or_(
        verdicts.c.health != "healthy",
        verdicts.c.scoreable != "yes",
        verdicts.c.attributed_to == AttributedTo.AGENT.value,
    )
    columns = (
        *ENTRY_COLUMNS,
        case((told, verdicts.c.verdict)),
        case((verdicts.c.scoreable != "yes", rollouts.c.outcome)),
        rollouts.c.created_at,
        rollouts.c.skipped,
        verdicts.c.servings,
        rollouts.c.fallbacks,
        rollouts.c.repeats,
        case((verdicts.c.health != "healthy", verdicts.c.cause)),
    )
    # As the driver gives them: of a flag it is only asked whether it is set.
    query = cast(
        Select[Any],
        select(*(type_coerce(each, NULLTYPE) for each in columns)),
    )
    return query.select_from(JOINED)


# SQLite would go through all of the batch where an index has it, 9 ms in one of 100,000.
_SOME = _any_rows().where(
    rollouts.c.id.in_(bindparam("ids", expanding=True)),
    func.coalesce(rollouts.c.batch, "") == bindparam("of_batch"),
)


def _attempt(row: Sequence[Any]) -> Addend:
    *columns, verdict, outcome, at, skipped, servings, fallbacks, wanted, cause = row
    diagnostics, retry, transient = told_by(verdict) if verdict else _SILENT
    entry = Entry._make((*columns, diagnostics))
    if outcome:
        entry = entry._replace(reward=_reported(outcome))
    eligible = bool(retry and retry.get("eligible"))
    return Addend(
        entry, at, skipped is not None, eligible, servings, fallbacks, wanted, transient, cause,
        retry,
    )  # fmt: skip


class Told(NamedTuple):
    """What a verdict says beyond its columns."""

    diagnostics: tuple[Diagnostic, ...]
    retry: dict[str, Any] | None
    transient: bool | None


_SILENT = Told((), None, None)


@lru_cache(512)  # the first hundred of a batch are read with each of its versions
def told_by(verdict: str) -> Told:
    """Read a verdict (JSON text); nothing is told by an unreadable one."""
    try:
        record = orjson.loads(verdict)
        known = verdict_codec.decode_verdict(record)
        return Told(diagnose(known), record["retry"], known.transient)
    except (ValueError, KeyError, TypeError):  # an archive may hold any
        return _SILENT


def _reported(outcome: str) -> float | None:
    """Return the reward that the runner reported of an excluded rollout."""
    told = orjson.loads(outcome)
    return reward_in(told.get("rewards"), told.get("eval"))
