"""Keep what a batch's rollouts add up to, in the transactions that change one of them.

Whoever changes a rollout or its verdict does so inside of `changing`. Whoever changes whole
batches calls `mark`: they are counted anew by the next who asks, or by `count_marked`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import randbits
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from classifier.rollup import (
    Addend,
    Part,
    Shape,
    add,
    lacking_in,
    part_of,
)
from proxy.store import triggers, units
from proxy.store.batch_changes import (
    OF_BATCH,
    OF_BATCH_UPDATE,
    changes,
    served_row,
    shape_row,
)
from proxy.store.derived import (
    DERIVED,
    batch_notes,
    batch_servings,
    batch_shapes,
    batch_tasks,
    batches,
    unjudged,
)
from proxy.store.locks import Lock, hold
from proxy.store.statements import insert_into
from proxy.store.tables import rollouts, verdicts
from proxy.store.task_sums import as_text, task_row
from proxy.store.types import Write
from proxy.store.units import PLACE, Unit, attempts_of

_FOLLOWED = "rollouts, exchanges, open_calls, verdicts"
_SUMMED = (batch_notes, batch_tasks, batch_shapes, batch_servings)


# Made once: with each change of a rollout they are read twice, and making one takes longer.
_PLACES = select(*(rollouts.c[name] for name in PLACE)).where(
    rollouts.c.id.in_(bindparam("ids", expanding=True))
)
_Units: TypeAlias = dict[str, set[Unit]]  # by batch


@contextmanager
def changing(
    connection: Connection,
    ids: Collection[str],
    *,
    into: Sequence[tuple[str, Mapping[str, Any]]] = (),
    held: str | None = None,
) -> Iterator[None]:
    """Add what the body changes of some rollouts to their batches.

    Their batches are locked before anything is read: enter it before any other lock is taken.

    Arguments:
        into: columns that the body may give them, each with the rollout's id.
        held: another batch to lock.
    """
    places = _places(connection, ids, into)
    named = {batch for batch in (held, *(place["batch"] for place in places)) if batch is not None}
    lock(connection, named)
    if not named:
        yield
        return
    if connection.dialect.name != "sqlite":  # which has one writer: what was read still is so
        places = _places(connection, ids, into)
    within: _Units = {}
    for place in places:
        if place["batch"] is not None:
            within.setdefault(place["batch"], set()).add(Unit.of(place))
    before = {batch: attempts_of(connection, batch, of) for batch, of in within.items()}
    yield
    for batch, of in within.items():
        _add_change(connection, batch, before[batch], attempts_of(connection, batch, of))


def _places(
    connection: Connection, ids: Collection[str], into: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Return the batches and units that some rollouts are in, and those they may come into."""
    found = connection.execute(_PLACES, {"ids": list(ids)}).mappings()
    places: list[Mapping[str, Any]] = [dict(row) for row in found]
    known, nowhere = {place["id"]: place for place in places}, dict.fromkeys(PLACE)
    for name, given in into:
        wanted = {column: value for column, value in given.items() if column in PLACE}
        places.append({**nowhere, **known.get(name, {}), "id": name, **wanted})
    return places


# --- changes -----------------------------------------------------------------------------------


def _add_change(
    connection: Connection,
    batch: str,
    before: Sequence[Addend] | None,
    after: Sequence[Addend] | None,
) -> None:
    if before is None or after is None:
        mark(connection, [batch])
        return
    write(connection, list(changes(connection, batch, before, after)))


def write(connection: Connection, several: Iterable[Write]) -> None:
    """Write what `changes` said."""
    for statement, values in several:
        connection.execute(statement, values)


# --- counted anew --------------------------------------------------------------------------------


def recounted(connection: Connection, batch: str) -> Part:
    """Sum up a batch from its rows."""
    part = part_of(units.all_of(connection, batch))
    add(part.counts, lacking_in(part.tasks.values()))
    return part


