"""Calls: the recorder's group commits, reads of a rollout's exchanges, and outlines of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    column,
    func,
    literal,
    select,
    text,
    union,
)

from classifier.fingerprints import Lane, plain
from classifier.lane import LOOKED_BACK_S, Spell
from classifier.records import RESERVED, UNATTRIBUTED, Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.store.closings import reopen
from proxy.store.connections import Commit, Connections
from proxy.store.errors import DatabaseUnavailable, RowRejected, reason
from proxy.store.events import exchange_failed
from proxy.store.lane_minutes import LaneCounter
from proxy.store.rows import exchange_of, exchange_row, open_exchange_of, open_row
from proxy.store.tables import (
    EXCHANGE_COLUMNS,
    FAILED,
    IDS,
    CommitBatch,
    Gap,
    OfIds,
    Row,
    call_usage,
    exchanges,
    open_calls,
    rollouts,
    verdicts,
)

_KNOWN_S = 3600.0  # a rollout known to exist is written again after it: it may have been pruned
_ID = EXCHANGE_COLUMNS.index("id")
_KNOWN = 100_000  # rollouts remembered: a bound, not a cache policy, for asking again is cheap
_NO_ANSWER = 300  # statuses from here on
_REJECTED = Subcategory.REJECTED_REQUEST.value
_Row = tuple[Any, ...]
_as_commit = partial(tuple.__new__, Commit)  # with each commit: no call of Python's own


class Calls:
    """Commits calls, and reads those of one rollout.

    Arguments:
        on_unavailable: called when the database did not take a commit, before it is raised.
    """

    def __init__(
        self, connections: Connections, on_unavailable: Callable[[DatabaseUnavailable], None]
    ) -> None:
        self._connections = connections
        self._on_unavailable = on_unavailable
        self._forget()
        self._known_since = 0.0
        self._open_ids: set[str] = set()
        self._lanes = LaneCounter()

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        """Commit one batch; all of it is durable when this returns.

        Raises:
            RowRejected: no database would take a row of it; nothing was written.
            DatabaseUnavailable: the database does not take it now; nothing was written.
        """
        try:
            self._write(batch, worker)
        except DatabaseUnavailable as error:
            self._lanes.forget()
            self._on_unavailable(error)
            raise
        except RowRejected:
            self._lanes.forget()
            raise
        except (ValueError, TypeError, OverflowError) as error:
            self._lanes.forget()
            raise RowRejected(reason(error)) from error

    def _forget(self) -> None:
        self._known = set(RESERVED)  # which are no rollouts, and get no row

    def _write(self, batch: CommitBatch, worker: str) -> None:
        recorded, gaps, known, open_ids = batch.recorded, batch.gaps, self._known, self._open_ids
        if len(recorded) > 1:  # the last one of an id stands
            recorded = list({each.id: each for each in recorded}.values())
        begun = _begun(batch) if batch.opened else ()
        if batch.late:  # before they are written: what fails then is tried again
            with self._connections.writing() as connection:
                reopen(connection, recorded)
                counted = _on_record(connection, recorded)  # their commit may have been made
        new: dict[str, float] = {}  # rollouts that this process has not written, and since when
        rows = [*map(exchange_row, recorded)]
        events: list[_Row] = []
        closed: list[_Row] = []
        for each in recorded:
            if each.rollout_id not in known and each.rollout_id not in gaps:  # it makes its own
                new[each.rollout_id] = each.timing.started_at
            if each.cause is not None:
                events.append(exchange_failed(each))
            if each.id in open_ids:
                closed.append((each.id,))
        for each in begun:
            if each.rollout_id not in known and each.rollout_id not in gaps:
                new.setdefault(each.rollout_id, each.timing.started_at)
        self._connections.commits.commit(
            _as_commit((
                tuple(new.items()) if new else (),
                _gap_rows(gaps) if gaps else (),
                [open_row(each, worker) for each in begun] if begun else (),
                rows, events, closed,
                self._lanes.add(
                    [row for row in rows if row[_ID] not in counted] if batch.late else rows
                ),
            ))
        )  # fmt: skip
        if new:
            self._remember(new)
        if closed:
            open_ids.difference_update(exchange_id for (exchange_id,) in closed)
        if begun:
            open_ids.update(each.id for each in begun)

    def _remember(self, written: Iterable[str]) -> None:
        """Remember that these rollouts are in the database."""
        if len(self._known) > _KNOWN:
            self._forget()
        self._known.update(written)

    def forget_rollouts(self) -> None:
        """Write every rollout again with its next call: the database may have been replaced."""
        self._forget()
        self._lanes.forget()

    def expire_rollouts(self, now: float) -> None:
        """Do so once an hour: rollouts may have been pruned."""
        if now - self._known_since > _KNOWN_S:
            self._forget()
            self._known_since = now

    def in_flight(self, rollout_id: str) -> int:
        """Count a rollout's calls in flight in any process."""
        query = select(func.count()).where(open_calls.c.rollout_id == rollout_id)
        with self._connections.reading() as connection:
            return connection.scalar(query) or 0

    def answered(self, rollout_id: str, *, upstream: str, response_digest: str) -> bool:
        """Return True if a rollout got this response as an answer, and it can be fetched later.

        Fetching it does not count, nor does another answer that has this id: some engines take
        the id of an answer from the request.
        """
        query = select(exchanges.c.id).where(
            exchanges.c.rollout_id == rollout_id,
            exchanges.c.upstream == upstream,
            exchanges.c.response_digest == response_digest,
            exchanges.c.kind == Kind.INFERENCE.value,
            exchanges.c.pending.is_not(None),
        )
        with self._connections.reading() as connection:
            return connection.scalar(query.limit(1)) is not None

    def near(
        self, *, since: float, at: float, until: float, upstreams: Collection[str], limit: int
    ) -> list[Exchange]:
        """List ended calls of any rollout around a time, those nearest to it.

        Arguments:
            since: began at or after it; all three in epoch seconds.
            at: up to ``limit`` calls that began before it, and as many after it, are looked at.
            until: began at or before it.
            upstreams: only calls to these are returned.
        """
        sides = (
            (_EXCHANGES.where(since <= _BEGAN, at >= _BEGAN), _BEGAN.desc()),
            (_EXCHANGES.where(at < _BEGAN, until >= _BEGAN), _BEGAN.asc()),
        )
        with self._connections.reading() as connection:
            rows = [
                row
                for query, order in sides
                for row in connection.execute(query.order_by(order).limit(limit))
            ]
        calls = map(exchange_of, rows)
        return [x for x in calls if x.upstream in upstreams and x.rollout_id not in RESERVED]

    def unattributed(self, *, since: float, until: float) -> int:
        """Count calls that began between two times (epoch seconds) and may be any rollout's work.

        Listings of models, embeddings and other roles' calls are nobody's.
        """
        within = (began.between(since, until) for began in (_BEGAN, open_calls.c.started_at))
        ended = select(exchanges.c.id).where(next(within), *_agents_work(exchanges))
        in_flight = select(open_calls.c.id).where(next(within), *_agents_work(open_calls))
        both = ended.union(in_flight).subquery()
        with self._connections.reading() as connection:
            return connection.scalar(select(func.count()).select_from(both)) or 0

    def seen_on(self, batch: str, lane: Lane) -> bool:
        """Return True if an agent of the batch called the lane's upstream and model."""
        of_batch = (call_usage.c.batch == batch, call_usage.c.upstream == lane.upstream)
        any_call = select(call_usage.c.minute).where(*of_batch, call_usage.c.role == "agent")
        calls = (
            select(exchanges.c.model)
            .distinct()
            .join_from(rollouts, exchanges, exchanges.c.rollout_id == rollouts.c.id)
            .where(rollouts.c.batch == batch, exchanges.c.upstream == lane.upstream)
            .where(exchanges.c.role == "agent", exchanges.c.kind == Kind.INFERENCE.value)
        )
        with self._connections.reading() as connection:
            # A batch without any call is the usual one to ask about, and has no row there.
            if connection.execute(any_call.limit(1)).first() is None:
                return False
            models = connection.execute(calls).scalars()
            return any(plain(model) == plain(lane.model) for model in models)

    def spell(self, lane: Lane, at: float, *, now: float) -> Spell:
        """Return the time without an answer in which a lane's call at a time failed.

        Of what came before that, only some ten minutes are looked at.

        Arguments:
            at, now: epoch seconds.
        """
        answered = (
            select(_BEGAN)
            .where(exchanges.c.subcategory.is_(None), *_on(lane))
            .where(exchanges.c.ending == Ending.COMPLETE.value, exchanges.c.status < _NO_ANSWER)
            .limit(1)
        )
        oldest = at - LOOKED_BACK_S
        before = answered.where(oldest <= _BEGAN, at > _BEGAN).order_by(_BEGAN.desc())
        after = answered.where(at <= _BEGAN, now > _BEGAN).order_by(_BEGAN)
        with self._connections.reading() as connection:
            since = connection.scalar(before) or oldest
            until = connection.scalar(after)
            run, none = rollouts.c, literal("")
            sample = func.coalesce(run.task, run.id) + func.coalesce(run.repeat.cast(Text), none)
            failed = (
                select(func.count(sample.distinct()))
                .join_from(exchanges, rollouts, rollouts.c.id == exchanges.c.rollout_id)
                .where(since < _BEGAN, (now if until is None else until) > _BEGAN)
                .where(text(FAILED), exchanges.c.subcategory != _REJECTED, *_on(lane))
            )
            if until is None:
                failed = failed.where(func.coalesce(run.attempt, 0) == 0)
            return Spell(until, connection.scalar(failed) or 0)

    def page(self, rollout_id: str, *, after: str | None, limit: int) -> list[Exchange] | None:
        """List up to ``limit`` exchanges of a rollout by id, oldest first; None if unknown."""
        after = after or ""
        named = select(rollouts.c.id).where(rollouts.c.id == rollout_id)
        with self._connections.reading() as connection:
            if rollout_id not in RESERVED and connection.scalar(named) is None:
                return None
            query = _EXCHANGES.where(exchanges.c.rollout_id == rollout_id, exchanges.c.id > after)
            ended = connection.execute(query.order_by(exchanges.c.id).limit(limit)).all()
            open_ = [row for row in _open_rows(connection, [rollout_id]) if row["id"] > after]
        return sorted(_merged(ended, open_), key=lambda e: e.id)[:limit]

    def number(self, rollout_id: str, call_id: str) -> int:
        """Return the number of calls of a rollout up to one, by id: its own number, from 1."""
        ids = [
            select(table.c.id).where(table.c.rollout_id == rollout_id, table.c.id <= call_id)
            for table in (exchanges, open_calls)
        ]
        with self._connections.reading() as connection:
            return connection.scalar(select(func.count()).select_from(union(*ids).subquery())) or 0


