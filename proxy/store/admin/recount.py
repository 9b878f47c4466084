"""Check what is summed up against the rows it follows from, and sum it up anew."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select, text

from classifier.rollup import Note, NoteKind, Part, Shape
from proxy.store import rollup, triggers
from proxy.store.database import Database
from proxy.store.derived import batch_notes, batch_servings, batch_shapes, batch_tasks, batches
from proxy.store.tables import rollouts
from proxy.store.task_sums import task_sums

_KEYS = ("batch", *triggers.KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """Which batches do not add up, in their calls and in their rollouts; "" is no batch."""

    checked: int
    calls: tuple[str, ...] = ()
    rollouts: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether all add up."""
        return not (self.calls or self.rollouts)


def check(connection: Connection, progress: Callable[[str], None] = lambda _batch: None) -> Recount:
    """Count all calls and rollouts, and compare them with what is kept, in one snapshot."""
    wrong: list[str] = []
    named = _batches(connection)
    for batch in named:
        progress(batch)
        if not _adds_up(connection, batch):
            wrong.append(batch)
    calls = connection.execute(text(_wrong_calls(connection.dialect.name))).scalars()
    return Recount(checked=len(named), calls=tuple(sorted(calls)), rollouts=tuple(wrong))


def recount(database: Database) -> int:
    """Sum up everything anew, each batch in its own transaction; returns how many batches.

    Summaries are right at any moment: what was not counted yet is counted when it is read.
    """
    database.change(rollup.derive)
    return database.batches.count_marked()


def _batches(connection: Connection) -> list[str]:
    seen = select(rollouts.c.batch).where(rollouts.c.batch.is_not(None))
    return sorted(connection.execute(seen.union(select(batches.c.batch))).scalars())


def _wrong_calls(dialect: str) -> str:
    keys, sums = ", ".join(_KEYS), ", ".join(f"sum({name})" for name in triggers.SUMS)
    kept = (
        f"SELECT {keys}, 0, {sums} FROM call_usage GROUP BY {keys}"
        f" HAVING {' OR '.join(f'sum({name}) <> 0' for name in triggers.SUMS)}"
    )
    counted = triggers.usage_query(dialect)
    both = (f"SELECT * FROM ({a}) AS one EXCEPT SELECT * FROM ({b}) AS other"
            for a, b in ((kept, counted), (counted, kept)))  # fmt: skip
    return " UNION ".join(f"SELECT batch FROM ({each}) AS wrong" for each in both)


def _adds_up(connection: Connection, batch: str) -> bool:
    row = connection.execute(select(batches).where(batches.c.batch == batch)).one_or_none()
    if row is not None and row.counts is None:  # it will be counted
        return True
    counted = rollup.recounted(connection, batch)
    kept = _kept(connection, batch, "{}" if row is None else row.counts)
    return (
        kept.counts == counted.counts
        and kept.notes == counted.notes
        and kept.tasks == counted.tasks
        and _shapes(connection, batch) == rollup.shapes_of(counted)
        and all(_served(connection, batch, counted))
    )


def _kept(connection: Connection, batch: str, counts: str) -> Part:
    notes = select(batch_notes.c.kind, batch_notes.c.at, batch_notes.c.rollout_id)
    tasks = connection.execute(select(batch_tasks).where(batch_tasks.c.batch == batch))
    return Part(
        counts=Counter(json.loads(counts)),
        notes={
            Note(NoteKind(kind), at, rollout_id)
            for kind, at, rollout_id in connection.execute(
                notes.where(batch_notes.c.batch == batch)
            )
        },
        tasks={row.task: task_sums(row) for row in tasks},
    )


def _shapes(connection: Connection, batch: str) -> Counter[Shape]:
    rows = connection.execute(select(batch_shapes).where(batch_shapes.c.batch == batch))
    return Counter(
        {
            Shape(row.repeats, row.kept, int(row.score), tuple(json.loads(row.lanes))): row.tasks
            for row in rows
        }
    )


def _served(connection: Connection, batch: str, counted: Part) -> Iterator[bool]:
    query = select(batch_servings).where(batch_servings.c.batch == batch)
    rows = {row.servings: row for row in connection.execute(query)}
    yield rows.keys() == counted.served.keys()
    for servings, row in rows.items():
        ids = counted.served.get(servings, set())
        yield row.rollouts == len(ids) and ids.issuperset(json.loads(row.examples))
