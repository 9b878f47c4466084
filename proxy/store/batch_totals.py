"""Batch totals: what a batch's rollouts add up to, kept in the transactions that change them.

Change a rollout or its verdict inside `updating_totals`. After a change to whole batches call
`invalidate`: the next reader, or `count_invalidated`, counts them anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from hashlib import blake2b
from secrets import randbits
from typing import Any, NamedTuple, TypeAlias, cast

import orjson
from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.types import NULLTYPE

from classifier import codec
from classifier.batches import Entry, reward_in
from classifier.diagnostics import Diagnostic, diagnose
from classifier.groups import TaskTotal
from classifier.rollup import (
    UNIT,
    CountedRollout,
    Counts,
    Note,
    PartialTotals,
    Shapes,
    TaskProfile,
    TaskSums,
    add,
    difference,
    lacking_in,
    part_of,
)
from classifier.sentences import told
from classifier.verdicts import AttributedTo
from proxy.store import schema
from proxy.store.connections import Lock, hold
from proxy.store.tables import (
    DERIVED,
    ENTRY_COLUMNS,
    JOINED,
    Write,
    batch_notes,
    batch_servings,
    batch_shapes,
    batch_tasks,
    batches,
    insert_into,
    rollouts,
    unjudged,
    verdicts,
)

# --- units: the rollouts that decide together what counts --------------------------------------


PLACE = ("id", "batch", "task", "repeat", "attempt")  # columns that say which unit a rollout is of
_LARGEST = 2000  # rollouts of one unit; a larger one is not summed again with each change


class RepeatKey(NamedTuple):
    """Rollouts that decide together what counts: of one repeat of a task, or a single one."""

    task: str | None
    repeat: int | None
    rollout_id: str | None = None

    @classmethod
    def of(cls, place: Mapping[str, Any]) -> RepeatKey:
        """Return the unit of a rollout's columns, as `classifier.rollup.sample_of` does."""
        if place["task"] is None or (place["repeat"] is None and place["attempt"] is None):
            return cls(None, None, place["id"])
        return cls(place["task"], place["repeat"])


def attempts_of(
    connection: Connection, batch: str, units: set[RepeatKey], *, most: int = _LARGEST
) -> list[CountedRollout] | None:
    """Return the rollouts of some units; None of one with more than ``most``."""
    if len(units) == 1:
        (unit,) = units
        parameters = {"of_batch": batch, "most": most + 1, **unit._asdict()}
        rows = connection.execute(
            _unit(unit.rollout_id is not None, unit.repeat is None), parameters
        )
        read = rows.all()
        return None if len(read) > most else list(map(_attempt, read))
    tasks = {unit.task for unit in units if unit.rollout_id is None}
    single = {unit.rollout_id for unit in units if unit.rollout_id is not None}
    some = or_(rollouts.c.task.in_(tasks), rollouts.c.id.in_(single))
    attempts = map(_attempt, connection.execute(_rows().where(some), {"of_batch": batch}))
    return [attempt for attempt in attempts if _unit_of(attempt.entry) in units]


def all_of(connection: Connection, batch: str) -> list[CountedRollout]:
    """Return all rollouts of a batch."""
    return list(map(_attempt, connection.execute(_rows(), {"of_batch": batch})))


def some_of(connection: Connection, batch: str, ids: Collection[str]) -> dict[str, CountedRollout]:
    """Return some rollouts of a batch by their ids."""
    if not ids:
        return {}
    rows = connection.execute(_SOME, {"ids": list(ids), "of_batch": batch})
    return {attempt.entry.rollout_id: attempt for attempt in map(_attempt, rows)}


def with_verdict(
    attempt: CountedRollout, row: Mapping[str, Any], outcome: str | None
) -> CountedRollout:
    """Return a rollout as it is read once a verdict is stored.

    Arguments:
        row: columns of `verdicts`; one that is left out is unknown.
        outcome: the rollout's own, as JSON text.
    """
    judged = map(row.get, Entry._fields[4:-2])
    unhealthy, excluded = row["health"] != "healthy", row["scoreable"] != "yes"
    detailed = unhealthy or excluded or row.get("attributed_to") == AttributedTo.AGENT.value
    made = _attempt(
        (
            *attempt.entry[:4],
            *judged,
            row["verdict"] if detailed else None,
            outcome if excluded else None,
            attempt.at,
            None,
            row.get("servings"),
            attempt.fallbacks,
            attempt.wanted,
            row.get("cause") if unhealthy else None,
        )
    )
    return made._replace(skipped=attempt.skipped)