def _begun(batch: CommitBatch) -> Sequence[Exchange]:
    """Return the calls that began, each once, and did not end with the same commit."""
    ended = {each.id for each in batch.recorded}
    return list({each.id: each for each in batch.opened if each.id not in ended}.values())


def _on_record(connection: Connection, recorded: Iterable[Exchange]) -> set[str]:
    """Return the ids of those calls that are in the database, ended."""
    ids = {each.id: each.rollout_id for each in recorded}
    each = exchanges.c
    query = select(each.id).where(each.rollout_id.in_(set(ids.values())), each.id.in_(ids))
    return set(connection.execute(query).scalars())


def _gap_rows(gaps: Mapping[str, Gap]) -> list[tuple[str, float, int]]:
    return [
        (rollout, gap.since, gap.count) for rollout, gap in gaps.items() if rollout not in RESERVED
    ]


def calls_of(
    connection: Connection, rollout_ids: Collection[str], *, in_flight: Collection[str]
) -> dict[str, tuple[Exchange, ...]]:
    """Return rollouts' exchanges by the time they began.

    Arguments:
        in_flight: those of the rollouts that have calls in flight, which are included.
    """
    ended = _EXCHANGES_OF.execute(connection, rollout_ids).all()
    open_ = _open_rows(connection, in_flight) if in_flight else ()
    calls: dict[str, list[Exchange]] = {rollout_id: [] for rollout_id in rollout_ids}
    for call in _merged(ended, open_):
        calls[call.rollout_id].append(call)
    return {name: tuple(sorted(each, key=_began)) for name, each in calls.items()}


