"""The counts of a batch, made whole from its rollouts and verdicts in one snapshot.

Each verdict is stored with its kind: a number that it has in common with those that count alike
(`classifier.repeat_counts.kind_of`). The database adds up rollouts by kind, and repeats by task, in
narrow indexes. Singly are read only one rollout of each kind, the attempts at repeats that were
run again, verdicts without a kind, and what a summary names.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import orjson
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Select,
    Subquery,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy import cast as as_type
from sqlalchemy.types import NULLTYPE

from classifier import codec
from classifier.batch_summary import Named
from classifier.batches import Entry, task_repeats
from classifier.diagnostics import Diagnostic, diagnose
from classifier.groups import TaskTotal
from classifier.repeat_counts import (
    FRACTIONS,
    SUMS,
    TAKEN,
    UNIT,
    AlikeRollouts,
    CountedRollout,
    Counts,
    Note,
    NoteKind,
    PartialTotals,
    Shapes,
    TaskProfile,
    TaskSums,
    kind_of,
    part_of,
    taken,
    totals_of,
    whole,
)
from classifier.reruns import NEVER_STARTED
from classifier.score_keys import ReportedScore, keys_of, no_score, reported_score
from classifier.sentences import told
from classifier.verdicts import AttributedTo
from classifier.whole_batch import EXAMPLES, MOST, ServedAlike, named_of
from proxy.store.tables import ENTRY_COLUMNS, ENTRY_FIELDS, IDS, JOINED, rollouts, verdicts

_AT_ONCE = 500  # verdicts whose kinds one transaction stores


class SummedBatch(NamedTuple):
    """A batch as it is summed up, in one snapshot.

    ``named`` and ``retry`` have the first of what a summary names; how many there are is in
    ``counts``; ``tasks`` is how many tasks its rollouts name. All of it is the same as long as the
    batch has the same version.
    """

    counts: Counts
    named: Named
    retry: Sequence[dict[str, Any]]
    shapes: Shapes
    served: Sequence[ServedAlike]
    tasks: int


def sum_up(connection: Connection, batch: str) -> SummedBatch | None:
    """Sum up a batch from its rows; None if it has no rollout.

    Arguments:
        connection: of one snapshot.
    """
    known = select(rollouts.c.id).where(rollouts.c.batch == batch).limit(1)
    if connection.execute(known).one_or_none() is None:
        return None
    read = _read(connection, batch)
    shapes = _shapes(connection, batch, read)
    counts = totals_of([*read.alike.values(), *read.waiting], read.others, score=shapes.score)
    named, lacking = _tasks_planned(connection, batch)
    if lacking:
        counts[NEVER_STARTED] = lacking
    wanted = _Wanted(read)
    for at, name, kind in _first(connection, batch, wanted, read.singly):
        wanted.take(kind, at, name)
        if wanted.complete:
            break
    first = wanted.first()
    return SummedBatch(
        counts=counts,
        named=_named(connection, first, counts),
        retry=_retry(connection, [note.rollout_id for note in first[NoteKind.RETRY]]),
        shapes=shapes.tasks,
        served=wanted.served(),
        tasks=named,
    )


# --- one rollout, as it counts -----------------------------------------------------------------


UNREWARDED = and_(verdicts.c.scoreable == "yes", verdicts.c.reward.is_(None))
"""Of verdicts that let a score count: none was reported, or rewards of which none is it."""


@cache
def _any_rows() -> Select[Any]:
    """Select rollouts with what their counts depend on."""
    detailed = or_(
        verdicts.c.health != "healthy",
        verdicts.c.scoreable != "yes",
        verdicts.c.attributed_to == AttributedTo.AGENT.value,
    )
    columns = (
        *ENTRY_COLUMNS,
        case((detailed, verdicts.c.verdict)),
        case((or_(verdicts.c.scoreable != "yes", UNREWARDED), rollouts.c.outcome)),
        rollouts.c.score_key,
        rollouts.c.created_at,
        rollouts.c.skipped,
        verdicts.c.servings,
        rollouts.c.fallbacks,
        case((verdicts.c.health != "healthy", verdicts.c.cause)),
    )
    # As the driver gives them: of a flag it is only asked whether it is set.
    query = cast(
        Select[Any],
        select(*(type_coerce(each, NULLTYPE) for each in columns)),
    )
    return query.select_from(JOINED)


def _rollout(row: Sequence[Any]) -> CountedRollout:
    *columns, verdict, outcome, key, at, skipped, servings, fallbacks, cause = row
    known = _details(verdict) if verdict else _NO_DETAILS
    entry = Entry._make((*columns, known.diagnostics, known.sentence, ()))
    if outcome:
        reported = reported_in(outcome, key)
        # What counts is as the verdict has it, until it is given again.
        score = entry.reward if entry.scoreable == "yes" else reported.score
        entry = entry._replace(reward=score, unnamed=reported.unnamed)
    return CountedRollout(
        entry, at, skipped is not None, known.retry, servings, fallbacks, known.transient, cause
    )


def all_of(connection: Connection, batch: str) -> list[CountedRollout]:
    """Return all rollouts of a batch, the oldest first."""
    own = _any_rows().where(rollouts.c.batch == batch)
    rows = connection.execute(own.order_by(rollouts.c.created_at, rollouts.c.id))
    return list(map(_rollout, rows))


def some_of(connection: Connection, ids: Collection[str]) -> dict[str, CountedRollout]:
    """Return some rollouts as they count, by their ids."""
    if not ids:
        return {}
    rows = connection.execute(_SOME, {"ids": list(ids)})
    return {each.entry.rollout_id: each for each in map(_rollout, rows)}


class RolloutAsCounted(NamedTuple):
    """A rollout as it counts, and what else its export says of it.

    ``version`` is that of the rules that judged it, ``calls`` how many ended ones its final verdict
    saw, ``repeats`` how many of them its registration says that its task is to have; each None if
    there is none.
    """

    rollout: CountedRollout
    version: str | None
    calls: int | None
    repeats: int | None


def as_counted(connection: Connection, ids: Collection[str]) -> dict[str, RolloutAsCounted]:
    """Return some rollouts as they count, by their ids, for an export."""
    stands = and_(verdicts.c.provisional.is_(False), rollouts.c.outcome.is_not(None))
    final = case((stands, verdicts.c.calls))
    query = select(rollouts.c.id, verdicts.c.verdict, final, rollouts.c.repeats)
    rows = connection.execute(query.select_from(JOINED).where(rollouts.c.id.in_(ids))).all()
    counted = some_of(connection, ids)
    return {
        name: RolloutAsCounted(counted[name], _version(verdict), calls, repeats)
        for name, verdict, calls, repeats in rows
        if name in counted
    }


def _version(verdict: str | None) -> str | None:
    try:
        return None if verdict is None else str(orjson.loads(verdict)["classifier"])
    except (ValueError, KeyError, TypeError):  # an archive may hold any
        return None


_SOME = _any_rows().where(rollouts.c.id.in_(IDS))


def derived(row: Mapping[Any, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a verdict that is to be stored which follow from the others.

    That is its kind, and the score that it takes away.

    Arguments:
        row: columns of `verdicts`; one that is left out is unknown.
        place: columns of its rollout, by the names of `PLACE`.
    """
    unhealthy, excluded = row["health"] != "healthy", row["scoreable"] != "yes"
    detailed = unhealthy or excluded or row.get("attributed_to") == AttributedTo.AGENT.value
    alone = _rollout(
        (
            row["rollout_id"], place["task"], None, None,
            *map(row.get, ENTRY_FIELDS),
            row["verdict"] if detailed else None,
            place["outcome"] if excluded or row.get("reward") is None else None,
            place["score_key"],
            place["created_at"],
            place["skipped"],
            row.get("servings"),
            place["fallbacks"],
            row.get("cause") if unhealthy else None,
        )
    )  # fmt: skip
    return {"counted": kind_of(part_of([alone])), "taken": taken(alone.entry)}