def _unit_of(entry: Entry) -> RepeatKey:
    place = {"id": entry.rollout_id, **{name: getattr(entry, name) for name in PLACE[2:]}}
    return RepeatKey.of(place)


@cache  # it is read twice with each change of a rollout, and takes longer to make than to run
def _unit(single: bool, unrepeated: bool) -> Select[Any]:
    """Select the rollouts of one unit of a batch, of the kind that is told."""
    own = rollouts.c.id == bindparam("rollout_id")
    if not single:
        repeat = rollouts.c.repeat == bindparam("repeat")
        if unrepeated:
            repeat = rollouts.c.repeat.is_(None) & rollouts.c.attempt.is_not(None)
        own = (rollouts.c.task == bindparam("task")) & repeat
    return _rows().where(own).limit(bindparam("most"))


@cache
def _rows() -> Select[Any]:
    """Select the rollouts of a batch, oldest first."""
    own = rollouts.c.batch == bindparam("of_batch")
    return _any_rows().where(own).order_by(rollouts.c.created_at, rollouts.c.id)


@cache
def _any_rows() -> Select[Any]:
    """Select rollouts with what a summary has to know of them."""
    detailed = or_(
        verdicts.c.health != "healthy",
        verdicts.c.scoreable != "yes",
        verdicts.c.attributed_to == AttributedTo.AGENT.value,
    )
    columns = (
        *ENTRY_COLUMNS,
        case((detailed, verdicts.c.verdict)),
        case((verdicts.c.scoreable != "yes", rollouts.c.outcome)),
        rollouts.c.created_at,
        rollouts.c.skipped,
        verdicts.c.servings,
        rollouts.c.fallbacks,
        rollouts.c.repeats,
        case((verdicts.c.health != "healthy", verdicts.c.cause)),
    )
    # As the driver gives them: of a flag it is only asked whether it is set.
    query = cast(
        Select[Any],
        select(*(type_coerce(each, NULLTYPE) for each in columns)),
    )
    return query.select_from(JOINED)


# SQLite would go through all of the batch where an index has it, 9 ms in one of 100,000.
_SOME = _any_rows().where(
    rollouts.c.id.in_(bindparam("ids", expanding=True)),
    func.coalesce(rollouts.c.batch, "") == bindparam("of_batch"),
)


def _attempt(row: Sequence[Any]) -> CountedRollout:
    *columns, verdict, outcome, at, skipped, servings, fallbacks, wanted, cause = row
    known = verdict_details(verdict) if verdict else _NO_DETAILS
    retry = known.retry
    entry = Entry._make((*columns, known.diagnostics, known.sentence))
    if outcome:
        entry = entry._replace(reward=reported_reward(outcome))
    eligible = bool(retry and retry.get("eligible"))
    return CountedRollout(
        entry, at, skipped is not None, eligible, servings, fallbacks, wanted,
        known.transient, cause, retry,
    )  # fmt: skip


class VerdictDetails(NamedTuple):
    """The parts of a verdict that have no column of their own."""

    diagnostics: tuple[Diagnostic, ...]
    retry: dict[str, Any] | None
    transient: bool | None
    sentence: str | None


_NO_DETAILS = VerdictDetails((), None, None, None)


@lru_cache(512)  # the first hundred of a batch are read with each of its versions
def verdict_details(verdict: str) -> VerdictDetails:
    """Read the details of a verdict (JSON text); an unreadable one has none."""
    try:
        record = orjson.loads(verdict)
        known = codec.decode_verdict(record)
        return VerdictDetails(diagnose(known), record["retry"], known.transient, told(known))
    except (ValueError, KeyError, TypeError):  # an archive may hold any
        return _NO_DETAILS


def reported_reward(outcome: str) -> float | None:
    """Return the reward that the runner reported, also where it does not count.

    Arguments:
        outcome: JSON, as `rollouts.outcome` holds it.
    """
    facts = orjson.loads(outcome)
    return reward_in(facts.get("rewards"), facts.get("eval"))


# --- sums over the repeats of each task --------------------------------------------------------


class Changed(NamedTuple):
    """The changes that some tasks make to their batch, in tasks by shape and in what they lack.

    ``writes`` are those for the tasks themselves.
    """

    shapes: Counter[TaskProfile]
    lacking: Counts
    writes: list[Write]


