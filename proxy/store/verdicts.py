"""The table of verdicts: stored once judged, and read by batch, by task and across batches."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from secrets import randbits
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    BindParameter,
    Connection,
    Float,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)

from classifier.verdicts import Policy, Verdict
from proxy.feature import modules
from proxy.store.batch_counts import PLACE, derived
from proxy.store.batch_versions import changing
from proxy.store.connections import Connections
from proxy.store.events import NewEvent, batch_ended, verdict_given, write_event
from proxy.store.runs import OVER_AT, has_ended
from proxy.store.tables import (
    IDS,
    Row,
    batch_runs,
    batches,
    exchanges,
    insert_into,
    open_calls,
    rollouts,
    unjudged,
    verdicts,
)

# --- a rollout in the transaction that stores its verdict --------------------------------------


class RolloutState(NamedTuple):
    """The state of a rollout and its batch as its verdict is stored.

    ``version`` and ``first_at`` are its batch's, ``over_at`` is when that was declared over,
    ``change`` is its last one that was not judged, ``provisional`` is that of the verdict before.
    Each is None if there is none. The rest are columns of the rollout, as in
    `batch_counts.PLACE`.
    """

    version: int | None
    first_at: float | None
    over_at: float | None
    change: int | None
    provisional: bool | None
    task: str | None
    created_at: float | None
    outcome: str | None
    score_key: str | None
    skipped: str | None
    fallbacks: str | None

    @property
    def batch(self) -> tuple[Any, ...]:
        """A value that is another if anything has changed in its batch."""
        return self.version, self.first_at, self.over_at, self.outcome

    @property
    def place(self) -> dict[str, Any]:
        """The columns of the rollout on which the derived ones of its verdict depend."""
        return {name: getattr(self, name) for name in PLACE}

    @property
    def first(self) -> bool:
        """True if a final verdict would be the rollout's first one."""
        return self.provisional is None or bool(self.provisional)

    @property
    def stands(self) -> bool:
        """True if the rollout's outcome has a final verdict, which no other replaces."""
        return not self.first and self.outcome is not None


def state_of(connection: Connection, rollout_id: str) -> RolloutState:
    """Return the state of a rollout."""
    return RolloutState._make(connection.execute(_STATE, {"of": rollout_id}).one())


_OWN = rollouts.c.id == bindparam("of")
_OF_RUNS = batch_runs.c.batch == select(rollouts.c.batch).where(_OWN).scalar_subquery()
_OF_BATCH = batches.c.batch == select(rollouts.c.batch).where(_OWN).scalar_subquery()
_STATE = select(
    select(batches.c.version).where(_OF_BATCH).scalar_subquery(),
    select(batches.c.first_at).where(_OF_BATCH).scalar_subquery(),
    select(OVER_AT).where(_OF_RUNS).scalar_subquery(),
    select(unjudged.c.change).where(unjudged.c.rollout_id == bindparam("of")).scalar_subquery(),
    select(verdicts.c.provisional)
    .where(verdicts.c.rollout_id == bindparam("of"))
    .scalar_subquery(),
    *(select(rollouts.c[name]).where(_OWN).scalar_subquery() for name in PLACE),
)


# --- the end of a rollout's calls --------------------------------------------------------------


class EndOfCalls(NamedTuple):
    """The end of a rollout's calls, in epoch seconds, and how many processes did not say so."""

    at: float
    gaps: int


def end_calls(
    connection: Connection, rollout_id: str, end: EndOfCalls, *, calls: int | None = None
) -> None:
    """Store that a rollout's calls have ended, once; the lock of its verdict is held.

    Where it has a final verdict, they had ended when that was given.

    Arguments:
        calls: how many ended ones there were; None counts those on record.
    """
    connection.execute(
        _END_CALLS, {"of": rollout_id, "at": end.at, "more": end.gaps, "known": calls}
    )


def _final_or(column: Any, otherwise: Any) -> Any:
    """Return a column of the rollout's final verdict, else another value."""
    of_final = (verdicts.c.rollout_id == bindparam("of"), verdicts.c.provisional.is_(False))
    return func.coalesce(select(column).where(*of_final).scalar_subquery(), otherwise)


_ON_RECORD = select(func.count()).where(exchanges.c.rollout_id == bindparam("of"))
_END_CALLS = (
    update(rollouts)
    .where(_OWN, rollouts.c.closed_at.is_(None))
    .values(
        closed_at=_final_or(verdicts.c.given_at, bindparam("at", type_=Float)),
        closed_calls=_final_or(
            verdicts.c.calls,
            func.coalesce(bindparam("known", type_=Integer), _ON_RECORD.scalar_subquery()),
        ),
        gaps=rollouts.c.gaps + _final_or(literal(0), bindparam("more", type_=Integer)),
    )
)


