"""Batches, rollouts and fingerprints by a part of their name."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select

from proxy.store.derived import batches
from proxy.store.tables import rollouts, verdicts


def find_batches(connection: Connection, text: str, *, limit: int) -> list[str]:
    """List batches whose name contains a text, in any case, the latest first."""
    named = batches.c.batch.icontains(text, autoescape=True)
    query = select(batches.c.batch).where(named).order_by(batches.c.last_at.desc(), batches.c.batch)
    return list(connection.execute(query.limit(limit)).scalars())


def find_fingerprints(connection: Connection, text: str, *, limit: int) -> list[str]:
    """List fingerprints of verdicts that contain a text, in any case."""
    named = verdicts.c.fingerprint.icontains(text, autoescape=True)
    query = select(verdicts.c.fingerprint).where(named).distinct()
    return list(connection.execute(query.order_by(verdicts.c.fingerprint).limit(limit)).scalars())


def find_rollouts(connection: Connection, text: str, *, limit: int) -> list[str]:
    """List rollouts whose id or task contains a text, in any case, the newest first."""
    columns = (rollouts.c.id, rollouts.c.task)
    named = or_(*(column.icontains(text, autoescape=True) for column in columns))
    query = (
        select(rollouts.c.id)
        .where(named)
        .order_by(rollouts.c.created_at.desc(), rollouts.c.id.desc())
    )
    return list(connection.execute(query.limit(limit)).scalars())


def has_rollout(connection: Connection, name: str) -> bool:
    """Return whether a rollout has exactly this id."""
    return connection.scalar(select(rollouts.c.id).where(rollouts.c.id == name)) is not None
