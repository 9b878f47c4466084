"""The rollouts that virtual keys belong to."""

from __future__ import annotations

from sqlalchemy import Connection, select

from proxy.store.tables import rollouts


def aliased(connection: Connection, alias: str, *, now: float) -> list[str]:
    """List rollouts minted under an alias whose keys are still valid, oldest first."""
    named = (rollouts.c.id == alias) | (
        (rollouts.c.task == alias) & rollouts.c.id.startswith(f"{alias}.", autoescape=True)
    )
    alive = rollouts.c.revoked_at.is_(None) | (rollouts.c.revoked_at > now)
    query = select(rollouts.c.id).where(named, alive, rollouts.c.outcome_at.is_(None))
    return list(connection.execute(query.order_by(rollouts.c.created_at)).scalars())