# --- verdicts ----------------------------------------------------------------------------------


class FinalPart(Protocol):
    """The part of a feature in the transaction that stores a rollout's first final verdict.

    It is the result of ``begin(judged)`` of the module ``final`` of a feature; None has no part.
    ``reads`` is False of one that has nothing to read before it writes.
    """

    reads: bool

    def read(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Read what it needs.

        That is before the transaction, for which agents wait, and within it again if anything has
        changed in the batch since.

        Arguments:
            row: columns of the verdict; of a rollout that is not admitted its ``rollout_id``, its
                ``batch`` and when that was, as ``given_at``.
        """
        ...

    def write(self, connection: Connection, row: Mapping[str, Any]) -> Iterable[NewEvent]:
        """Write what follows; return the events that tell of it, and write none itself.

        The lock of events is the last that is taken.
        """
        ...


class Judged(NamedTuple):
    """A final verdict that is about to be stored: by which policy it was given, and when.

    ``rollout`` are the columns of its rollout.
    """

    database: Any  # the `Database` that it is stored in
    verdict: Verdict
    policy: Policy
    now: float
    rollout: Row | Mapping[str, Any]


def final_parts(judged: Judged | None) -> list[FinalPart]:
    """Return the parts of features in a final verdict, or in a rollout that is not admitted."""
    begun = (module.begin(judged) for _, module in modules("final"))
    return [part for part in begun if part is not None]


class Outdated(NamedTuple):
    """Rollouts to be judged, in this order; the last ``again`` of them run and have a verdict."""

    ids: list[str]
    again: int


def adds_rewards(standing: str | None, outcome: str) -> bool:
    """Return True if an outcome is the one that stands, which has no rewards, and its rewards."""
    if standing is None or standing == outcome:
        return False
    before, now = json.loads(standing), json.loads(outcome)
    if before.pop("rewards", None) or not now.pop("rewards", None):
        return False
    return bool(before == now)


_PASSES = 100  # of a task, the last ones


class Verdicts:
    """Reads and writes the table `verdicts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def store(
        self,
        row: Mapping[str, Any],
        parts: Sequence[FinalPart] = (),
        *,
        known: Row | Mapping[str, Any] | None = None,
        end: EndOfCalls | None = None,
    ) -> bool:
        """Store a verdict in place of the one before; columns as in `verdicts`.

        A provisional one is not stored where the rollout has changed since it was judged, and
        none in place of the final verdict on an outcome.

        Returns:
            Whether it is the rollout's first final one, of all processes.

        Arguments:
            parts: write what follows from a first final verdict, in their order.
            known: the rollout's columns and its last ``change``, as the verdict knows them; without
                them, it is stored whatever has changed.
            end: of the calls that it knows, which is stored with it, whatever becomes of it.
        """
        batch, rollout_id = row["batch"], row["rollout_id"]
        # Worked out before the writer's turn, for which agents wait, and again only if it changed.
        place = None if known is None else {name: known[name] for name in PLACE}
        stays = known is not None and bool(known["registered"])
        if place is not None:
            row = {**row, **derived(row, place)}
        before = None if row["provisional"] else self._read_ahead(row, parts)
        with (
            self._connections.writing() as connection,
            changing(connection, [rollout_id], into=[batch], stay=stays, verdicts=True),
        ):
            now = state_of(connection, rollout_id)
            if end is not None:
                end_calls(connection, rollout_id, end, calls=row["calls"])
            if now.stands:
                return False
            if now.place != place:
                row = {**row, **derived(row, now.place)}
            if row["provisional"]:
                if known is None or known["change"] == now.change:
                    _keep(connection, row)
                return False
            for part in parts if now.batch != before else ():
                part.read(connection, row)
            return _keep_final(connection, row, parts, now)

    def _read_ahead(
        self, row: Mapping[str, Any], parts: Sequence[FinalPart]
    ) -> tuple[Any, ...] | None:
        """Have parts read; return the state of the batch that they saw, None if none has to."""
        if not any(part.reads for part in parts):
            return None
        with self._connections.reading() as connection:
            seen = state_of(connection, row["rollout_id"]).batch
            for part in parts:
                part.read(connection, row)
        return seen

    def add_rewards(self, row: Mapping[str, Any], outcome: str) -> bool:
        """Store rewards that came after a final verdict, with the columns of it that they change.

        Arguments:
            row: those columns of `verdicts`, and its ``rollout_id``.
            outcome: the one that stands, with its rewards (JSON text).

        Returns:
            Whether it stands now: others may have come first.
        """
        rollout_id = row["rollout_id"]
        own = verdicts.c.rollout_id == rollout_id
        with (
            self._connections.writing() as connection,
            changing(connection, [rollout_id], verdicts=True),
        ):
            now = state_of(connection, rollout_id)
            if not (now.outcome == outcome or adds_rewards(now.outcome, outcome)):
                return False
            added = update(rollouts).where(rollouts.c.id == rollout_id).values(outcome=outcome)
            connection.execute(added)
            if now.stands:
                stored = connection.execute(select(verdicts).where(own)).mappings().one()
                place = {**now.place, "outcome": outcome}
                changed = {**row, **derived({**stored, **row}, place)}
                connection.execute(update(verdicts).where(own).values(changed))
            return True

    def final(self, rollout_id: str) -> Row | None:
        """Return the final verdict of a rollout that has one, else None.

        Of one that was not admitted and has no outcome, it stands until a call comes.

        Returns:
            ``verdict`` and ``result`` as JSON text, ``late_calls``: calls that it does not know.
        """
        with self._connections.reading() as connection:
            rows = connection.execute(_FINAL, {"name": rollout_id})
            return rows.mappings().one_or_none()

    def unjudged(
        self,
        *,
        batch: str | None = None,
        among: Sequence[str] | None = None,
        limit: int,
        running: int | None = None,
    ) -> Outdated:
        """List rollouts whose verdict may have changed since they were judged.

        Those with an outcome and those that were skipped, then those without a verdict, the oldest
        first; then those with a provisional one that have changed since, the one judged longest ago
        first. Of one batch, among these ids, or of all. What it costs depends on how many those
        are.

        Arguments:
            running: at most so many that neither have an outcome nor were skipped.
        """
        ended = or_(rollouts.c.outcome_at.is_not(None), rollouts.c.skipped.is_not(None))
        judged = verdicts.c.rollout_id.is_not(None)
        kind = case((ended, 0), (~judged, 1), else_=2)
        query = (
            select(unjudged.c.rollout_id, kind)
            .join_from(unjudged, rollouts, _SAME_ROLLOUT)
            .outerjoin(verdicts, verdicts.c.rollout_id == unjudged.c.rollout_id)
        )
        if batch is not None:
            query = query.where(unjudged.c.batch == batch)
        if among is not None:
            query = query.where(unjudged.c.rollout_id.in_(among))
        since = case((kind == 2, verdicts.c.given_at), else_=rollouts.c.created_at)
        query = query.order_by(kind, since).limit(limit)
        names: tuple[list[str], ...] = ([], [], [])
        with self._connections.reading() as connection:
            for name, of_kind in connection.execute(query):
                names[of_kind].append(name)
        run = [*names[1], *names[2]][:running]
        return Outdated([*names[0], *run], max(0, len(run) - len(names[1])))

    def earlier_causes(
        self, batch: str | None, task: str, attempt: int, *, repeat: int | None = None
    ) -> list[str]:
        """Return the causes of a task's attempts before this one, of its repeat, oldest first."""
        query = (
            select(verdicts.c.cause)
            .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
            .where(rollouts.c.batch == batch, rollouts.c.task == task)
            .where(rollouts.c.repeat.is_not_distinct_from(repeat))
            .where(rollouts.c.attempt < attempt, verdicts.c.cause.is_not(None))
            .order_by(rollouts.c.attempt)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def passes_output(
        self, batch: str | None, task: str, *, above: float, but: str
    ) -> Sequence[int]:
        """Return the output tokens of a task's last passes, as far as they are known.

        Arguments:
            above: the least reward, which is no pass.
            but: the rollout that is left out.
        """
        given = {"task": task, "above": above, "but": but}
        query = _PASSES_ALONE if batch is None else _PASSES_OF_BATCH
        if batch is not None:
            given["batch"] = batch
        with self._connections.reading() as connection:
            return connection.execute(query, given).scalars().all()


def _final_query() -> Select[Any]:
    name: BindParameter[str] = bindparam("name")
    ended = select(func.count()).where(exchanges.c.rollout_id == name).scalar_subquery()
    known = select(exchanges.c.id).where(
        exchanges.c.rollout_id == name, exchanges.c.id == open_calls.c.id
    )
    in_flight = (
        select(func.count())
        .where(open_calls.c.rollout_id == name, ~known.exists())
        .scalar_subquery()
    )
    unrun = and_(rollouts.c.skipped.is_not(None), ended + in_flight == verdicts.c.calls)
    late = (ended + in_flight - verdicts.c.calls).label("late_calls")
    return (
        select(verdicts.c.verdict, verdicts.c.result, late)
        .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
        .where(verdicts.c.rollout_id == name, verdicts.c.provisional.is_(False))
        .where(or_(rollouts.c.outcome_at.is_not(None), unrun))
    )


_FINAL = _final_query()  # made once: to make it takes longer than to ask it
_IS_FINAL = verdicts.c.provisional.is_(False)
_OUTPUT = (
    select(verdicts.c.output_tokens)
    .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
    .where(rollouts.c.task == bindparam("task"), rollouts.c.id != bindparam("but"))
    .where(verdicts.c.reward > bindparam("above"), verdicts.c.output_tokens > 0)
    .where(_IS_FINAL, verdicts.c.unearned.is_not(True))
    .order_by(rollouts.c.created_at.desc())
    .limit(_PASSES)
)
_PASSES_OF_BATCH = _OUTPUT.where(rollouts.c.batch == bindparam("batch"))
_PASSES_ALONE = _OUTPUT.where(rollouts.c.batch.is_(None))


def _keep(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(_upsert(connection.dialect.name, bool(row["provisional"])), row)
    # The last of all: calls that end now wait for it, and others for those.
    of = {"of": row["rollout_id"]}
    connection.execute(_NOTE_JUDGED_RUNNING if row["provisional"] else _NOTE_JUDGED, of)


def _keep_final(
    connection: Connection,
    row: Mapping[str, Any],
    parts: Sequence[FinalPart],
    now: RolloutState,
) -> bool:
    """Store a final verdict; returns whether it is the rollout's first final one."""
    if now.first:
        found = [event for part in parts for event in part.write(connection, row)]
        write_event(connection, verdict_given(row), row)
        for event in found:
            write_event(connection, event, row)
    _keep(connection, row)
    if now.first and has_ended(connection, row["batch"], now.over_at):
        batch_ended(connection, row["batch"], row["given_at"])
    return now.first


@cache
def _upsert(dialect: str, provisional: bool) -> Any:
    """Return the statement that stores a verdict; a provisional one unless a final one stands.

    A provisional verdict may have been read before the outcome came.
    """
    statement = insert_into(dialect, verdicts)
    return statement.on_conflict_do_update(
        index_elements=["rollout_id"],
        set_={name: statement.excluded[name] for name in verdicts.columns.keys()},  # noqa: SIM118
        where=verdicts.c.provisional.is_(True) if provisional else None,
    )


# --- rollouts that are to be judged again ------------------------------------------------------


def queue_for_judging(connection: Connection, ids: Collection[str]) -> None:
    """Queue rollouts with a final verdict for judging again. Triggers queue only the others."""
    connection.execute(_queue(connection.dialect.name), {"ids": list(ids), "change": randbits(62)})


@cache
def _queue(dialect: str) -> Any:
    noted = insert_into(dialect, unjudged)
    columns = ["rollout_id", "batch", "change"]
    change = bindparam("change", type_=unjudged.c.change.type)
    of_ids = select(rollouts.c.id, rollouts.c.batch, change).where(rollouts.c.id.in_(IDS))
    again = {name: noted.excluded[name] for name in columns[1:]}
    return noted.from_select(columns, of_ids.order_by(rollouts.c.id)).on_conflict_do_update(
        index_elements=["rollout_id"], set_=again
    )


def dequeue_judged(connection: Connection, ids: Collection[str]) -> None:
    """Take rollouts off the queue whose final verdicts stand, although rows were written since."""
    final = select(verdicts.c.rollout_id).where(
        verdicts.c.rollout_id.in_(ids), verdicts.c.provisional.is_(False)
    )
    connection.execute(delete(unjudged).where(unjudged.c.rollout_id.in_(final)))


def dequeue_unchanged(connection: Connection, ids: Collection[str]) -> None:
    """Take rollouts under way off the queue whose provisional verdicts know all of their calls."""
    ended = select(func.count()).where(
        exchanges.c.rollout_id == verdicts.c.rollout_id, exchanges.c.ending.is_not(None)
    )
    current = (
        select(verdicts.c.rollout_id)
        .join(rollouts, rollouts.c.id == verdicts.c.rollout_id)
        .where(
            verdicts.c.rollout_id.in_(ids),
            verdicts.c.calls == ended.scalar_subquery(),
            rollouts.c.outcome_at.is_(None),
            rollouts.c.skipped.is_(None),
        )
    )
    connection.execute(delete(unjudged).where(unjudged.c.rollout_id.in_(current)))


_SAME_ROLLOUT = rollouts.c.id == unjudged.c.rollout_id
_RUNNING = select(rollouts.c.id).where(_SAME_ROLLOUT, rollouts.c.outcome_at.is_(None))
_NOTE_JUDGED = delete(unjudged).where(unjudged.c.rollout_id == bindparam("of"))
# One with an outcome is to become final.
_NOTE_JUDGED_RUNNING = _NOTE_JUDGED.where(_RUNNING.exists())
