"""Rollouts: registered, reported and revoked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from classifier.records import Kind, RolloutRecord
from proxy.store.calls import calls_of
from proxy.store.closings import add_closing, closing_of
from proxy.store.connections import Connections
from proxy.store.deployment import outage_until
from proxy.store.derived import unjudged
from proxy.store.registrations import Enrolment, fill_in, policy_of, register, terms
from proxy.store.rollup import changing
from proxy.store.statements import add
from proxy.store.tables import exchanges, open_calls, rollouts
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
            admit, policy: as in `Enrolment`.
        """
        asked = Enrolment(registration=registration, admit=admit, policy=policy)
        return self.register_all([asked], now=now)[0]

    def register_all(self, asked: Sequence[Enrolment], *, now: float) -> list[Registered]:
        """Register rollouts in one transaction, in their order."""
        with self._connections.writing() as connection:
            return register(connection, asked, now=now)

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
            changing(connection, [rollout_id], into=[(rollout_id, attributes)]),
        ):
            row = _row(connection, rollout_id, locked=True)
            if row is None and registers:
                fresh = {"id": rollout_id, "registered": True, "created_at": now, **attributes}
                fresh |= _terms(connection, None, attributes.get("batch"), policy)
                add(connection, rollouts, fresh)  # or its first call does, in another process
                row = _row(connection, rollout_id, locked=True)
            if row is None:
                return Reported()
            standing = row["outcome"]
            if any(row[name] != value for name, value in attributes.items()):
                if row["registered"] or standing is not None:
                    return Reported(outcome=standing or outcome, conflict=True)
                judged = _terms(connection, row, attributes.get("batch"), policy)
                fill_in(connection, {rollout_id: {**attributes, **judged}})
            closing = None
            if standing is None:
                gaps = row["gaps"] + _cut_off(connection, row)
                _update(connection, rollout_id, outcome=outcome, outcome_at=now, gaps=gaps)
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
            skipped=row["skipped"],
            validity=row["validity"],
            max_steps=row["max_steps"],
            content_filter=row["content_filter"],
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


def _terms(
    connection: Connection, row: Row | None, batch: str | None, policy: PolicyTerms
) -> dict[str, str | None]:
    standing = policy_of(connection, batch) if batch is not None else row or {}
    return terms({name: standing.get(name) for name in POLICY_COLUMNS}, policy)


def _update(connection: Connection, rollout_id: str, **values: Any) -> None:
    connection.execute(update(rollouts).where(rollouts.c.id == rollout_id).values(**values))


def _revoke(connection: Connection, rollout_id: str, at: float) -> None:
    earlier = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > at)
    connection.execute(
        update(rollouts).where(rollouts.c.id == rollout_id, earlier).values(revoked_at=at)
    )


def _cut_off(connection: Connection, row: Row) -> bool:
    """Whether an outage came where the agent was to call again, and it did not afterwards.

    Its last answer asked for tools; the call with their results may have met no service.
    """
    until = outage_until(connection)
    if row["created_at"] >= until:
        return False
    theirs = exchanges.c.rollout_id == row["id"]
    own = (exchanges.c.role == "agent") & (exchanges.c.kind == Kind.INFERENCE)
    last = connection.execute(
        select(exchanges.c.started_at, exchanges.c.tool_calls)
        .where(theirs, own)
        .order_by(exchanges.c.started_at.desc())
        .limit(1)
    ).one_or_none()
    if last is None or not last.tool_calls or last.started_at >= until:
        return False
    calling = select(open_calls.c.id).where(open_calls.c.rollout_id == row["id"]).limit(1)
    return connection.scalar(calling) is None
