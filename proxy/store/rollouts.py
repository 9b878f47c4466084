"""Rollouts: registered, reported and revoked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from classifier.records import RolloutRecord
from proxy.store.breakers import states_of, store_states
from proxy.store.calls import calls_of
from proxy.store.closings import add_closing, closing_of
from proxy.store.connections import Connections
from proxy.store.derived import unjudged
from proxy.store.groups import announce
from proxy.store.rollup import changing
from proxy.store.statements import add
from proxy.store.tables import rollouts, verdicts
from proxy.store.types import (
    POLICY_COLUMNS,
    Admit,
    PolicyTerms,
    Registered,
    Registration,
    Reported,
    Row,
)

_UNSAID = PolicyTerms()


class Rollouts:
    """Reads and writes the table `rollouts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def register(
        self,
        registration: Registration,
        *,
        now: float,
        admit: Admit | None = None,
        policy: PolicyTerms = _UNSAID,
    ) -> Registered:
        """Register a rollout; one that its own traffic created is filled in.

        Arguments:
            policy: how it is to be judged; its batch's first registration decides.
            admit: called with the breakers of its batch, in the same transaction, so that
                no two processes admit the same probe.
        """
        attributes = registration.attributes
        with (
            self._connections.writing() as connection,
            changing(connection, [registration.id], into=attributes),
        ):
            terms = _terms(connection, registration.id, registration.batch, policy)
            differing = {name: terms[name] for name, _ in policy.stated.items() - terms.items()}
            if differing:
                return Registered(differing=differing)
            fresh = {"id": registration.id, "registered": True, "created_at": now, **attributes}
            added = add(connection, rollouts, fresh | terms)
            row = _row(connection, registration.id, locked=True)
            assert row is not None
            if row["registered"]:
                if not added and any(row[name] != value for name, value in attributes.items()):
                    return Registered(conflict=True)
            else:
                _fill_in(connection, registration.id, attributes | terms)
            skipped = _admission(connection, registration, admit)
            _update(connection, registration.id, skipped=skipped)
            if skipped is not None:
                given = {"rollout_id": registration.id, "batch": registration.batch}
                announce(connection, {**given, "given_at": now})
        return Registered(skipped=skipped)

    def report(
        self,
        rollout_id: str,
        outcome: str,
        *,
        now: float,
        attributes: Mapping[str, Any] | None = None,
        registers: bool = False,
        policy: PolicyTerms = _UNSAID,
    ) -> Reported:
        """Store a rollout's outcome, once.

        Arguments:
            attributes: those of its registration that the report states, as columns; they fill
                in a rollout that only its own traffic created.
            registers: register a rollout that is unknown.
            policy: as in `register`.
        """
        attributes = attributes or {}
        with (
            self._connections.writing() as connection,
            changing(connection, [rollout_id], into=attributes),
        ):
            row = _row(connection, rollout_id, locked=True)
            if row is None and registers:
                fresh = {"id": rollout_id, "registered": True, "created_at": now, **attributes}
                fresh |= _terms(connection, rollout_id, attributes.get("batch"), policy)
                add(connection, rollouts, fresh)  # or its first call does, in another process
                row = _row(connection, rollout_id, locked=True)
            if row is None:
                return Reported()
            standing = row["outcome"]
            if any(row[name] != value for name, value in attributes.items()):
                if row["registered"] or standing is not None:
                    return Reported(outcome=standing or outcome, conflict=True)
                terms = _terms(connection, rollout_id, attributes.get("batch"), policy)
                _fill_in(connection, rollout_id, {**attributes, **terms})
            closing = None
            if standing is None:
                _update(connection, rollout_id, outcome=outcome, outcome_at=now)
                closing = add_closing(connection, rollout_id, now=now)
            elif row["closed_at"] is None:  # whoever was to end its calls did not come back
                closing = closing_of(connection, rollout_id)
        return Reported(outcome=standing or outcome, closing=closing)

    def is_registered(self, rollout_id: str) -> bool:
        """Whether a runner registered this rollout."""
        row = self.row(rollout_id)
        return row is not None and bool(row["registered"])

    def row(self, rollout_id: str) -> Row | None:
        """Return one rollout's columns, without its exchanges."""
        with self._connections.reading() as connection:
            return _row(connection, rollout_id)

    def load(self, rollout_id: str) -> tuple[Row, RolloutRecord] | None:
        """Return one rollout's columns, and its record with exchanges, calls in flight included.

        Beside its columns there is ``change``, the last one that was not judged yet.
        """
        last = select(unjudged.c.change).where(unjudged.c.rollout_id == rollouts.c.id)
        query = select(rollouts, last.scalar_subquery().label("change"))
        with self._connections.reading() as connection:
            found = connection.execute(query.where(rollouts.c.id == rollout_id)).mappings()
            row = found.one_or_none()
            if row is None:
                return None
            calls = calls_of(connection, rollout_id)
        record = RolloutRecord(
            id=row["id"],
            batch=row["batch"],
            task=row["task"],
            repeat=row["repeat"],
            attempt=row["attempt"],
            model=row["model"],
            upstream=row["upstream"],
            usage_channel=row["usage_channel"],
            exchanges=calls,
            gaps=row["gaps"],
            fallbacks=tuple(row["fallbacks"].split("\n")) if row["fallbacks"] else (),
            agents=row["agents"],
            validity=row["validity"],
            max_steps=row["max_steps"],
            began_at=row["created_at"],
            ended_at=row["outcome_at"],
        )
        return row, record

    def expire(self, rollout_id: str, *, at: float) -> None:
        """Make a rollout's key and secret invalid from then on; never later than before."""
        with self._connections.writing() as connection:
            _revoke(connection, rollout_id, at)

    def revoke(self, rollout_id: str, *, now: float) -> int:
        """Make them invalid now; returns the number with which its calls are to be ended."""
        with self._connections.writing() as connection:
            _revoke(connection, rollout_id, now)
            return add_closing(connection, rollout_id, now=now)

    def aliased(self, alias: str, *, now: float) -> list[str]:
        """List rollouts minted under an alias whose keys are still valid, oldest first."""
        named = (rollouts.c.id == alias) | (
            (rollouts.c.task == alias) & rollouts.c.id.startswith(f"{alias}.", autoescape=True)
        )
        alive = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > now)
        query = select(rollouts.c.id).where(named, alive, rollouts.c.outcome_at.is_(None))
        with self._connections.reading() as connection:
            return list(connection.execute(query.order_by(rollouts.c.created_at)).scalars())

    def drilled(self) -> frozenset[str]:
        """Return rollouts without an outcome that have faults to inject."""
        query = select(rollouts.c.id).where(
            rollouts.c.fault.is_not(None), rollouts.c.outcome_at.is_(None)
        )
        with self._connections.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def next_drilled_call(self, rollout_id: str) -> int:
        """Count one more call of a drilled rollout; returns its number, from 1 across processes."""
        counted = (
            update(rollouts)
            .where(rollouts.c.id == rollout_id)
            .values(fault_calls=rollouts.c.fault_calls + 1)
            .returning(rollouts.c.fault_calls)
        )
        with self._connections.writing() as connection:
            return int(connection.execute(counted).scalar_one())


def _row(connection: Connection, rollout_id: str, *, locked: bool = False) -> Row | None:
    """Read a rollout's row; ``locked`` blocks other writers of it until the transaction ends."""
    query = select(rollouts).where(rollouts.c.id == rollout_id)
    if locked:
        query = query.with_for_update(key_share=True)
    return connection.execute(query).mappings().one_or_none()


def _standing(
    connection: Connection, rollout_id: str, batch: str | None
) -> Mapping[str, str | None]:
    """Return the policy of a rollout's batch, which is its first rollout's; empty without one."""
    query = select(*(rollouts.c[name] for name in POLICY_COLUMNS))
    if batch is None:
        query = query.where(rollouts.c.id == rollout_id)
    else:
        first = (rollouts.c.created_at, rollouts.c.id)
        query = query.where(rollouts.c.batch == batch).order_by(*first).limit(1)
    return dict(connection.execute(query).mappings().one_or_none() or {})


def _terms(
    connection: Connection, rollout_id: str, batch: str | None, policy: PolicyTerms
) -> dict[str, str | None]:
    """Return the columns that say how a rollout is judged: as its batch, else as stated."""
    standing = _standing(connection, rollout_id, batch)
    return {
        name: standing.get(name) or policy.stated.get(name) or policy.default.get(name)
        for name in POLICY_COLUMNS
    }


def _update(connection: Connection, rollout_id: str, **values: Any) -> None:
    connection.execute(update(rollouts).where(rollouts.c.id == rollout_id).values(**values))


def _revoke(connection: Connection, rollout_id: str, at: float) -> None:
    earlier = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > at)
    connection.execute(
        update(rollouts).where(rollouts.c.id == rollout_id, earlier).values(revoked_at=at)
    )


def _fill_in(connection: Connection, rollout_id: str, attributes: Mapping[str, Any]) -> None:
    """Register a rollout that exists, with these attributes; its verdict is then outdated."""
    _update(connection, rollout_id, registered=True, **attributes)
    connection.execute(update(verdicts).where(verdicts.c.rollout_id == rollout_id).values(calls=-1))


def _admission(
    connection: Connection, registration: Registration, admit: Admit | None
) -> str | None:
    """Why a rollout is skipped, or None; stores the breakers that its admission changed."""
    if admit is None or registration.batch is None:
        return None
    decision = admit(states_of(connection, registration.batch))
    store_states(connection, decision.changed)
    return decision.error
