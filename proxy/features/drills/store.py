"""The rollouts that are drilled, and how many of their calls were."""

from __future__ import annotations

from sqlalchemy import select, update

from proxy.store.connections import Connections
from proxy.store.tables import rollouts


class Drills:
    """Reads and writes the columns ``fault`` and ``fault_calls`` of the table `rollouts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def drilled(self) -> frozenset[str]:
        """Return rollouts without an outcome that have faults to inject."""
        query = select(rollouts.c.id).where(
            rollouts.c.fault.is_not(None), rollouts.c.outcome_at.is_(None)
        )
        with self._connections.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def next_call(self, rollout_id: str) -> int:
        """Count one more call of a drilled rollout; returns its number, from 1 across processes."""
        counted = (
            update(rollouts)
            .where(rollouts.c.id == rollout_id)
            .values(fault_calls=rollouts.c.fault_calls + 1)
            .returning(rollouts.c.fault_calls)
        )
        with self._connections.writing() as connection:
            return int(connection.execute(counted).scalar_one())
