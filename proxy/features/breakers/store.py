"""Breakers in the database: one row for each lane of a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from classifier.breakers import BreakerState, Phase, at
from proxy.features.breakers.tables import breakers
from proxy.store.connections import Connections, Lock, hold
from proxy.store.tables import IDS, as_json, rollouts, verdicts
from truezero.printable import repeat_name


class Breakers:
    """Reads and resets the breakers of a batch, and lists the rollouts that they skipped."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def of_batch(self, batch: str) -> list[BreakerState]:
        """Return the breakers of a batch, by lane."""
        with self._connections.reading() as connection:
            return states_of(connection, batch)

    def opened(self, *, since: float, now: float) -> list[BreakerState]:
        """Return the breakers that opened after ``since`` and are open or half-open now."""
        query = select(breakers.c.state).where(breakers.c.state.like('%"phase":"%open"%'))
        with self._connections.reading() as connection:
            states = [decode_state(text) for text in connection.execute(query).scalars()]
        return [
            state
            for state in states
            if (state.opened_at or 0.0) >= since and at(state, now).phase != Phase.CLOSED
        ]

    def failed_alike(self, state: BreakerState, *, limit: int) -> list[str]:
        """Return the rollouts that failed as a breaker's streak did, the oldest first."""
        query = (
            select(verdicts.c.rollout_id)
            .where(
                verdicts.c.batch == state.batch,
                verdicts.c.fingerprint == state.fingerprint,
                verdicts.c.lane == state.lane,
            )
            .order_by(verdicts.c.began_at, verdicts.c.rollout_id)
            .limit(limit)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def not_admitted(self, batch: str, *, limit: int) -> list[tuple[str, str]]:
        """Return the rollouts of a batch that its breakers skipped, and why, the oldest first."""
        query = (
            select(rollouts.c.id, rollouts.c.skipped)
            .where(rollouts.c.batch == batch, rollouts.c.skipped.is_not(None))
            .order_by(rollouts.c.created_at, rollouts.c.id)
            .limit(limit)
        )
        with self._connections.reading() as connection:
            return [(row.id, row.skipped) for row in connection.execute(query)]

    def names(self, rollout_ids: Collection[str]) -> dict[str, str]:
        """Return the display names of rollouts that have a task: the task and the repeat."""
        columns = rollouts.c.id, rollouts.c.task, rollouts.c.repeat
        query = select(*columns).where(rollouts.c.id.in_(IDS), rollouts.c.task.is_not(None))
        with self._connections.reading() as connection:
            rows = connection.execute(query, {"ids": list(rollout_ids)}).all()
        return {row.id: repeat_name(row.task, row.repeat) or row.id for row in rows}

    def reset(
        self, batch: str, reset: Callable[[BreakerState], BreakerState], *, lane: str | None
    ) -> list[BreakerState]:
        """Reset one lane's breaker or all of a batch; returns them as they are now."""
        with self._connections.writing() as connection:
            hold(connection, Lock.BATCH, batch)
            states = states_of(connection, batch)
            changed = [reset(state) for state in states if lane in (None, state.lane)]
            store_states(connection, changed)
        return self.of_batch(batch)


def states_of(connection: Connection, batch: str) -> list[BreakerState]:
    """Return the breakers of a batch, by lane, inside a transaction."""
    return [decode_state(row[0]) for row in connection.execute(_STATES, {"of": batch})]


_STATES = (
    select(breakers.c.state).where(breakers.c.batch == bindparam("of")).order_by(breakers.c.lane)
)


def store_states(connection: Connection, states: Iterable[BreakerState]) -> None:
    """Replace breakers by batch and lane."""
    for state in states:
        key = (breakers.c.batch == state.batch) & (breakers.c.lane == state.lane)
        connection.execute(delete(breakers).where(key))
        connection.execute(
            insert(breakers).values(
                batch=state.batch, lane=state.lane, state=as_json(asdict(state))
            )
        )


def decode_state(stored: str) -> BreakerState:
    """Decode the column ``state``."""
    fields: dict[str, Any] = json.loads(stored)
    tripped_by = tuple(fields.pop("tripped_by"))
    return BreakerState(phase=Phase(fields.pop("phase")), tripped_by=tripped_by, **fields)
