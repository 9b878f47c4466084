"""Batches: read from what their rollouts add up to, at a cost that does not grow with them."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, func, select

from classifier.batch_summary import Named, NamedSlots
from classifier.batches import counted_check, picked, problems, slot_name
from classifier.rollup import Counts, Note, NoteKind, Shape, Shapes
from proxy.store import rollup, units
from proxy.store.connections import Connections
from proxy.store.derived import batch_notes, batch_servings, batch_shapes, batches, unjudged
from proxy.store.tables import rollouts, verdicts

LINES = 100  # of a check
RETRIES = 100  # rollouts to run again
_COUNTED = 10  # slots named in one line
_SERVINGS = 1000  # ways of being served that are compared, the most frequent ones
_SLOT_KINDS = (NoteKind.PROBLEM, NoteKind.PICKED)
_COUNTED_KINDS = (NoteKind.INVALID, NoteKind.SUSPECT)


class ServedAlike(NamedTuple):
    """Rollouts served alike: how (JSON text), how many, and ids of the first of them."""

    servings: str
    rollouts: int
    examples: Sequence[str]


class SummedBatch(NamedTuple):
    """A batch as it is summed up, in one snapshot.

    ``named`` and ``retry`` have the first of what a summary names; how many there are is in
    ``counts``. All of it is the same as long as the batch has the same version.
    """

    counts: Counts
    named: Named
    retry: Sequence[dict[str, Any]]
    shapes: Shapes
    served: Sequence[ServedAlike]


class BatchVersion(NamedTuple):
    """A number that grows whenever what a batch adds up to may have changed.

    ``began_at``: when its first rollout did; a batch of the same name that is made anew has
    another. ``waits``: a rollout of it may have to be judged.
    """

    number: int
    began_at: float
    waits: bool


def batch_version(connection: Connection, batch: str) -> BatchVersion | None:
    """Return a batch's version; None where it has no rollout."""
    waiting = select(unjudged.c.rollout_id).where(unjudged.c.batch == batch).exists()
    query = select(batches.c.version, batches.c.first_at, waiting)
    row = connection.execute(query.where(batches.c.batch == batch)).one_or_none()
    return None if row is None else BatchVersion(row[0], row[1], bool(row[2]))


class Batches:
    """Reads batches, and counts anew those that are marked."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def summed(self, batch: str) -> SummedBatch | None:
        """Return a batch as it is summed up; None where it has no rollout."""
        with self._connections.reading() as connection:
            row = _row(connection, batch)
            if row is not None and row.counts is not None:
                return _summed(connection, batch, row.counts)
            if row is None:
                return None
        self.count(batch)
        with self._connections.reading() as connection:
            row = _row(connection, batch)
            marked_again = row is None or row.counts is None
            counts = "{}" if marked_again else row.counts
            return None if row is None else _summed(connection, batch, counts)

    def count(self, batch: str) -> None:
        """Count a batch anew."""
        with self._connections.maintaining() as connection, connection.begin():
            rollup.count(connection, batch)

    def count_marked(self) -> int:
        """Count anew what is marked, each batch in its own transaction; returns how many."""
        with self._connections.reading() as connection:
            named = rollup.marked(connection)
        for batch in named:
            self.count(batch)
        return len(named)


def _row(connection: Connection, batch: str) -> Any:
    return connection.execute(select(batches).where(batches.c.batch == batch)).one_or_none()


def _summed(connection: Connection, batch: str, text: str) -> SummedBatch:
    counts: Counts = Counter(json.loads(text))
    return SummedBatch(
        counts=counts,
        named=_named(connection, batch, counts),
        retry=_retry(connection, batch) if counts["retry"] else (),
        shapes=_shapes(connection, batch),
        served=_served(connection, batch),
    )


def _named(connection: Connection, batch: str, counts: Counts) -> Named:
    of_slots = {kind: _notes(connection, batch, kind, LINES) for kind in _SLOT_KINDS}
    counted = {kind: _notes(connection, batch, kind, _COUNTED) for kind in _COUNTED_KINDS}
    notes = [note for several in (*of_slots.values(), *counted.values()) for note in several]
    entries = {
        name: attempt.entry
        for name, attempt in units.some_of(connection, batch, _ids(notes)).items()
    }
    lines: list[str] = []
    ordered = heapq.merge(*of_slots.values(), key=lambda note: (note.at, note.rollout_id))
    for note in ordered:
        entry = entries[note.rollout_id]
        if note.kind is NoteKind.PICKED:
            lines.append(picked(slot_name(entry)))
        else:
            lines += problems(entry, slot_name(entry))
    return Named(
        lines=lines[:LINES],
        picked=[slot_name(entries[note.rollout_id]) for note in of_slots[NoteKind.PICKED]],
        counted={
            kind.value: NamedSlots(
                [counted_check(entries[note.rollout_id]) for note in several],
                counts[f"counted:{kind}"],
            )
            for kind, several in counted.items()
            if several
        },
    )


def _notes(connection: Connection, batch: str, kind: NoteKind, limit: int) -> list[Note]:
    query = (
        select(batch_notes.c.at, batch_notes.c.rollout_id)
        .where(batch_notes.c.batch == batch, batch_notes.c.kind == kind.value)
        .order_by(batch_notes.c.at, batch_notes.c.rollout_id)
        .limit(limit)
    )
    return [Note(kind, at, rollout_id) for at, rollout_id in connection.execute(query)]


def _ids(notes: Iterable[Note]) -> set[str]:
    return {note.rollout_id for note in notes}


def _retry(connection: Connection, batch: str) -> list[dict[str, Any]]:
    """Return the first rollouts to run again, each with the advice of its verdict."""
    ids = [note.rollout_id for note in _notes(connection, batch, NoteKind.RETRY, RETRIES)]
    columns = (rollouts.c.id, rollouts.c.task, rollouts.c.repeat, rollouts.c.attempt)
    query = (
        select(*columns, verdicts.c.verdict)
        .join(verdicts, verdicts.c.rollout_id == rollouts.c.id)
        .where(rollouts.c.id.in_(ids))
    )
    rows = {row.id: row for row in connection.execute(query)}
    return [
        {
            "rollout_id": name,
            "task": row.task,
            "repeat": row.repeat,
            "attempt": row.attempt,
            **orjson.loads(row.verdict)["retry"],
        }
        for name in ids
        if (row := rows.get(name)) is not None
    ]


def _shapes(connection: Connection, batch: str) -> dict[Shape, int]:
    rows = connection.execute(select(batch_shapes).where(batch_shapes.c.batch == batch))
    return {
        Shape(row.repeats, row.kept, int(row.score), tuple(json.loads(row.lanes))): row.tasks
        for row in rows
    }


def outdated(connection: Connection, batch: str) -> int:
    """Count the rollouts of a batch that have changed since they were judged."""
    query = select(func.count()).where(unjudged.c.batch == batch)
    return connection.scalar(query) or 0


def _served(connection: Connection, batch: str) -> list[ServedAlike]:
    columns = (batch_servings.c.servings, batch_servings.c.rollouts, batch_servings.c.examples)
    query = (
        select(*columns)
        .where(batch_servings.c.batch == batch)
        .order_by(batch_servings.c.rollouts.desc(), batch_servings.c.digest)
        .limit(_SERVINGS)
    )
    return [ServedAlike(text, n, json.loads(ids)) for text, n, ids in connection.execute(query)]