def change_tasks(connection: Connection, batch: str, tasks: Mapping[str, TaskSums]) -> Changed:
    """Return what adding to tasks changes; reads only."""
    changed = Changed(Counter(), Counter(), [])
    known = _tasks(connection, batch, tasks)
    added: list[dict[str, Any]] = []
    for task, sums in tasks.items():
        total = known.get(task, TaskSums())
        _count_task(changed, total, -1)
        total.add(sums)
        _count_task(changed, total, 1)
        values = task_row(batch, task, total)
        same = {"of": batch, "of_task": task}
        if task not in known:
            added.append(values)
        elif total == TaskSums():
            changed.writes.append((delete(batch_tasks).where(_TASK), same))
        else:
            changed.writes.append((update(batch_tasks).where(_TASK), {**same, **values}))
    if added:
        changed.writes.append((insert(batch_tasks), added))
    return changed


_TASK = and_(batch_tasks.c.batch == bindparam("of"), batch_tasks.c.task == bindparam("of_task"))


def _tasks(connection: Connection, batch: str, names: Collection[str]) -> dict[str, TaskSums]:
    if not names:
        return {}
    query = select(batch_tasks).where(batch_tasks.c.batch == batch, batch_tasks.c.task.in_(names))
    return {row.task: task_sums(row) for row in connection.execute(query)}


def task_sums(row: Any) -> TaskSums:
    """Return the sums in a row of `batch_tasks`."""
    return TaskSums(
        repeats=row.repeats,
        kept=row.kept,
        score=int(row.score),
        lanes=Counter(json.loads(row.lanes)),
        wanted=Counter(json.loads(row.wanted)),
    )


def task_totals(connection: Connection, batch: str) -> list[TaskTotal]:
    """Return the totals of each task of a batch, in no order."""
    known = select(*_TOTAL).where(batch_tasks.c.batch == batch)
    totals = [_task_total(*row) for row in connection.execute(known)]
    # A task of which nothing has been judged yet need not have a row.
    waiting = unjudged.join(rollouts, rollouts.c.id == unjudged.c.rollout_id)
    begun = select(rollouts.c.task).select_from(waiting)
    begun = begun.where(unjudged.c.batch == batch, rollouts.c.task.is_not(None))
    summed = select(batch_tasks.c.task).where(batch_tasks.c.batch == batch)
    rest = connection.execute(begun.except_(summed)).scalars()
    return [*totals, *(TaskTotal(name, 1, 0, None) for name in rest)]


_TOTAL = (
    batch_tasks.c.task,
    batch_tasks.c.repeats,
    batch_tasks.c.kept,
    batch_tasks.c.score,
    batch_tasks.c.wanted,
)


def _task_total(task: str, repeats: int, kept: int, score: str, wanted: str) -> TaskTotal:
    registered = _registered_for(wanted)
    mean = int(score) / UNIT / kept if kept else None
    return TaskTotal(task, max(repeats, registered, 1), kept, mean)


@lru_cache(512)  # thousands of tasks have few texts
def _registered_for(wanted: str) -> int:
    """Return how many repeats a task was registered for or has, of `batch_tasks.wanted`."""
    counts: dict[str, int] = json.loads(wanted)
    return max(sum(counts.values()), *map(int, counts), 0)


def _count_task(changed: Changed, task: TaskSums, times: int) -> None:
    if task.repeats:
        add(changed.shapes, {task.shape: times})
    add(changed.lacking, lacking_in([task]), times)


def task_row(batch: str, task: str, sums: TaskSums) -> dict[str, Any]:
    """Return a task's sums as a row of `batch_tasks`."""
    return {
        "batch": batch,
        "task": task,
        "repeats": sums.repeats,
        "kept": sums.kept,
        "score": str(sums.score),
        "lanes": as_text(sums.lanes),
        "wanted": as_text(sums.wanted),
    }


def as_text(counts: Mapping[str, int]) -> str:
    """Encode counts as JSON, the same text for the same counts."""
    return json.dumps(counts, separators=(",", ":"), sort_keys=True)


# --- changes to a batch, computed and not yet written ------------------------------------------


EXAMPLES = 10  # ids that are kept of rollouts served alike

OF_BATCH = select(batches).where(batches.c.batch == bindparam("of"))
OF_BATCH_UPDATE = update(batches).where(batches.c.batch == bindparam("of"))