def shapes_of(part: Part) -> Counter[Shape]:
    """Return the numbers of tasks alike in a whole batch."""
    return part.single + Counter(sums.shape for sums in part.tasks.values() if sums.repeats)


def count(connection: Connection, batch: str) -> None:
    """Count a batch anew; it is deleted where it has no rollout."""
    mark(connection, [batch])
    row = connection.execute(OF_BATCH, {"of": batch}).one_or_none()
    if row is None:
        return
    part = recounted(connection, batch)
    shapes = shapes_of(part)
    rows = (
        (batch_notes, [{"batch": batch, **note._asdict()} for note in part.notes]),
        (batch_tasks, [task_row(batch, *item) for item in part.tasks.items()]),
        (batch_shapes, [shape_row(batch, *item) for item in shapes.items()]),
        (batch_servings, [served_row(batch, t, len(ids), ids) for t, ids in part.served.items()]),
    )
    for table, several in rows:
        if several:
            connection.execute(insert(table), several)
    connection.execute(OF_BATCH_UPDATE, {"of": batch, "counts": as_text(part.counts)})


def lock(connection: Connection, named: Iterable[str]) -> None:
    """Have nobody else change these batches until the transaction ends."""
    for batch in sorted(named):
        hold(connection, Lock.BREAKERS, batch)


def mark(connection: Connection, named: Collection[str]) -> None:
    """Have batches counted anew; those without a rollout are deleted."""
    lock(connection, named)
    for table in _SUMMED:
        connection.execute(delete(table).where(table.c.batch.in_(named)))
    for batch in named:
        # By an index, however many there are.
        first, last = func.min(rollouts.c.created_at), func.max(rollouts.c.created_at)
        span = connection.execute(select(first, last).where(rollouts.c.batch == batch)).one()
        if span[0] is None:
            connection.execute(delete(batches).where(batches.c.batch == batch))
            continue
        values = {"first_at": span[0], "last_at": span[1], "counts": None}
        known = update(batches).where(batches.c.batch == batch)
        if not connection.execute(known.values(**values, version=batches.c.version + 1)).rowcount:
            connection.execute(insert(batches).values(batch=batch, version=1, **values))


def note_changed(connection: Connection, ids: Collection[str]) -> None:
    """Note that rollouts are to be judged which had a final verdict: of those, triggers do not."""
    query = select(rollouts.c.id, rollouts.c.batch).where(rollouts.c.id.in_(ids))
    for rollout_id, batch in connection.execute(query.order_by(rollouts.c.id)).all():
        row = {"rollout_id": rollout_id, "batch": batch, "change": randbits(62)}
        noted = insert_into(connection.dialect.name, unjudged).values(**row)
        again = noted.on_conflict_do_update(index_elements=["rollout_id"], set_=row)
        connection.execute(again)


def note_final(connection: Connection, ids: Collection[str]) -> None:
    """Note that the final verdicts of some rollouts stand, of which rows were written before."""
    final = select(verdicts.c.rollout_id).where(
        verdicts.c.rollout_id.in_(ids), verdicts.c.provisional.is_(False)
    )
    connection.execute(delete(unjudged).where(unjudged.c.rollout_id.in_(final)))


def derive(connection: Connection) -> None:
    """Have all that follows from other tables follow from them anew."""
    dialect = connection.dialect.name
    if dialect != "sqlite":  # which has one writer
        connection.exec_driver_sql(f"LOCK TABLE {_FOLLOWED} IN SHARE ROW EXCLUSIVE MODE")
    for table in DERIVED:
        connection.execute(delete(table))
    connection.exec_driver_sql(triggers.usage_fill(dialect))
    for statement in (triggers.MARK_ALL, triggers.NOTE_ALL):
        connection.exec_driver_sql(statement)


def marked(connection: Connection) -> list[str]:
    """List the batches that are to be counted anew."""
    query = select(batches.c.batch).where(batches.c.counts.is_(None))
    return list(connection.execute(query.order_by(batches.c.batch)).scalars())