PLACE = ("task", "created_at", "outcome", "score_key", "skipped", "fallbacks")
"""The columns of a rollout on which the derived ones of its verdict depend."""


def store_kinds(
    connection: Connection, *which: ColumnElement[bool], limit: int | None = None
) -> str | None:
    """Store the kinds of those of some verdicts that have none.

    Arguments:
        limit: at most so many, by rollout.

    Returns:
        The last rollout; None without any.
    """
    columns = (*verdicts.columns, *(rollouts.c[name].label(f"own_{name}") for name in PLACE))
    unknown = select(*columns).join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
    unknown = unknown.where(verdicts.c.counted.is_(None), *which)
    rows = connection.execute(unknown.order_by(verdicts.c.rollout_id).limit(limit)).mappings().all()
    if not rows:
        return None
    own = update(verdicts).where(verdicts.c.rollout_id == bindparam("of"))
    found = [
        {
            "of": row["rollout_id"],
            **{f"new_{name}": value for name, value in of_row.items()},
        }
        for row in rows
        for of_row in [derived(row, {name: row[f"own_{name}"] for name in PLACE})]
    ]
    connection.execute(
        own.values(counted=bindparam("new_counted"), taken=bindparam("new_taken")), found
    )
    return str(rows[-1]["rollout_id"])