def _began(call: Exchange) -> tuple[float, str]:
    return call.timing.started_at, call.id


def some_of(connection: Connection, rollout_id: str, ids: Collection[str]) -> dict[str, Exchange]:
    """Return these exchanges of a rollout by id, calls in flight included."""
    named = _EXCHANGES.where(exchanges.c.rollout_id == rollout_id, exchanges.c.id.in_(ids))
    ended = connection.execute(named).all()
    open_ = [row for row in _open_rows(connection, [rollout_id]) if row["id"] in ids]
    return {exchange.id: exchange for exchange in _merged(ended, open_)}


def _merged(ended: Iterable[Sequence[Any]], open_: Iterable[Row]) -> Iterable[Exchange]:
    """Merge calls by id; an ended one replaces its row in flight."""
    by_id = {exchange.id: exchange for exchange in map(exchange_of, ended)}
    for row in open_:
        by_id.setdefault(row["id"], open_exchange_of(row))
    return by_id.values()


def _open_rows(connection: Connection, rollout_ids: Collection[str]) -> Sequence[Row]:
    return connection.execute(_OPEN_OF, {"ids": list(rollout_ids)}).mappings().all()


_OPEN_OF = select(open_calls).where(open_calls.c.rollout_id.in_(IDS))


def _agents_work(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Select what may be an agent's work among the calls that name no rollout."""
    columns = table.c
    return columns.rollout_id == UNATTRIBUTED, columns.role == "agent", columns.kind.in_(_WORK)


_BEGAN = exchanges.c.started_at


def _on(lane: Lane) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a call to a lane's model, by its key."""
    return (
        exchanges.c.upstream == lane.upstream,
        exchanges.c.model == lane.model,
        exchanges.c.key_digest.is_not_distinct_from(lane.key and f"key-{lane.key}"),
        exchanges.c.kind == Kind.INFERENCE.value,
    )


_WORK = (Kind.INFERENCE.value, Kind.CONTINUATION.value, Kind.ACTIVITY.value)
# As the driver gives them: `exchange_of` knows their types.
_EXCHANGES = cast(Select[Any], select(*map(column, EXCHANGE_COLUMNS))).select_from(exchanges)
_EXCHANGES_OF = OfIds(lambda among: _EXCHANGES.where(among(exchanges.c.rollout_id)))


# --- outline: few columns of each call, for a page over thousands ------------------------------


Facts = dict[str, Any]

_ENDED = (
    "id", "started_at", "duration_s", "ending", "subcategory", "role", "kind", "model",
    "request_digest", "input_total", "output_total",
)  # fmt: skip
_OPEN = ("id", "started_at", "role", "kind", "model")
_UNKNOWN: Facts = dict.fromkeys(_ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutline:
    """A rollout's first calls by id, the oldest first, and how many it has in all."""

    calls: Sequence[Facts]
    total: int


def outline(connection: Connection, rollout_id: str, *, limit: int) -> CallOutline:
    """Outline up to ``limit`` calls of a rollout; those in flight have no ending."""
    of_rollout = exchanges.c.rollout_id == rollout_id
    query = select(*(exchanges.c[name] for name in _ENDED)).where(of_rollout)
    ended = connection.execute(query.order_by(exchanges.c.id).limit(limit)).mappings()
    calls = {row["id"]: dict(row) for row in ended}
    total = len(calls)
    if total == limit:
        total = connection.scalar(select(func.count()).where(of_rollout)) or 0
    flying = select(*(open_calls.c[name] for name in _OPEN))
    for row in connection.execute(flying.where(open_calls.c.rollout_id == rollout_id)).mappings():
        if row["id"] not in calls:
            calls[row["id"]] = {**_UNKNOWN, **row}
            total += 1
    in_order = sorted(calls.values(), key=lambda call: str(call["id"]))
    return CallOutline(calls=in_order[:limit], total=total)


def known_calls(connection: Connection, rollout_id: str) -> Facts:
    """Return how many calls used tokens, and how many of them a verdict's sums know.

    Returns:
        ``calls``, ``tokens_known_calls``, ``cost_known_calls``; None if it was not judged.
    """
    names = {
        "calls": verdicts.c.summed_calls,
        "tokens_known_calls": verdicts.c.tokens_known_calls,
        "cost_known_calls": verdicts.c.cost_known_calls,
    }
    query = select(*(column.label(name) for name, column in names.items()))
    row = connection.execute(query.where(verdicts.c.rollout_id == rollout_id)).mappings().first()
    return dict(row) if row is not None else dict.fromkeys(names)
