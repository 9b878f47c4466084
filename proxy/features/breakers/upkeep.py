"""The end of breakers, as the last rollouts of their batch are deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, exists

from proxy.features.breakers.tables import breakers
from proxy.store.tables import rollouts


def on_dead_workers(_connection: Connection, _dead: Sequence[str]) -> None:
    """Do nothing: a probe of a dead process is forgotten in time, as any other."""


def on_deleted_rollouts(
    connection: Connection, _gone: Collection[str], batches: Collection[str]
) -> None:
    """Delete the breakers of those batches that have no rollout left."""
    left = exists().where(rollouts.c.batch == breakers.c.batch)
    connection.execute(delete(breakers).where(breakers.c.batch.in_(batches), ~left))
