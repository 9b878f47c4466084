"""Lists of rollouts by filters: page by page, grouped, and found by a part of a name.

A page takes two steps: its keys, from the one table whose index has them in order, then its rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    Select,
    Subquery,
    Text,
    and_,
    case,
    exists,
    false,
    func,
    not_,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from classifier.score_keys import EVAL_NAMES, REWARD
from classifier.verdicts import OWN_FAILURES, AttributedTo
from proxy.store.tables import JOINED, batches, exchanges, rollouts, verdicts

Value = str | int | None  # None: rollouts without one
Facts = dict[str, Any]

_OF_ROLLOUTS = ("batch", "task", "repeat", "attempt")
_OF_VERDICTS = ("health", "subcategory", "fingerprint", "cause", "scoreable")
_OF_CALLS = ("model", "upstream", "role")
# A verdict's index has these in order, rarest first; `reward` where it is one number.
_WALKED = ("fingerprint", "subcategory", "health")


class _ReportedReward(FunctionElement[float]):
    """The score in an outcome (JSON text), as `classifier.score_keys.reward_in` reads it.

    Arguments: the outcome, and the registered key.
    """

    type = Float()
    inherit_cache = True


@compiles(_ReportedReward, "sqlite")
def _read_by_sqlite(of: _ReportedReward, compiler: SQLCompiler, **options: Any) -> str:
    outcome, key = (compiler.process(each, **options) for each in of.clauses)
    rewards, evaluated = (
        f"json_each(CASE json_type({outcome}, '$.{name}')"
        f" WHEN 'object' THEN json_extract({outcome}, '$.{name}') END)"
        for name in ("rewards", "eval")
    )
    names = "".join(f" WHEN '{name}' THEN {place}" for place, name in enumerate(EVAL_NAMES))
    return (
        f"CASE WHEN NOT EXISTS (SELECT 1 FROM {rewards}) THEN"
        f" (SELECT CAST(value AS REAL) FROM {evaluated}"
        " WHERE type IN ('integer', 'real', 'true', 'false') AND"
        f" CASE WHEN {key} IS NULL THEN key IN {EVAL_NAMES} ELSE key = {key} END"
        f" ORDER BY CASE key{names} END LIMIT 1)"
        f" ELSE (SELECT CAST(CASE WHEN {key} IS NULL AND count(*) = 1 THEN max(value)"
        f" ELSE max(CASE WHEN key = coalesce({key}, '{REWARD}') THEN value END) END AS REAL)"
        f" FROM {rewards}) END"
    )


@compiles(_ReportedReward, "postgresql")
def _read_by_postgresql(of: _ReportedReward, compiler: SQLCompiler, **options: Any) -> str:
    outcome, key = (compiler.process(each, **options) for each in of.clauses)
    rewards, evaluated = (
        f"jsonb_each(CASE jsonb_typeof(o -> '{name}') WHEN 'object' THEN o -> '{name}' END)"
        for name in ("rewards", "eval")
    )
    number = (
        "CASE jsonb_typeof(value) WHEN 'boolean' THEN (value #>> '{}')::boolean::int"
        " WHEN 'number' THEN (value #>> '{}')::double precision END"
    )
    names = f"ARRAY{[*EVAL_NAMES]}"
    score = (
        f"CASE WHEN NOT EXISTS (SELECT 1 FROM {rewards}) THEN"
        f" (SELECT {number} FROM {evaluated} WHERE jsonb_typeof(value) IN ('boolean', 'number') AND"
        f" CASE WHEN {key} IS NULL THEN key = ANY({names}) ELSE key = {key} END"
        f" ORDER BY array_position({names}, key) LIMIT 1)"
        f" ELSE (SELECT CASE WHEN {key} IS NULL AND count(*) = 1 THEN max({number})"
        f" ELSE max({number}) FILTER (WHERE key = coalesce({key}, '{REWARD}')) END"
        f" FROM {rewards}) END"
    )
    # Parsed once: a subquery with an offset is not merged into the one around it.
    return f"(SELECT {score} FROM (SELECT {outcome}::jsonb AS o OFFSET 0) AS parsed)"


class _UnnamedReward(FunctionElement[float]):
    """Of the rewards in an outcome (JSON text) 0 if one of them is, else the greatest."""

    type = Float()
    inherit_cache = True


@compiles(_UnnamedReward, "sqlite")
def _unnamed_by_sqlite(of: _UnnamedReward, compiler: SQLCompiler, **options: Any) -> str:
    outcome = compiler.process(of.clauses, **options)
    rewards = (
        f"json_each(CASE json_type({outcome}, '$.rewards')"
        f" WHEN 'object' THEN json_extract({outcome}, '$.rewards') END)"
    )
    value = "CASE WHEN min(abs(value)) = 0 THEN 0 ELSE max(value) END"
    return f"(SELECT CAST({value} AS REAL) FROM {rewards})"


@compiles(_UnnamedReward, "postgresql")
def _unnamed_by_postgresql(of: _UnnamedReward, compiler: SQLCompiler, **options: Any) -> str:
    outcome = compiler.process(of.clauses, **options)
    value = "(value #>> '{}')::double precision"
    rewards = "jsonb_each(CASE jsonb_typeof(o -> 'rewards') WHEN 'object' THEN o -> 'rewards' END)"
    number = f"CASE WHEN min(abs({value})) = 0 THEN 0 ELSE max({value}) END"
    parsed = f"(SELECT {outcome}::jsonb AS o OFFSET 0) AS parsed"
    return f"(SELECT {number} FROM {parsed}, {rewards})"


class _Rule(FunctionElement[str]):
    """The rule in a verdict (JSON text), which has no column."""

    type = Text()
    inherit_cache = True


@compiles(_Rule, "sqlite")
def _rule_by_sqlite(of: _Rule, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_extract({compiler.process(of.clauses, **options)}, '$.rule')"


@compiles(_Rule, "postgresql")
def _rule_by_postgresql(of: _Rule, compiler: SQLCompiler, **options: Any) -> str:
    return f"({compiler.process(of.clauses, **options)})::jsonb ->> 'rule'"


_REPORTED = _ReportedReward(rollouts.c.outcome, rollouts.c.score_key)
_RULE = _Rule(verdicts.c.verdict)
# Each order's column. An index has those of time, `batch`, `task`, `health`, `subcategory`,
# `fingerprint`, `reward`, `total_tokens` and `cost_usd` in order, within a batch too; the others
# are read over once for a page, which holds no more of them than it shows.
SORTS: Mapping[str, ColumnElement[Any]] = {
    **{name: rollouts.c[name] for name in (
        "created_at", "id", "batch", "task", "repeat", "attempt", "model", "upstream", "registered",
    )},
    "reported_at": rollouts.c.outcome_at,
    "reported_reward": _REPORTED,
    **{name: verdicts.c[name] for name in (
        "health", "subcategory", "fingerprint", "cause", "provisional", "scoreable", "reward",
        "total_tokens", "cost_usd", "validity",
    )},
}  # fmt: skip
_SEARCHED = (
    (rollouts.c.id, rollouts.c.batch, rollouts.c.task, rollouts.c.model),
    (verdicts.c.fingerprint, verdicts.c.subcategory, verdicts.c.cause),
)
_WALKS = 64  # at once; for more values than that, their union is sorted

_OF_VERDICT = frozenset(name for name, by in SORTS.items() if by in {*verdicts.c})
JUDGED = _OF_VERDICT | {"text", "rule"}
FLAGS = (
    "unearned", "false_zero", "false_one", "measured", "superseded", "running", "skipped",
)  # fmt: skip
"""The filters that are true or false."""
ITEM = (
    *(rollouts.c[name] for name in (
        "id", "batch", "task", "repeat", "attempt", "model", "upstream", "created_at", "registered",
        "skipped",
    )),
    *(verdicts.c[name] for name in (
        "health", "subcategory", "fingerprint", "cause", "provisional", "scoreable", "reward",
        "total_tokens", "cost_usd",
    )),
    verdicts.c.validity.label("findings"),
    rollouts.c.outcome_at.label("reported_at"),
    rollouts.c.outcome,
    rollouts.c.score_key,
    # The few that are attributed to an agent are read.
    case((verdicts.c.attributed_to == AttributedTo.AGENT.value, _RULE == OWN_FAILURES)).label(
        "own_failures"
    ),
)  # fmt: skip

_twin = rollouts.alias()
# Without a repeat's number one is the first of its task, unless several have the same numbers.
_ONLY_ONE = and_(
    rollouts.c.batch.is_not(None),
    rollouts.c.task.is_not(None),
    rollouts.c.repeat.is_(None),
    ~exists().where(
        _twin.c.batch == rollouts.c.batch,
        _twin.c.task == rollouts.c.task,
        _twin.c.repeat.is_(None),
        _twin.c.attempt.is_not_distinct_from(rollouts.c.attempt),
        _twin.c.id != rollouts.c.id,
    ),
)
FILED = (*ITEM, verdicts.c.held_s, case((_ONLY_ONE, 1), else_=0).label("only_one"))
"""The columns of a row of a file, of which each is looked at beside its task's others."""


