"""A batch's version: a number that each transaction raises which changes a rollout of it.

Whatever is computed of a batch holds as long as the version does, in every process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, delete, func, literal, select

from proxy.store.connections import Lock, hold_all
from proxy.store.tables import OfIds, batches, insert_into, rollouts, unjudged


class BatchVersion(NamedTuple):
    """A number that grows whenever what a batch adds up to may have changed.

    ``began_at``: when its first rollout did; a batch of the same name that is made anew has
    another. ``waits``: a rollout of it may have to be judged.
    """

    number: int
    began_at: float
    waits: bool


def batch_version(connection: Connection, batch: str) -> BatchVersion | None:
    """Return a batch's version; None if it has no rollout."""
    return batch_versions(connection, [batch]).get(batch)


def batch_versions(connection: Connection, named: Collection[str]) -> dict[str, BatchVersion]:
    """Return the versions of those batches that have a rollout."""
    waiting = select(unjudged.c.rollout_id).where(unjudged.c.batch == batches.c.batch).exists()
    query = select(batches.c.batch, batches.c.version, batches.c.first_at, waiting)
    rows = connection.execute(query.where(batches.c.batch.in_(named)))
    return {name: BatchVersion(number, at, bool(waits)) for name, number, at, waits in rows}


@contextmanager
def changing(
    connection: Connection,
    ids: Collection[str],
    *,
    into: Iterable[str | None] = (),
    stay: bool = False,
    verdicts: bool = False,
) -> Iterator[None]:
    """Raise the versions of the batches of some rollouts, which the body changes.

    On PostgreSQL the batches are locked first: enter it before any other lock is taken.

    Arguments:
        into: batches that the body may put them in.
        stay: they are in those, and registered: no other writer puts them elsewhere.
        verdicts: the body writes their verdicts, which are locked too.
    """
    if connection.dialect.name != "sqlite":  # which has one writer
        found = () if stay else _batches_of(connection, ids)
        keys = _keys({*found, *into} - {None})
        if verdicts:
            keys += [Lock.VERDICT.key(each) for each in sorted(ids)]
        hold_all(connection, keys)
    yield
    _raise(connection.dialect.name).execute(connection, ids)


def _batches_of(connection: Connection, ids: Collection[str]) -> set[str | None]:
    return set(_BATCHES.execute(connection, ids).scalars())


_BATCHES = OfIds(lambda among: select(rollouts.c.batch).where(among(rollouts.c.id)).distinct())


@cache  # made once: to make it takes longer than to run it
def _raise(dialect: str) -> OfIds:
    placed = rollouts.c.batch.is_not(None)
    return OfIds(lambda among: _raising(dialect, among(rollouts.c.id), placed))


def _raising(dialect: str, *which: Any) -> Any:
    """Make the statement that raises the versions of these rollouts' batches, new ones to 1."""
    first, last = func.min(rollouts.c.created_at), func.max(rollouts.c.created_at)
    spans = select(rollouts.c.batch, first, last, literal(1)).where(*which)
    # In one order, or two writers could wait for each other.
    spans = spans.group_by(rollouts.c.batch).order_by(rollouts.c.batch)
    made = insert_into(dialect, batches)
    made = made.from_select(["batch", "first_at", "last_at", "version"], spans)
    new, old = made.excluded, batches.c
    return made.on_conflict_do_update(
        index_elements=["batch"],
        set_={
            "version": old.version + 1,
            "first_at": case((new.first_at < old.first_at, new.first_at), else_=old.first_at),
            "last_at": case((new.last_at > old.last_at, new.last_at), else_=old.last_at),
        },
    )


def lock(connection: Connection, named: Iterable[Any]) -> None:
    """Lock these batches until the transaction ends."""
    hold_all(connection, _keys(named))


def _keys(named: Iterable[Any]) -> list[int]:
    return [Lock.BATCH.key(batch) for batch in sorted(named)]


def note_changed(connection: Connection, named: Collection[str]) -> None:
    """Raise the versions of batches of which rollouts were added or deleted in bulk.

    A batch without a rollout is deleted; of the others the span is read anew.
    """
    lock(connection, named)
    for batch in named:
        # By an index, however many there are.
        first, last = func.min(rollouts.c.created_at), func.max(rollouts.c.created_at)
        span = connection.execute(select(first, last).where(rollouts.c.batch == batch)).one()
        if span[0] is None:
            connection.execute(delete(batches).where(batches.c.batch == batch))
            continue
        row = {"batch": batch, "first_at": span[0], "last_at": span[1], "version": 1}
        changed = {**row, "version": batches.c.version + 1}
        noted = insert_into(connection.dialect.name, batches).values(**row)
        connection.execute(noted.on_conflict_do_update(index_elements=["batch"], set_=changed))