def store_next_kinds(connection: Connection, after: str) -> str | None:
    """Store the kinds of the next verdicts after a rollout; return the last, None at the end."""
    return store_kinds(connection, verdicts.c.rollout_id > after, limit=_AT_ONCE)


def forget_kinds(connection: Connection, rollout_ids: Collection[str]) -> None:
    """Take the kinds off verdicts whose rows change in another way than by judging."""
    connection.execute(_FORGET, {"ids": list(rollout_ids), "counted": None})


_FORGET = update(verdicts).where(verdicts.c.rollout_id.in_(IDS))


class _Details(NamedTuple):
    """The parts of a verdict that have no column of their own."""

    diagnostics: tuple[Diagnostic, ...]
    retry: bool
    transient: bool | None
    sentence: str | None


@lru_cache(512)  # the first hundred of a batch are read with each of its versions
def _details(verdict: str) -> _Details:
    try:
        record = orjson.loads(verdict)
        known = codec.decode_verdict(record)
        retry = record["retry"]
        again = bool(retry and retry.get("eligible"))
        return _Details(diagnose(known), again, known.transient, told(known))
    except (ValueError, KeyError, TypeError):  # an archive may hold any
        return _NO_DETAILS


_NO_DETAILS = _Details((), retry=False, transient=None, sentence=None)


def reported_in(outcome: str, score_key: str | None) -> ReportedScore:
    """Return the score that a runner reported, also if it does not count.

    Arguments:
        outcome: JSON, as `rollouts.outcome` holds it.
        score_key: as the batch was registered.
    """
    facts = orjson.loads(outcome)
    return reported_score(facts.get("rewards"), facts.get("eval"), score_key)


def why_no_score(outcome: str | None, score_key: str | None) -> str | None:
    """Say why rewards were reported and none of them is the score; None if one is, or none was.

    Arguments: as of `reported_in`.
    """
    unnamed = reported_in(outcome, score_key).unnamed if outcome else ()
    return no_score(keys_of(unnamed), score_key) if unnamed else None


# --- rollouts by kind --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedBatch:
    """The rollouts of a batch: ``alike`` by kind, ``waiting`` for a verdict, ``others`` singly."""

    alike: Mapping[int, AlikeRollouts]
    waiting: Sequence[AlikeRollouts]
    others: PartialTotals
    singly: Sequence[str]  # ids of the others