# The second as the database reads the number, whose last bit may differ from Python's.
_SHOWN_AS = {"validity": "findings", "reported_reward": "place_by_report"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutQuery:
    """The filters and the order of a list of rollouts.

    ``filters`` are values by name, of which one must apply: ``batch task repeat attempt model
    upstream role health subcategory fingerprint cause rule validity reward reported scoreable``.
    ``flags`` are those of `FLAGS` that must be true or false. ``since`` and ``until`` are of
    ``created_at``, in epoch seconds; between ``failed_since`` and ``failed_until`` a call began
    that failed. ``sort`` is one of `SORTS`; rollouts without that value come last.
    """

    filters: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    text: str | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    since: float | None = None
    until: float | None = None
    failed_since: float | None = None
    failed_until: float | None = None
    sort: str = "created_at"
    descending: bool = False

    @property
    def by_verdict(self) -> bool:
        """True if the filters or the order depend on verdicts."""
        fields = {*self.filters, self.sort, *(["text"] if self.text else [])}
        return not (fields.isdisjoint(JUDGED) and self.flags.keys() <= {"skipped"})


class Position(NamedTuple):
    """A rollout's place in a list; ``value`` is of a column other than ``created_at``."""

    created_at: float
    id: str
    value: str | float | bool | None = None


def page(
    connection: Connection,
    query: RolloutQuery,
    *,
    after: Position | None = None,
    limit: int,
    columns: Sequence[ColumnElement[Any]] = ITEM,
) -> list[Facts]:
    """List rollouts with the verdict they have.

    Arguments:
        after: the place of the rollout before the page.
        columns: of ``JOINED``; with the ``id``, ``created_at`` and what is sorted by, but for
            ``reported_reward``.
    """
    ids = [row.id for row in _keys(connection, query, after, limit)]
    return items_of(connection, ids, columns=with_place(query, columns))


def with_place(
    query: RolloutQuery, columns: Sequence[ColumnElement[Any]] = ITEM
) -> Sequence[ColumnElement[Any]]:
    """Return the columns, and those that the `position` of a rollout in the list is made of."""
    if query.sort != "reported_reward":
        return columns
    return (*columns, _REPORTED.label(_SHOWN_AS[query.sort]))


def items_of(
    connection: Connection, ids: Sequence[str], *, columns: Sequence[ColumnElement[Any]] = ITEM
) -> list[Facts]:
    """Return the columns of rollouts in the order of their ids, without those that are unknown."""
    wanted = select(*columns).select_from(JOINED).where(rollouts.c.id.in_(ids))
    rows = {row["id"]: dict(row) for row in connection.execute(wanted).mappings()} if ids else {}
    return [rows[name] for name in ids if name in rows]


def conditions(query: RolloutQuery) -> list[ColumnElement[bool]]:
    """Return what the rollouts of a list must be, as conditions on `rollouts`."""
    walk = _Walk(rollouts.c.id, rollouts.c.created_at, {})
    return _wanted(replace(query, sort="created_at"), walk, None)


def position(query: RolloutQuery, row: Mapping[str, Any]) -> Position:
    """Return the place of a listed rollout, a row `with_place`."""
    value = None if query.sort == "created_at" else row[_SHOWN_AS.get(query.sort, query.sort)]
    return Position(row["created_at"], row["id"], value)


# --- keys ------------------------------------------------------------------------------------


class _Walk(NamedTuple):
    """A table whose index is followed: ``lead`` are its first columns, then comes the order."""

    id: Column[Any]
    at: Column[Any]
    lead: Mapping[Column[Any], Sequence[Value]]
    known: ColumnElement[Any] | None = None  # which orders before `at`, and is not null

    @property
    def judged(self) -> bool:
        return self.id.table is verdicts


def _keys(
    connection: Connection, query: RolloutQuery, after: Position | None, limit: int
) -> list[Any]:
    """Return the ids of a page; those for which `sort` is unknown follow by their time."""
    if query.sort == "created_at":
        return _read(connection, query, _by_time(query), after, limit)
    keys: list[Any] = []
    if after is None or after.value is not None:
        keys = _read(connection, query, _by_value(query), after, limit)
        after = None
    if len(keys) < limit:
        keys += _read(connection, query, _by_time(query), after, limit - len(keys))
    return keys


def _by_value(query: RolloutQuery) -> _Walk:
    table = verdicts if query.sort in _OF_VERDICT else rollouts
    return _walk(query, table, known=SORTS[query.sort])


def _by_time(query: RolloutQuery) -> _Walk:
    if "task" in query.filters:
        return _walk(query, rollouts, "task")
    if [*query.filters.get("reward", ())] == ["zero"]:
        zero = _walk(query, verdicts)
        return zero._replace(lead={**zero.lead, verdicts.c.reward: [0]})
    leading = next((name for name in _WALKED if name in query.filters), None)
    return _walk(query, verdicts, leading) if leading else _walk(query, rollouts)


def _walk(
    query: RolloutQuery, table: Any, *leading: str, known: ColumnElement[Any] | None = None
) -> _Walk:
    named = [name for name in ("batch", *leading) if name in query.filters]
    lead = {table.c[name]: query.filters[name] for name in named}
    if table is verdicts:
        return _Walk(verdicts.c.rollout_id, verdicts.c.began_at, lead, known)
    return _Walk(rollouts.c.id, rollouts.c.created_at, lead, known)


def _read(
    connection: Connection, query: RolloutQuery, walk: _Walk, after: Position | None, limit: int
) -> list[Any]:
    """Follow an index once for each of the values that it begins with, and join what they give."""
    wanted = _wanted(query, walk, after)
    begun = list(itertools.product(*walk.lead.values()))
    if len(begun) > _WALKS:
        begun, wanted = [()], [*itertools.starmap(_any_of, walk.lead.items()), *wanted]
    walks = [
        _in_order(walk, query, [*map(_is, walk.lead, values), *wanted]).limit(limit)
        for values in begun
    ]
    if len(walks) == 1:
        return list(connection.execute(walks[0]))
    parts = union_all(*(select(each.subquery()) for each in walks)).subquery()
    order = [parts.c[name] for name in ("value", "at", "id") if name in parts.c]
    return list(connection.execute(_ordered(select(parts), query, order).limit(limit)))


def _in_order(
    walk: _Walk, query: RolloutQuery, conditions: Sequence[ColumnElement[bool]]
) -> Select[Any]:
    named = [walk.id.label("id"), walk.at.label("at")]
    order: list[ColumnElement[Any]] = [walk.at, walk.id]
    if walk.known is not None:
        named, order = [*named, walk.known.label("value")], [walk.known, *order]
    return _ordered(select(*named).where(*conditions), query, order)


def _ordered(
    select_: Select[Any], query: RolloutQuery, order: Sequence[ColumnElement[Any]]
) -> Select[Any]:
    return select_.order_by(*(each.desc() if query.descending else each for each in order))


# --- conditions ------------------------------------------------------------------------------


def _wanted(query: RolloutQuery, walk: _Walk, after: Position | None) -> list[ColumnElement[bool]]:
    """Return what the rows of a walk must be, apart from what its index begins with."""
    begun = {column.name for column in walk.lead}
    conditions = [
        _filtered(walk, name, values) for name, values in query.filters.items() if name not in begun
    ]
    if query.text:
        conditions.append(_mentions(walk, query.text, query.filters.get("batch", ())))
    for name, wanted in query.flags.items():
        found = _flagged(walk, name, query.filters.get("batch", ()))
        conditions.append(found if wanted else not_(found))
    if query.since is not None:
        conditions.append(walk.at >= query.since)
    if query.until is not None:
        conditions.append(walk.at < query.until)
    if (query.failed_since, query.failed_until) != (None, None):
        conditions.append(_failed(walk, query.failed_since, query.failed_until))
    if walk.known is not None:
        conditions.append(walk.known.is_not(None))
        if walk.known is verdicts.c.cause:  # an index has the few that have a fingerprint
            conditions.append(verdicts.c.fingerprint.is_not(None))
    elif query.sort != "created_at":
        conditions.append(_unknown(walk, query.sort))
    if after is not None:
        conditions.append(_beyond(walk, query, after))
    return conditions


def _filtered(walk: _Walk, name: str, values: Sequence[Value]) -> ColumnElement[bool]:
    if name in _OF_ROLLOUTS:
        return _rollout(walk, _any_of(rollouts.c[name], values))
    if name in _OF_VERDICTS:
        return _verdict(walk, _any_of(verdicts.c[name], values))
    if name == "rule":
        return _verdict(walk, _RULE.in_(values))
    if name in _OF_CALLS:
        return _called(walk, name, values)
    if name == "validity":
        conditions = (
            verdicts.c.validity.contains(f" {value} ", autoescape=True) for value in values
        )
        return _verdict(walk, or_(*conditions))
    kind = _reported if name == "reported" else _rewarded
    return or_(*(kind(walk, str(value)) for value in values))


def _flagged(walk: _Walk, name: str, batches: Sequence[Value]) -> ColumnElement[bool]:
    """Return the condition that one of `FLAGS` is true; it is true or false, never unknown."""
    if name == "unearned":
        return _verdict(walk, func.coalesce(verdicts.c.unearned, false()))
    if name == "superseded":
        others = _run_again(batches)
        return walk.id.in_(select(others.c.id).where(others.c.place > 1))
    if name in ("false_zero", "false_one", "measured"):
        return _counted_as(walk, name, batches)
    admitted = _rollout(walk, rollouts.c.skipped.is_(None))
    if name == "skipped":
        return not_(admitted)
    return or_(
        _verdict(walk, verdicts.c.provisional),
        and_(admitted, not_(_verdict(walk, verdicts.c.health.is_not(None)))),
    )


def _counted_as(walk: _Walk, name: str, batches: Sequence[Value]) -> ColumnElement[bool]:
    """Return the condition that a rollout is measured, or that its repeat reads as it reports."""
    r, v = rollouts.alias(), verdicts.alias()
    same = (r.c.id == walk.id, v.c.rollout_id == r.c.id)
    if name == "measured":
        return exists().where(*same, v.c.scoreable == "yes", _score(r, v).is_not(None))
    read = _shown(r, v)
    taken = exists().where(
        *same,
        v.c.provisional.is_(False),
        v.c.scoreable != "yes",
        read == 0 if name == "false_zero" else read > 0,
    )
    others = _run_again(batches)
    read_by_another = or_(others.c.scored > 0, others.c.reported_place > 1)
    return and_(taken, walk.id.not_in(select(others.c.id).where(read_by_another)))


def _score(of: FromClause, judged: FromClause) -> ColumnElement[Any]:
    """Return the reward of a rollout, counted or not, as `batch_counts` reads it."""
    known = or_(
        of.c.outcome.is_(None), and_(judged.c.scoreable == "yes", judged.c.reward.is_not(None))
    )
    return case((known, judged.c.reward), else_=_ReportedReward(of.c.outcome, of.c.score_key))


def _shown(of: FromClause, judged: FromClause) -> ColumnElement[Any]:
    """Return the same; if no reward is the score, 0 for a zero under any key, else the greatest."""
    return func.coalesce(_score(of, judged), _UnnamedReward(of.c.outcome))


def _run_again(batches: Sequence[Value]) -> Subquery:
    """Select the judged attempts at repeats that may have several, as `task_repeats` groups them.

    ``place`` is 1 for the attempt that counts, ``scored`` how many attempts have a score, and
    ``reported_place`` is 1 for the last attempt with a reported reward.
    """
    r, v = rollouts.c, verdicts.c
    placed: list[ColumnElement[bool]] = [r.batch.is_not(None), r.task.is_not(None)]
    placed += [_any_of(r.batch, batches)] if batches else []
    same = and_(v.rollout_id == r.id, v.health.is_not(None))
    several = (
        select(r.batch, r.task, r.repeat)
        .where(*placed, or_(r.repeat.is_not(None), r.attempt.is_not(None)))
        .group_by(r.batch, r.task, r.repeat)
        .having(func.count() > 1)
        .subquery()
    )
    alike = and_(
        several.c.batch == r.batch, several.c.task == r.task,
        or_(several.c.repeat == r.repeat, and_(several.c.repeat.is_(None), r.repeat.is_(None))),
    )  # fmt: skip
    of_number = func.row_number().over(
        partition_by=(r.batch, r.task, r.repeat, r.attempt), order_by=(r.created_at, r.id)
    )
    attempts = (
        select(
            r.id, r.batch, r.task, r.repeat, r.created_at,
            func.coalesce(r.attempt, 0).label("attempt"),
            case((r.repeat.is_(None), of_number)).label("sample"),
            and_(v.scoreable == "yes", _score(rollouts, verdicts).is_not(None)).label("scored"),
            _shown(rollouts, verdicts).is_not(None).label("reported"),
        )
        .select_from(rollouts.join(verdicts, same).join(several, alike))
        .where(*placed, or_(r.repeat.is_not(None), r.attempt.is_not(None)))
        .subquery()
    )  # fmt: skip
    a = attempts.c
    of_repeat = (a.batch, a.task, a.repeat, a.sample)
    age = (a.attempt, a.created_at, a.id)
    latest = [each.desc() for each in age]
    first_scored = [case((a.scored, each)) for each in age]
    return select(
        a.id,
        func.row_number()
        .over(
            partition_by=of_repeat, order_by=(case((a.scored, 0), else_=1), *first_scored, *latest)
        )
        .label("place"),
        func.sum(case((a.scored, 1), else_=0)).over(partition_by=of_repeat).label("scored"),
        func.row_number()
        .over(partition_by=of_repeat, order_by=(case((a.reported, 0), else_=1), *latest))
        .label("reported_place"),
    ).subquery()


def _rollout(walk: _Walk, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition on the walk's rollouts."""
    return exists().where(rollouts.c.id == walk.id, condition) if walk.judged else condition


def _verdict(walk: _Walk, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition on their verdicts; false where there is none."""
    return condition if walk.judged else exists().where(verdicts.c.rollout_id == walk.id, condition)


def _called(walk: _Walk, name: str, values: Sequence[Value]) -> ColumnElement[bool]:
    made = exists().where(exchanges.c.rollout_id == walk.id, exchanges.c[name].in_(values))
    return made if name == "role" else or_(_rollout(walk, rollouts.c[name].in_(values)), made)


def _failed(walk: _Walk, since: float | None, until: float | None) -> ColumnElement[bool]:
    began = exchanges.c.started_at
    return exists().where(
        exchanges.c.rollout_id == walk.id,
        exchanges.c.subcategory.is_not(None),
        began >= since if since is not None else true(),
        began < until if until is not None else true(),
    )


def _rewarded(walk: _Walk, kind: str) -> ColumnElement[bool]:
    if kind == "missing":
        return _rollout(walk, rollouts.c.outcome_at.is_(None))
    if kind == "null":
        reported = _rollout(walk, rollouts.c.outcome_at.is_not(None))
        return and_(reported, _unknown(walk, "reward"))
    return _verdict(walk, verdicts.c.reward == 0 if kind == "zero" else verdicts.c.reward != 0)


def _reported(walk: _Walk, kind: str) -> ColumnElement[bool]:
    """Return the condition that the runner reported a reward of this kind, counted or not."""
    if kind == "null":
        return _rollout(walk, and_(rollouts.c.outcome_at.is_not(None), _REPORTED.is_(None)))
    return _rollout(walk, _REPORTED == 0 if kind == "zero" else _REPORTED != 0)


def _unknown(walk: _Walk, name: str) -> ColumnElement[bool]:
    column = SORTS[name]
    if name not in _OF_VERDICT:
        return _rollout(walk, column.is_(None))
    return not_(_verdict(walk, column.is_not(None)))


def _mentions(walk: _Walk, text: str, batches: Sequence[Value]) -> ColumnElement[bool]:
    """Return a condition on names and causes; every rollout is looked at, until a page is full."""
    named, judged = (
        or_(*(column.icontains(text, autoescape=True) for column in columns))
        for columns in _SEARCHED
    )
    if walk.judged:
        return or_(_rollout(walk, named), judged)
    # Once for all: what has a cause has a fingerprint, by whose index the few that failed are read.
    failed = select(verdicts.c.rollout_id).where(verdicts.c.fingerprint.is_not(None), judged)
    if batches:
        failed = failed.where(_any_of(verdicts.c.batch, batches))
    return or_(named, walk.id.in_(failed))


def _beyond(walk: _Walk, query: RolloutQuery, after: Position) -> ColumnElement[bool]:
    mine: list[ColumnElement[Any]] = [walk.at, walk.id]
    place: list[Any] = [after.created_at, after.id]
    if walk.known is not None:
        mine, place = [walk.known, *mine], [after.value, *place]
    return tuple_(*mine) < tuple_(*place) if query.descending else tuple_(*mine) > tuple_(*place)


def _any_of(column: Column[Any], values: Sequence[Value]) -> ColumnElement[bool]:
    among = column.in_([value for value in values if value is not None])
    return or_(among, column.is_(None)) if None in values else among


def _is(column: Column[Any], value: Value) -> ColumnElement[bool]:
    return column.is_(None) if value is None else column == value


# --- counts by common values -------------------------------------------------------------------


GROUPS: Mapping[str, Column[Any]] = {
    **{name: rollouts.c[name] for name in ("batch", "task", "model", "upstream")},
    **{
        name: verdicts.c[name]
        for name in ("health", "subcategory", "fingerprint", "cause", "scoreable")
    },
}


def grouped(connection: Connection, query: RolloutQuery, by: str, *, limit: int) -> list[Facts]:
    """Count the rollouts of a list by one of `GROUPS`, the largest groups first.

    Returns:
        Rows of ``value`` (None: of none), ``rollouts``, ``scoreable`` ones, their mean ``reward``,
        ``total_tokens`` and ``cost_usd`` (None if no verdict says), ``priced`` verdicts.
    """
    matching = select(rollouts.c.id).where(*conditions(query)).subquery()
    value = GROUPS[by].label("value")
    counted = func.count().label("rollouts")
    measured = verdicts.c.scoreable == "yes"
    rows = (
        select(
            value,
            counted,
            func.count().filter(measured).label("scoreable"),
            func.avg(verdicts.c.reward).filter(measured).label("reward"),
            func.sum(verdicts.c.total_tokens).label("total_tokens"),
            func.sum(verdicts.c.cost_usd).label("cost_usd"),
            func.count(verdicts.c.cost_usd).label("priced"),
        )
        .select_from(matching.join(JOINED, rollouts.c.id == matching.c.id))
        .group_by(value)
        .order_by(counted.desc(), value)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(rows).mappings()]


class ViewTotals(NamedTuple):
    """The sums of a list of rollouts; ``more`` if only the first of them were counted.

    Without a count of tokens, or a cost, ``total_tokens`` and ``cost_usd`` are None.
    """

    rollouts: int
    scoreable: int
    total_tokens: int | None
    cost_usd: float | None
    more: bool


def view_totals(connection: Connection, query: RolloutQuery, *, most: int) -> ViewTotals:
    """Add up the rollouts of a list, ``most`` of them at most."""
    matching = select(rollouts.c.id).where(*conditions(query)).limit(most + 1).subquery()
    total = select(
        func.count(),
        func.count().filter(verdicts.c.scoreable == "yes"),
        func.sum(verdicts.c.total_tokens),
        func.sum(verdicts.c.cost_usd),
    ).select_from(matching.join(JOINED, rollouts.c.id == matching.c.id))
    count, scoreable, tokens, cost = connection.execute(total).one()
    return ViewTotals(count, scoreable, tokens, cost, count > most)


# --- search by a part of a name ----------------------------------------------------------------


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
    """List rollouts by the words of a text, in any order and case, the newest first.

    Each word is in the id, task or batch of a rollout, and one of them in its id or task.
    """
    words, own = text.split() or [text], (rollouts.c.id, rollouts.c.task)
    anywhere = [_holds(word, (*own, rollouts.c.batch)) for word in words]
    query = (
        select(rollouts.c.id)
        .where(*anywhere, or_(*(_holds(word, own) for word in words)))
        .order_by(rollouts.c.created_at.desc(), rollouts.c.id.desc())
    )
    return list(connection.execute(query.limit(limit)).scalars())


def find_tasks(connection: Connection, text: str, *, limit: int) -> list[tuple[str, str]]:
    """List tasks and their batches by the words of a text, as for rollouts.

    Those of exactly that name come first, then those with the shortest names.
    """
    words = text.split() or [text]

    named, anywhere = (rollouts.c.task,), (rollouts.c.task, rollouts.c.batch)
    task, batch = anywhere
    query = (
        select(task, batch)
        .where(task.is_not(None), batch.is_not(None))
        .where(*(_holds(word, anywhere) for word in words))
        .where(or_(*(_holds(word, named) for word in words)))
        .group_by(task, batch)
        .order_by(func.lower(task) != text.lower(), func.length(task), task, batch)
    )
    return [(row.task, row.batch) for row in connection.execute(query.limit(limit))]


def _holds(word: str, columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    return or_(*(column.icontains(word, autoescape=True) for column in columns))


def has_rollout(connection: Connection, name: str) -> bool:
    """Return True if a rollout has exactly this id."""
    return connection.scalar(select(rollouts.c.id).where(rollouts.c.id == name)) is not None