def changes(
    connection: Connection,
    batch: str,
    before: Sequence[CountedRollout],
    after: Sequence[CountedRollout],
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


def _change_notes(batch: str, old: PartialTotals, new: PartialTotals) -> Iterator[Write]:
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


def shape_row(batch: str, shape: TaskProfile, tasks: int) -> dict[str, Any]:
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


# --- changes of rollouts -----------------------------------------------------------------------


_FOLLOWED = "rollouts, exchanges, open_calls, verdicts"
_SUMMED = (batch_notes, batch_tasks, batch_shapes, batch_servings)


# Made once: with each change of a rollout they are read twice, and making one takes longer.
_PLACES = select(*(rollouts.c[name] for name in PLACE)).where(
    rollouts.c.id.in_(bindparam("ids", expanding=True))
)
_Units: TypeAlias = dict[str, set[RepeatKey]]  # by batch


@contextmanager
def updating_totals(
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
            within.setdefault(place["batch"], set()).add(RepeatKey.of(place))
    before = {batch: attempts_of(connection, batch, of) for batch, of in within.items()}
    yield
    for batch, of in within.items():
        _add_change(connection, batch, before[batch], attempts_of(connection, batch, of))


def _places(
    connection: Connection, ids: Collection[str], into: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Return the batches and units that some rollouts are in, and those they may come into."""
    rows = connection.execute(_PLACES, {"ids": list(ids)}).mappings()
    places: list[Mapping[str, Any]] = [dict(row) for row in rows]
    known, nowhere = {place["id"]: place for place in places}, dict.fromkeys(PLACE)
    for name, given in into:
        wanted = {column: value for column, value in given.items() if column in PLACE}
        places.append({**nowhere, **known.get(name, {}), "id": name, **wanted})
    return places


# --- writes ------------------------------------------------------------------------------------


def _add_change(
    connection: Connection,
    batch: str,
    before: Sequence[CountedRollout] | None,
    after: Sequence[CountedRollout] | None,
) -> None:
    if before is None or after is None:
        invalidate(connection, [batch])
        return
    write(connection, list(changes(connection, batch, before, after)))


def write(connection: Connection, several: Iterable[Write]) -> None:
    """Write what `changes` said."""
    for statement, values in several:
        connection.execute(statement, values)


# --- counts from the rows ----------------------------------------------------------------------


def recounted(connection: Connection, batch: str) -> PartialTotals:
    """Sum up a batch from its rows."""
    part = part_of(all_of(connection, batch))
    add(part.counts, lacking_in(part.tasks.values()))
    return part


def shapes_of(part: PartialTotals) -> Counter[TaskProfile]:
    """Return the numbers of tasks alike in a whole batch."""
    return part.single + Counter(sums.shape for sums in part.tasks.values() if sums.repeats)


def count(connection: Connection, batch: str) -> None:
    """Count a batch anew; it is deleted where it has no rollout."""
    invalidate(connection, [batch])
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
    """Lock the totals of these batches until the transaction ends."""
    for batch in sorted(named):
        hold(connection, Lock.BREAKERS, batch)


def invalidate(connection: Connection, named: Collection[str]) -> None:
    """Discard the totals of batches, to be counted anew; delete batches without a rollout."""
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


def queue_for_judging(connection: Connection, ids: Collection[str]) -> None:
    """Queue rollouts with a final verdict for judging again. Triggers queue only the others."""
    query = select(rollouts.c.id, rollouts.c.batch).where(rollouts.c.id.in_(ids))
    for rollout_id, batch in connection.execute(query.order_by(rollouts.c.id)).all():
        row = {"rollout_id": rollout_id, "batch": batch, "change": randbits(62)}
        noted = insert_into(connection.dialect.name, unjudged).values(**row)
        again = noted.on_conflict_do_update(index_elements=["rollout_id"], set_=row)
        connection.execute(again)


def dequeue_judged(connection: Connection, ids: Collection[str]) -> None:
    """Take rollouts off the queue whose final verdicts stand, although rows were written since."""
    final = select(verdicts.c.rollout_id).where(
        verdicts.c.rollout_id.in_(ids), verdicts.c.provisional.is_(False)
    )
    connection.execute(delete(unjudged).where(unjudged.c.rollout_id.in_(final)))


def derive(connection: Connection) -> None:
    """Fill all derived tables anew from the tables that they follow from."""
    dialect = connection.dialect.name
    if dialect != "sqlite":  # which has one writer
        connection.exec_driver_sql(f"LOCK TABLE {_FOLLOWED} IN SHARE ROW EXCLUSIVE MODE")
    for table in DERIVED:
        connection.execute(delete(table))
    connection.exec_driver_sql(schema.usage_fill(dialect))
    for statement in (schema.MARK_ALL, schema.NOTE_ALL):
        connection.exec_driver_sql(statement)


def invalidated(connection: Connection) -> list[str]:
    """List the batches whose totals are to be counted anew."""
    query = select(batches.c.batch).where(batches.c.counts.is_(None))
    return list(connection.execute(query.order_by(batches.c.batch)).scalars())