def _read(connection: Connection, batch: str) -> _CountedBatch:
    singly = _run_again(connection, batch)
    rows = connection.execute(_by_kind(connection, batch, singly)).all()
    count = select(func.count()).where(rollouts.c.batch == batch)
    waiting: Sequence[Any] = ()
    if sum(row.n for row in rows) + len(singly) != connection.scalar(count):
        waiting = connection.execute(_without_verdict(connection, batch, singly)).all()
        singly += _judged_without_kind(connection, batch, singly)
    by_kind: dict[int, list[Any]] = {}
    for row in rows:
        by_kind.setdefault(row.counted, []).append(row)
    first = [several[0] for several in by_kind.values()]
    examples = some_of(connection, {row.example for row in (*first, *waiting)})
    parts = {name: part_of([example]) for name, example in examples.items()}
    others = sorted(some_of(connection, singly).values(), key=_age)
    return _CountedBatch(
        alike={
            kind: AlikeRollouts(
                rollouts=sum(row.n for row in several),
                each=parts[several[0].example],
                sums=_sums(several),
            )
            for kind, several in by_kind.items()
        },
        waiting=[
            AlikeRollouts(rollouts=row.n, each=parts[row.example], sums={}) for row in waiting
        ],
        others=part_of(others),
        singly=singly,
    )


def _age(rollout: CountedRollout) -> tuple[float, str]:
    return rollout.at, rollout.entry.rollout_id


def _run_again(connection: Connection, batch: str) -> list[str]:
    """List the attempts at repeats that have several.

    Without a repeat's number, attempts with one number are repeats of their own.
    """
    r = rollouts.c
    tries = func.min(r.attempt) != func.max(r.attempt)
    repeats = (
        select(r.task, r.repeat)
        .where(r.batch == batch, r.task.is_not(None))
        .where(or_(r.repeat.is_not(None), r.attempt.is_not(None)))
        .group_by(r.task, r.repeat)
        .having(case((r.repeat.is_(None), tries), else_=func.count() > 1))
    )
    several = {(task, repeat) for task, repeat in connection.execute(repeats)}
    if not several:
        return []
    tasks = _texts(connection, sorted({task for task, _ in several}))
    placed = select(r.id, r.task, r.repeat).where(r.batch == batch, r.task.in_(tasks))
    rows = connection.execute(placed)
    return [name for name, task, repeat in rows if (task, repeat) in several]


# SQLite takes the narrow index of verdicts, and not that of their key, for what asks for a kind.
_KIND_KNOWN = and_(verdicts.c.rollout_id == rollouts.c.id, verdicts.c.counted.is_not(None))


def _without_verdict(connection: Connection, batch: str, but: Sequence[str]) -> Select[Any]:
    """Select rollouts that are not judged, those alike together."""
    alike = (rollouts.c.skipped.is_not(None), rollouts.c.fallbacks)
    judged = exists(verdicts.c.rollout_id).where(verdicts.c.rollout_id == rollouts.c.id)
    columns: tuple[Any, ...] = (func.count().label("n"), func.min(rollouts.c.id).label("example"))
    query = select(*columns).where(rollouts.c.batch == batch, ~judged)
    return query.where(_not_among(connection, but)).group_by(*alike)


def _judged_without_kind(connection: Connection, batch: str, but: Sequence[str]) -> list[str]:
    """List rollouts whose verdicts have no kind: other code wrote or changed them."""
    unknown = and_(verdicts.c.rollout_id == rollouts.c.id, verdicts.c.counted.is_(None))
    query = select(rollouts.c.id).join(verdicts, unknown).where(rollouts.c.batch == batch)
    return list(connection.execute(query.where(_not_among(connection, but))).scalars())


def _by_kind(connection: Connection, batch: str, but: Sequence[str]) -> Select[Any]:
    v = verdicts.c
    cut = [_cut(connection, v[name], name) for name in FRACTIONS]
    columns = (
        v.counted,
        v.taken,
        func.count().label("n"),
        func.min(rollouts.c.id).label("example"),
        *(func.sum(v[name]).label(name) for name in SUMS),
        *(part for parts in cut for part in parts),
    )
    query = select(*columns).select_from(rollouts.join(verdicts, _KIND_KNOWN))
    query = query.where(rollouts.c.batch == batch, _not_among(connection, but))
    return query.group_by(v.counted, v.taken)


