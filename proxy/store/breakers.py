"""The circuit breakers of batches, one row for each lane."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from classifier.breakers import BreakerState, Phase
from proxy.store.connections import Connections
from proxy.store.locks import Lock, hold
from proxy.store.tables import breakers
from proxy.store.types import as_json


class Breakers:
    """Reads and resets the breakers of a batch."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def of_batch(self, batch: str) -> list[BreakerState]:
        """Return the breakers of a batch, by lane."""
        with self._connections.reading() as connection:
            return states_of(connection, batch)

    def reset(
        self, batch: str, reset: Callable[[BreakerState], BreakerState], *, lane: str | None
    ) -> list[BreakerState]:
        """Reset one lane's breaker or all of a batch; returns them as they are now."""
        with self._connections.writing() as connection:
            hold(connection, Lock.BREAKERS, batch)
            states = states_of(connection, batch)
            changed = [reset(state) for state in states if lane in (None, state.lane)]
            store_states(connection, changed)
        return self.of_batch(batch)


def states_of(connection: Connection, batch: str) -> list[BreakerState]:
    """Return the breakers of a batch, by lane, inside a transaction."""
    query = select(breakers.c.state).where(breakers.c.batch == batch).order_by(breakers.c.lane)
    return [decode_state(row[0]) for row in connection.execute(query)]


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
