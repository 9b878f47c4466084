"""What is to be written of a batch when some of its rollouts change: read, and not written yet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, select, update

from classifier.rollup import Addend, Note, Part, Shape, Shapes, add, difference, part_of
from proxy.store.derived import batch_notes, batch_servings, batch_shapes, batches
from proxy.store.task_sums import as_text, change_tasks
from proxy.store.types import Write

EXAMPLES = 10  # ids that are kept of rollouts served alike

OF_BATCH = select(batches).where(batches.c.batch == bindparam("of"))
OF_BATCH_UPDATE = update(batches).where(batches.c.batch == bindparam("of"))


def changes(
    connection: Connection, batch: str, before: Sequence[Addend], after: Sequence[Addend]
) -> Iterator[Write]:
    """Yield what is to be written of a batch, some of whose units change so; reads only."""
    if before == after:
        return
    old, new = part_of(before), part_of(after)
    known = connection.execute(OF_BATCH, {"of": batch}).one_or_none()
    began = [attempt.at for attempt in after]
    if known is not None:
        began += (known.first_at, known.last_at)
    span = {"first_at": min(began), "last_at": max(began)}
    if known is not None and (known.counts is None or old == new):
        yield OF_BATCH_UPDATE, {"of": batch, "version": known.version + 1, **span}
        return
    counts, tasks = difference(old, new)
    changed = change_tasks(connection, batch, tasks)
    yield from changed.writes
    total = Counter(json.loads(known.counts)) if known is not None else Counter[str]()
    add(total, counts)
    add(total, changed.lacking)
    values = {**span, "counts": as_text(total)}
    if known is None:
        yield insert(batches), {"batch": batch, "version": 1, **values}
    else:
        yield OF_BATCH_UPDATE, {"of": batch, "version": known.version + 1, **values}
    yield from _change_notes(batch, old, new)
    shapes = changed.shapes
    add(shapes, new.single)
    add(shapes, old.single, -1)
    yield from _change_shapes(connection, batch, shapes)
    for text in sorted(old.served.keys() | new.served.keys()):
        left, come = old.served.get(text, set()), new.served.get(text, set())
        if left != come:
            yield _change_served(connection, batch, text, left - come, come - left)


def _change_notes(batch: str, old: Part, new: Part) -> Iterator[Write]:
    removed = [{"of": batch, **_named(note)} for note in old.notes - new.notes]
    if removed:
        yield _NO_NOTE, removed
    added = [{"batch": batch, **note._asdict()} for note in new.notes - old.notes]
    if added:
        yield insert(batch_notes), added


def _named(note: Note) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in note._asdict().items()}


_NO_NOTE = delete(batch_notes).where(
    batch_notes.c.batch == bindparam("of"),
    *(batch_notes.c[name] == bindparam(f"of_{name}") for name in Note._fields),
)


def _change_shapes(connection: Connection, batch: str, shapes: Shapes) -> Iterator[Write]:
    rows = {shape: shape_row(batch, shape, tasks) for shape, tasks in shapes.items()}
    if not rows:
        return
    digests = [row["digest"] for row in rows.values()]
    found = connection.execute(_SHAPES, {"of": batch, "digests": digests})
    known = {row.digest: row.tasks for row in found}
    added, changed, removed = [], [], []
    for row in rows.values():
        before = known.get(row["digest"])
        place = {"of": batch, "of_digest": row["digest"]}
        if before is None:
            added.append(row)
        elif before + row["tasks"]:
            changed.append({**place, "tasks": before + row["tasks"]})
        else:
            removed.append(place)
    if added:
        yield insert(batch_shapes), added
    if changed:
        yield update(batch_shapes).where(_SHAPE), changed
    if removed:
        yield delete(batch_shapes).where(_SHAPE), removed


_SHAPE = and_(
    batch_shapes.c.batch == bindparam("of"), batch_shapes.c.digest == bindparam("of_digest")
)
_SHAPES = select(batch_shapes.c.digest, batch_shapes.c.tasks).where(
    batch_shapes.c.batch == bindparam("of"),
    batch_shapes.c.digest.in_(bindparam("digests", expanding=True)),
)


def shape_row(batch: str, shape: Shape, tasks: int) -> dict[str, Any]:
    """Return a number of tasks alike as a row of `batch_shapes`."""
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
) -> Write:
    digest = _digest(text)
    same = and_(batch_servings.c.batch == batch, batch_servings.c.digest == digest)
    row = connection.execute(select(batch_servings).where(same)).one_or_none()
    count = (0 if row is None else row.rollouts) + len(come) - len(left)
    known = set() if row is None else set(json.loads(row.examples))
    values = served_row(batch, text, count, (known | come) - left)
    if row is None:
        return insert(batch_servings), values
    return (update(batch_servings).where(same), values) if count else (
        delete(batch_servings).where(same), None
    )  # fmt: skip


def served_row(batch: str, text: str, count: int, ids: Iterable[str]) -> dict[str, Any]:
    """Return rollouts served alike as a row of `batch_servings`."""
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