def _not_among(connection: Connection, ids: Sequence[str]) -> ColumnElement[bool]:
    """Build the condition that a rollout is none of these, however many they are."""
    return rollouts.c.id.not_in(_texts(connection, ids)) if ids else true()


def _texts(connection: Connection, texts: Sequence[str]) -> Select[Any]:
    """Select these texts, which are one parameter."""
    listed = literal(json.dumps(list(texts)), Text)
    if connection.dialect.name == "sqlite":
        return select(func.json_each(listed).table_valued("value").c.value)
    return select(func.json_array_elements_text(as_type(listed, JSON)).column_valued("value"))


# --- sums of numbers that are no whole ones ----------------------------------------------------
# Each is cut to 1 / UNIT and added up in two parts, of which sums are exact in whatever order.


_COARSE = 2**32
_LARGE = 2**21  # from which on a number has no part smaller than 1 / _COARSE


def _cut(
    connection: Connection, value: ColumnElement[Any], name: str
) -> tuple[ColumnElement[Any], ...]:
    large = func.abs(value) >= _LARGE
    coarse = _whole(connection, value * float(_COARSE))
    rest = (value - coarse / float(_COARSE)) * float(UNIT)
    parts = (
        case((large, value * float(_COARSE)), else_=coarse),
        case((large, 0.0), else_=_whole(connection, rest)),
    )
    return tuple(func.sum(part).label(f"{name}_{at}") for at, part in enumerate(parts))


def _whole(connection: Connection, value: ColumnElement[Any]) -> ColumnElement[Any]:
    # SQLite is not always built with trunc(), and its cast cuts; PostgreSQL's rounds.
    if connection.dialect.name == "sqlite":
        return as_type(as_type(value, Integer), Float)
    return func.trunc(value)


