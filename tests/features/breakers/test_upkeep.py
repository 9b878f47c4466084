"""Breakers go with the last rollout of their batch, and are none of a process that dies."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from proxy.features.breakers.store import Breakers, store_states
from proxy.features.breakers.upkeep import on_dead_workers, on_deleted_rollouts
from proxy.store.database import Database
from proxy.store.tables import Registration, rollouts
from tests.features.breakers.test_store import opened


def deleted(connection: Connection, *names: str) -> None:
    connection.execute(delete(rollouts).where(rollouts.c.id.in_(names)))
    on_deleted_rollouts(connection, names, ["b"])


def test_breakers_go_with_the_last_rollout_of_their_batch(database: Database) -> None:
    for name in ("r1", "r2"):
        database.rollouts.register(Registration(id=name, batch="b"), now=1.0)
    stored = Breakers(database.connections)
    database.change(store_states, [opened("one"), opened("two"), opened("one", batch="other")])
    database.change(deleted, "r1")
    assert len(stored.of_batch("b")) == 2, "one rollout is left"
    database.change(deleted, "r2")
    assert stored.of_batch("b") == []
    assert len(stored.of_batch("other")) == 1, "another batch is asked of by itself"


def test_a_process_that_dies_changes_no_breaker(database: Database) -> None:
    database.change(store_states, [opened("one")])
    database.change(on_dead_workers, ["w"])
    assert Breakers(database.connections).of_batch("b") == [opened("one")]
