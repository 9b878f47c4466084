"""Registrations of rollouts, any number of them in one transaction and a few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from classifier.breakers import BreakerState
from proxy.store.breakers import states_of, store_states
from proxy.store.groups import announce
from proxy.store.rollup import changing
from proxy.store.statements import insert_into
from proxy.store.tables import rollouts, verdicts
from proxy.store.types import POLICY_COLUMNS, Admit, PolicyTerms, Registered, Registration

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """A registration, and what decides about it.

    ``admit`` is called with the breakers of its batch, in the same transaction, so that no two
    processes admit the same probe. ``policy`` is how it is to be judged; its batch's first
    registration decides.
    """

    registration: Registration
    admit: Admit | None = None
    policy: PolicyTerms = field(default_factory=PolicyTerms)


def register(connection: Connection, asked: Sequence[Enrolment], *, now: float) -> list[Registered]:
    """Register rollouts in their order; those that their own traffic created are filled in."""
    into = [(_id(each), each.registration.attributes) for each in asked]
    with changing(connection, {name for name, _ in into}, into=into):
        work = _Work(connection, asked, now)
        found = [work.take(each) for each in asked]
        lost = work.write()
        admissions = _Admissions(connection, now, work.skipped)
        return [
            refused or (Registered(conflict=True) if _id(each) in lost else admissions.of(each))
            for each, refused in zip(asked, found, strict=True)
        ]


def _id(asked: Enrolment) -> str:
    return asked.registration.id


class _Work:
    """What a transaction finds, and what it is to write."""

    def __init__(self, connection: Connection, asked: Sequence[Enrolment], now: float) -> None:
        self._connection = connection
        self._now = now
        self._rows = _rows(connection, map(_id, asked))
        self._standing: dict[str, Mapping[str, str | None]] = {}
        self._fresh: dict[str, Columns] = {}
        self._filled: dict[str, Columns] = {}

    def take(self, asked: Enrolment) -> Registered | None:
        """Decide about a registration; None where it is to be written."""
        registration, attributes = asked.registration, asked.registration.attributes
        row = self._rows.get(registration.id)
        terms = self._terms(asked, row)
        differing = {name: terms[name] for name, _ in asked.policy.stated.items() - terms.items()}
        if differing:
            return Registered(differing=differing)
        if row is None:
            row = {"id": registration.id, "registered": True, "created_at": self._now}
            self._fresh[registration.id] = row | attributes | terms
        elif row["registered"]:
            if _differs(row, attributes):
                return Registered(conflict=True)
        else:
            self._filled[registration.id] = attributes | terms
        self._rows[registration.id] = {**row, "registered": True, **attributes, **terms}
        if registration.batch is not None:
            self._standing[registration.batch] = terms
        return None

    def write(self) -> set[str]:
        """Write all that was taken; returns ids that another process registered otherwise."""
        lost = set()
        if self._fresh:
            added = insert_into(self._connection.dialect.name, rollouts).on_conflict_do_nothing()
            self._connection.execute(added, list(self._fresh.values()))
            for name, row in _rows(self._connection, self._fresh).items():
                given = {key: self._fresh[name][key] for key in (*_ATTRIBUTES, *POLICY_COLUMNS)}
                if not row["registered"]:  # its first call was recorded meanwhile
                    self._filled[name] = given
                elif _differs(row, {key: given[key] for key in _ATTRIBUTES}):
                    lost.add(name)
        if self._filled:
            fill_in(self._connection, self._filled)
        return lost

    def skipped(self, rollout_id: str) -> str | None:
        """Return why a rollout was not admitted before."""
        before: str | None = self._rows[rollout_id].get("skipped")
        return before

    def _terms(self, asked: Enrolment, row: Columns | None) -> dict[str, str | None]:
        """Return the columns that say how a rollout is judged: as its batch, else as stated."""
        batch = asked.registration.batch
        if batch is None:
            standing: Mapping[str, str | None] = row or {}
        else:
            if batch not in self._standing:
                self._standing[batch] = policy_of(self._connection, batch)
            standing = self._standing[batch]
        return terms(standing, asked.policy)


_ATTRIBUTES = tuple(Registration(id="").attributes)


def _rows(connection: Connection, ids: Iterable[str]) -> dict[str, Columns]:
    """Read rows by id, and block other writers of them until the transaction ends."""
    query = select(rollouts).where(rollouts.c.id.in_(set(ids))).order_by(rollouts.c.id)
    locked = connection.execute(query.with_for_update(key_share=True)).mappings()
    return {row["id"]: dict(row) for row in locked}


def _differs(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    return any(row[name] != value for name, value in attributes.items())


def policy_of(connection: Connection, batch: str) -> Mapping[str, str | None]:
    """Return the policy of a batch, which is its first rollout's; empty without one."""
    query = select(*(rollouts.c[name] for name in POLICY_COLUMNS)).where(rollouts.c.batch == batch)
    first = query.order_by(rollouts.c.created_at, rollouts.c.id).limit(1)
    return dict(connection.execute(first).mappings().one_or_none() or {})


def terms(standing: Mapping[str, str | None], policy: PolicyTerms) -> dict[str, str | None]:
    """Return the columns that say how a rollout is judged: as it stands, else as stated."""
    return {
        name: standing.get(name) or policy.stated.get(name) or policy.default.get(name)
        for name in POLICY_COLUMNS
    }


def fill_in(connection: Connection, attributes: Mapping[str, Mapping[str, Any]]) -> None:
    """Register rollouts that exist, with attributes by id; their verdicts are then outdated."""
    rows = [{**row, "registered": True, "of": name} for name, row in attributes.items()]
    connection.execute(update(rollouts).where(rollouts.c.id == bindparam("of")), rows)
    outdated = update(verdicts).where(verdicts.c.rollout_id.in_(list(attributes))).values(calls=-1)
    connection.execute(outdated)


class _Admissions:
    """Admits rollouts in their order, by the breakers as those before them left them."""

    def __init__(
        self, connection: Connection, now: float, before: Callable[[str], str | None]
    ) -> None:
        self._connection = connection
        self._now = now
        self._before = before
        self._states: dict[str, list[BreakerState]] = {}

    def of(self, asked: Enrolment) -> Registered:
        """Store why a rollout is skipped, or that it is not, and the breakers that changed."""
        registration = asked.registration
        skipped = self._decide(asked)
        if skipped != self._before(registration.id):
            own = rollouts.c.id == registration.id
            self._connection.execute(update(rollouts).where(own).values(skipped=skipped))
        if skipped is not None and registration.repeats is not None:
            given = {"rollout_id": registration.id, "batch": registration.batch}
            announce(self._connection, {**given, "given_at": self._now})
        return Registered(skipped=skipped)

    def _decide(self, asked: Enrolment) -> str | None:
        batch = asked.registration.batch
        if asked.admit is None or batch is None:
            return None
        if batch not in self._states:
            self._states[batch] = states_of(self._connection, batch)
        decision = asked.admit(self._states[batch])
        store_states(self._connection, decision.changed)
        if decision.changed:
            del self._states[batch]
        return decision.error
