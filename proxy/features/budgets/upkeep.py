"""The end of budgets and reservations, as rollouts are deleted and processes die."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, exists, select

from classifier.records import Ending
from proxy.features.budgets.store import settle
from proxy.features.budgets.tables import BATCH, ROLLOUT, budgets, reservations, waiting_calls
from proxy.store.tables import exchanges, rollouts


def on_dead_workers(connection: Connection, dead: Sequence[str]) -> None:
    """Settle what calls of dead workers reserved: as spent if the call is on record."""
    theirs = reservations.c.worker.in_(dead)
    known = select(exchanges.c.id).where(
        exchanges.c.rollout_id == reservations.c.rollout_id,
        exchanges.c.id == reservations.c.id,
        exchanges.c.ending != Ending.LOST.value,
    )
    settle(connection, theirs & known.exists(), {})
    connection.execute(delete(reservations).where(theirs))
    connection.execute(delete(waiting_calls).where(waiting_calls.c.worker.in_(dead)))


def on_deleted_rollouts(
    connection: Connection, gone: Collection[str], batches: Collection[str]
) -> None:
    """Delete the budgets of rollouts that are gone, and of those batches that have none left."""
    left = exists().where(rollouts.c.batch == budgets.c.name)
    of_rollouts = (budgets.c.kind == ROLLOUT) & budgets.c.name.in_(gone)
    of_batches = (budgets.c.kind == BATCH) & budgets.c.name.in_(batches) & ~left
    connection.execute(delete(budgets).where(of_rollouts | of_batches))
