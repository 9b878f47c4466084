"""Keep what a batch's rollouts add up to, in the transactions that change one of them.

Whoever changes a rollout or its verdict does so inside of `changing`. Whoever changes whole
batches calls `mark`: they are counted anew by the next who asks, or by `count_marked`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from secrets import randbits
from typing import Any, TypeAlias

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from classifier.rollup import (
    Addend,
    Part,
    Shape,
    Shapes,
    add,
    difference,
    lacking_in,
    part_of,
)
from proxy.store import triggers, units
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
from proxy.store.task_sums import as_text, change_tasks, task_row
from proxy.store.units import PLACE, Unit, attempts_of

_FOLLOWED = "rollouts, exchanges, open_calls, verdicts"
EXAMPLES = 10  # ids that are kept of rollouts served alike
_SUMMED = (batch_notes, batch_tasks, batch_shapes, batch_servings)


# Made once: with each change of a rollout they are read twice, and making one takes longer.
_PLACES = select(*(rollouts.c[name] for name in PLACE)).where(
    rollouts.c.id.in_(bindparam("ids", expanding=True))
)
_BATCH = select(batches).where(batches.c.batch == bindparam("of"))

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
    if before == after:
        return
    old, new = part_of(before), part_of(after)
    known = connection.execute(_BATCH, {"of": batch}).one_or_none()
    began = [attempt.at for attempt in after]
    if known is not None:
        began += (known.first_at, known.last_at)
    span = {"first_at": min(began), "last_at": max(began)}
    if known is not None and (known.counts is None or old == new):
        _write(connection, batch, version=known.version + 1, **span)
        return
    counts, tasks = difference(old, new)
    changed = change_tasks(connection, batch, tasks)
    total = Counter(json.loads(known.counts)) if known is not None else Counter[str]()
    add(total, counts)
    add(total, changed.lacking)
    values = {**span, "counts": as_text(total)}
    if known is None:
        connection.execute(insert(batches).values(batch=batch, version=1, **values))
    else:
        _write(connection, batch, version=known.version + 1, **values)
    _change_notes(connection, batch, old, new)
    shapes = changed.shapes
    add(shapes, new.single)
    add(shapes, old.single, -1)
    _change_shapes(connection, batch, shapes)
    for text in sorted(old.served.keys() | new.served.keys()):
        left, come = old.served.get(text, set()), new.served.get(text, set())
        if left != come:
            _change_served(connection, batch, text, left - come, come - left)


def _write(connection: Connection, batch: str, **values: Any) -> None:
    own = update(batches).where(batches.c.batch == bindparam("of"))
    connection.execute(own, {"of": batch, **values})


def _change_notes(connection: Connection, batch: str, old: Part, new: Part) -> None:
    for note in old.notes - new.notes:
        same = (batch_notes.c[name] == value for name, value in note._asdict().items())
        connection.execute(delete(batch_notes).where(batch_notes.c.batch == batch, *same))
    added = [{"batch": batch, **note._asdict()} for note in new.notes - old.notes]
    if added:
        connection.execute(insert(batch_notes), added)


def _change_shapes(connection: Connection, batch: str, shapes: Shapes) -> None:
    for shape, tasks in shapes.items():
        row = _shape_row(batch, shape, tasks)
        same = and_(batch_shapes.c.batch == batch, batch_shapes.c.digest == row["digest"])
        more = update(batch_shapes).where(same).values(tasks=batch_shapes.c.tasks + tasks)
        left = connection.execute(more.returning(batch_shapes.c.tasks)).scalar_one_or_none()
        if left is None:
            connection.execute(insert(batch_shapes).values(**row))
        elif left == 0:
            connection.execute(delete(batch_shapes).where(same))


def _shape_row(batch: str, shape: Shape, tasks: int) -> dict[str, Any]:
    lanes = json.dumps(shape.lanes)
    return {
        "batch": batch,
        "digest": _digest(f"{shape.repeats} {shape.kept} {shape.score} {lanes}"),
        "repeats": shape.repeats,
        "kept": shape.kept,
        "score": str(shape.score),
        "lanes": lanes,
        "tasks": tasks,
    }


def _change_served(
    connection: Connection, batch: str, text: str, left: set[str], come: set[str]
) -> None:
    digest = _digest(text)
    same = and_(batch_servings.c.batch == batch, batch_servings.c.digest == digest)
    row = connection.execute(select(batch_servings).where(same)).one_or_none()
    count = (0 if row is None else row.rollouts) + len(come) - len(left)
    known = set() if row is None else set(json.loads(row.examples))
    values = _served_row(batch, text, count, (known | come) - left)
    connection.execute(
        delete(batch_servings).where(same)
        if not count
        else insert(batch_servings).values(**values)
        if row is None
        else update(batch_servings).where(same).values(**values)
    )


def _served_row(batch: str, text: str, count: int, ids: Iterable[str]) -> dict[str, Any]:
    examples = json.dumps(sorted(ids)[:EXAMPLES])
    return {
        "batch": batch,
        "digest": _digest(text),
        "servings": text,
        "rollouts": count,
        "examples": examples,
    }


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


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
    row = connection.execute(_BATCH, {"of": batch}).one_or_none()
    if row is None:
        return
    part = recounted(connection, batch)
    shapes = shapes_of(part)
    rows = (
        (batch_notes, [{"batch": batch, **note._asdict()} for note in part.notes]),
        (batch_tasks, [task_row(batch, *item) for item in part.tasks.items()]),
        (batch_shapes, [_shape_row(batch, *item) for item in shapes.items()]),
        (batch_servings, [_served_row(batch, t, len(ids), ids) for t, ids in part.served.items()]),
    )
    for table, several in rows:
        if several:
            connection.execute(insert(table), several)
    _write(connection, batch, counts=as_text(part.counts))


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