def _joined(row: Any, name: str) -> int:
    coarse, fine = (getattr(row, f"{name}_{at}") or 0 for at in (0, 1))
    return int(coarse) * (UNIT // _COARSE) + int(fine)


def _sums(rows: Sequence[Any]) -> dict[str, int]:
    sums = {name: sum(int(getattr(row, name) or 0) for row in rows) for name in SUMS}
    sums |= {name: sum(_joined(row, name) for row in rows) for name in FRACTIONS}
    return sums | {TAKEN: sum(row.n * (whole(row.taken) or 0) for row in rows)}


# --- repeats by task ---------------------------------------------------------------------------


def _tasks(connection: Connection, batch: str, read: _CountedBatch) -> Subquery:
    """Select the judged repeats of each task that are one rollout of a known kind."""
    v = verdicts.c
    kept = case((v.scoreable == "yes", v.reward))
    left_out = case((and_(v.scoreable != "yes", v.provisional.is_(False)), v.counted))
    kinds: ColumnElement[Any] = func.group_concat(left_out.distinct())
    if connection.dialect.name != "sqlite":
        kinds = func.string_agg(as_type(left_out, Text).distinct(), ",")
    query = (
        select(
            rollouts.c.task,
            func.count().label("repeats"),
            func.count(kept).label("kept"),
            *_cut(connection, kept, "score"),
            kinds.label("left_out"),
        )
        .select_from(rollouts.join(verdicts, _KIND_KNOWN))
        .where(rollouts.c.batch == batch, rollouts.c.task.is_not(None))
        .where(_not_among(connection, read.singly))
        .group_by(rollouts.c.task)
    )
    return query.subquery()


def _task_sums(row: Any, read: _CountedBatch) -> TaskSums:
    kinds = map(int, row.left_out.split(",")) if row.left_out else ()
    lanes = {
        lane
        for kind in kinds
        for sums in read.alike[kind].each.tasks.values()
        for lane in sums.lanes
    }
    return TaskSums(repeats=row.repeats, kept=row.kept, score=_joined(row, "score"), lanes=lanes)


class _Shapes(NamedTuple):
    """Tasks alike, slots without a task among them, and the sum of scores of rollouts alike."""

    tasks: Counter[TaskProfile]
    score: int


def _shapes(connection: Connection, batch: str, read: _CountedBatch) -> _Shapes:
    shapes, score = Counter(read.others.single), 0
    tasks, apart = _tasks(connection, batch, read), read.others.tasks
    names = _texts(connection, list(apart))
    numbers = [column for column in tasks.c if column.name != "task"]
    alike = select(func.count().label("tasks"), *numbers).group_by(*numbers)
    for row in connection.execute(alike.where(tasks.c.task.not_in(names)) if apart else alike):
        sums = _task_sums(row, read)
        shapes[sums.shape] += row.tasks
        score += sums.score * row.tasks
    known = select(tasks).where(tasks.c.task.in_(names))
    rows = {row.task: row for row in connection.execute(known)} if apart else {}
    for name, sums in apart.items():
        if name in rows:
            of_alike = _task_sums(rows[name], read)
            score += of_alike.score
            of_alike.add(sums)
            sums = of_alike  # noqa: PLW2901
        shapes[sums.shape] += 1
    for row in connection.execute(_without_task(connection, batch, read)):
        total = _joined(row, "score")
        score += total
        shapes[TaskProfile(1, int(row.kept > 0), total // row.n)] += row.n
    return _Shapes(shapes, score)


def task_totals(connection: Connection, batch: str) -> list[TaskTotal]:
    """Return the totals of each task of a batch, in no order."""
    read = _read(connection, batch)
    known = {
        row.task: _task_sums(row, read)
        for row in connection.execute(select(_tasks(connection, batch, read)))
    }
    for name, sums in read.others.tasks.items():
        known.setdefault(name, TaskSums()).add(sums)
    entries = [each.entry for each in sorted(some_of(connection, read.singly).values(), key=_age)]
    attempts = Counter(entry.task for entry in entries)
    attempts.subtract(slot.counted.task for slot in task_repeats(entries))
    return [
        _task_total(known.get(row.task, TaskSums()), row, attempts[row.task])
        for row in connection.execute(_planned(batch))
    ]


def _task_total(sums: TaskSums, planned: Any, again: int) -> TaskTotal:
    """Return the totals of a task, of whose rollouts so many were further attempts."""
    repeats = planned.rollouts - again + max(0, (planned.wanted or 0) - planned.begun)
    mean = sums.score / UNIT / sums.kept if sums.kept else None
    return TaskTotal(planned.task, repeats, sums.kept, mean)


def _planned(batch: str) -> Select[Any]:
    """Select each task: how many repeats it was registered for, and how many of them begun."""
    numbered = and_(rollouts.c.repeat.is_not(None), rollouts.c.repeats.is_not(None))
    query = select(
        rollouts.c.task,
        func.count().label("rollouts"),
        func.max(case((numbered, rollouts.c.repeats))).label("wanted"),
        func.count(case((numbered, rollouts.c.repeat)).distinct()).label("begun"),
    )
    query = query.where(rollouts.c.batch == batch, rollouts.c.task.is_not(None))
    return query.group_by(rollouts.c.task)


def _tasks_planned(connection: Connection, batch: str) -> tuple[int, int]:
    """Count a batch's tasks, and the repeats that they were registered for and do not have."""
    tasks = _planned(batch).subquery()
    lacking = tasks.c.wanted - tasks.c.begun
    query = select(func.count(), func.sum(case((lacking > 0, lacking)))).select_from(tasks)
    named, missing = connection.execute(query).one()
    return named, int(missing or 0)


def _without_task(connection: Connection, batch: str, read: _CountedBatch) -> Select[Any]:
    v = verdicts.c
    kept = case((v.scoreable == "yes", v.reward))
    return (
        select(
            func.count().label("n"),
            func.count(kept).label("kept"),
            *_cut(connection, kept, "score"),
        )
        .select_from(rollouts.join(verdicts, _KIND_KNOWN))
        .where(rollouts.c.batch == batch, rollouts.c.task.is_(None))
        .where(_not_among(connection, read.singly))
        .group_by(kept)
    )


# --- what a summary names ----------------------------------------------------------------------


class _Wanted:
    """The first rollouts of each note and of each way of being served, as they are found."""

    def __init__(self, read: _CountedBatch) -> None:
        self._notes: dict[NoteKind, list[Note]] = {kind: [] for kind in NoteKind}
        self._others = sorted(read.others.notes, key=lambda note: (note.at, note.rollout_id))
        self._served = Counter({text: len(ids) for text, ids in read.others.served.items()})
        self._examples = {text: sorted(ids)[:EXAMPLES] for text, ids in read.others.served.items()}
        kinds = read.alike
        for each in kinds.values():
            self._served.update(dict.fromkeys(each.each.served, each.rollouts))
        several = len(self._served) > 1  # of one way there is nothing to compare
        self.kinds = {
            kind: [
                *(note.kind for note in each.each.notes),
                *(each.each.served if several else ()),
            ]
            for kind, each in kinds.items()
        }
        left: Counter[str] = Counter()
        for kind, wanted in self.kinds.items():
            left.update(dict.fromkeys(wanted, kinds[kind].rollouts))
        self._left = {name: min(n, self._most(name)) for name, n in left.items()}

    @staticmethod
    def _most(name: str) -> int:
        return MOST[name] if isinstance(name, NoteKind) else EXAMPLES

    @property
    def complete(self) -> bool:
        """True if no more of any is wanted."""
        return not self._left

    def take(self, kind: int, at: float, rollout_id: str) -> None:
        """Take the next rollout of a kind, the oldest first."""
        for name in self.kinds[kind]:
            if name not in self._left:
                continue
            if isinstance(name, NoteKind):
                self._notes[name].append(Note(name, at, rollout_id))
            else:
                self._examples.setdefault(name, []).append(rollout_id)
            self._left[name] -= 1
            if not self._left[name]:
                del self._left[name]

    def first(self) -> dict[NoteKind, list[Note]]:
        """Return the first notes of each kind, by when their slots began."""
        by_age = {
            kind: heapq.merge(
                notes,
                [note for note in self._others if note.kind is kind],
                key=lambda note: (note.at, note.rollout_id),
            )
            for kind, notes in self._notes.items()
        }
        return {kind: [*merged][: MOST[kind]] for kind, merged in by_age.items()}

    def served(self) -> list[ServedAlike]:
        """Return how rollouts were served, the most frequent way first."""
        ordered = sorted(self._served.items(), key=lambda item: (-item[1], item[0]))
        return [
            ServedAlike(text, n, self._examples.get(text, [])[:EXAMPLES]) for text, n in ordered
        ]


def _first(
    connection: Connection, batch: str, wanted: _Wanted, but: Sequence[str]
) -> Iterator[tuple[float, str, int]]:
    """Yield the rollouts of which some are wanted, the oldest first, with their kinds."""
    kinds = [kind for kind, names in wanted.kinds.items() if names]
    if not kinds:
        return
    query = (
        select(rollouts.c.created_at, rollouts.c.id, verdicts.c.counted)
        .join(verdicts, verdicts.c.rollout_id == rollouts.c.id)
        .where(rollouts.c.batch == batch, verdicts.c.counted.in_(kinds))
        .where(_not_among(connection, but))
        .order_by(rollouts.c.created_at, rollouts.c.id)
        .execution_options(yield_per=500)
    )
    with connection.execute(query) as rows:
        yield from (tuple(row) for row in rows)


def _named(
    connection: Connection, first: Mapping[NoteKind, Sequence[Note]], counts: Counts
) -> Named:
    kinds = (each for each in NoteKind if each is not NoteKind.RETRY)
    found = some_of(connection, {note.rollout_id for kind in kinds for note in first[kind]})
    return named_of(first, {name: each.entry for name, each in found.items()}, counts)


def _retry(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return rollouts to run again, each with the advice of its verdict."""
    if not ids:
        return []
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
