"""The table `lane_minutes`: counts of each lane's calls by minute.

The recorder adds calls up in memory, for some ten minutes (a slot), and writes the sums of those
lanes and minutes that a commit brings calls of with that commit. A slot has rows of its own, which
are replaced whole, so that a commit that is written twice counts once and several processes add up.
"""

from __future__ import annotations

import math
import secrets
from binascii import crc32
from collections import Counter, _count_elements, defaultdict  # type: ignore[attr-defined]
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    func,
    select,
    text,
    tuple_,
)

from classifier.fingerprints import plain
from classifier.lane_health import (
    MINUTE_S,
    NAMED_ANSWERING,
    NAMED_FAILING,
    Failures,
    LaneTally,
    RolloutCalls,
    merged,
    second_of,
    vote_of,
)
from classifier.records import RESERVED, Ending, KeySource, Kind
from classifier.references import REFERENCE, AskedBy
from classifier.verdicts import Subcategory
from proxy.store.connections import Connections
from proxy.store.statistics import floor_of
from proxy.store.tables import (
    EXCHANGE_COLUMNS,
    FAILED,
    LANE_COLUMNS,
    exchanges,
    insert_into,
    lane_minutes,
    open_calls,
    reference_failures,
    reference_series,
    rollouts,
)
from proxy.store.tables import server as named_values

OTHER = "other"
"""The name of a model, a key or a server that is one too many."""
UNKNOWN_NAMES = 200
"""Lanes of a minute that were never answered and have an agent's own key; further ones are one."""
SERVERS = 16
"""Servers of a lane that are told apart in one minute."""
_SLOT = 10  # minutes
_MINUTES = 20_000  # of lanes, that one slot holds
_KNOWN = 10_000  # lanes that were answered, remembered

ANSWERING = (Kind.INFERENCE.value, Kind.CONTINUATION.value)
"""Kinds of calls that ask a model for an answer, and are calls of a lane."""
_REJECTED = Subcategory.REJECTED_REQUEST.value
_OWN_KEYS = (KeySource.OPERATOR.value, KeySource.ADDED.value)
_COMPLETE = Ending.COMPLETE.value
_P99 = 0.99
_INT_KEYS = orjson.OPT_NON_STR_KEYS
_dumps = orjson.dumps
_TOOK = "f%.1e d%.1e"
_count = _count_elements  # adds up in C, where a Counter would take forty instructions


def _values(*names: str) -> itemgetter[Any]:
    return itemgetter(*map(EXCHANGE_COLUMNS.index, names))


_took = _values("first_byte_s", "duration_s")
_AT = EXCHANGE_COLUMNS.index("started_at")
# What the lane of a call depends on, whether it was answered, and whose it is.
_signature = _values(
    "upstream", "model", "key_digest", "served_by", "system_fingerprint", "kind", "ending",
    "subcategory", "rollout_id",
)  # fmt: skip
_of_failure = _values("status", "ending", "held", "key_source", "injected")
_key_source = itemgetter(EXCHANGE_COLUMNS.index("key_source"))
# Places in a row of `lane_minutes`.
(_ANSWERED, _FAILURES, _OTHERS, _FIRST_FAILED, _LAST_FAILED, _LAST_ANSWERED, _FAILED, _VOTES) = map(
    LANE_COLUMNS.index, (
        "answered", "failures", "others", "first_failed_at", "last_failed_at", "last_answered_at",
        "failed", "votes",
    )
)  # fmt: skip
_Lane = tuple[str, str, str]  # upstream, model, key


# --- writing -----------------------------------------------------------------------------------


class _Minute:
    """The calls of one lane and server that began in one minute, as far as this slot has them.

    ``row`` is that of `lane_minutes`, in which numbers are kept up to date and JSON is not.
    Rollouts are known by the CRC of their ids. ``answering`` counts answered calls; ``failing`` has
    by cause the fields of `Failures`. ``took`` counts seconds to two digits, to the first byte (f)
    and to the end (d). ``plain`` is true while nothing failed and all answered rollouts are named.
    """

    __slots__ = ("answering", "failed", "failing", "parts", "plain", "row", "took")

    def __init__(self, place: Sequence[Any], slot: int, *, own_key: bool) -> None:
        self.row: list[Any] = [*place, slot, 0, 0, 0, None, None, 0.0, own_key, "{}", ""]
        self.failed: dict[str, int] = {}
        self.answering: dict[int, int] = {}
        self.failing: dict[int, dict[str, list[Any]]] = {}
        self.took: dict[str, int] = {}
        self.parts = (self.took, self.answering)
        self.plain = True

    def fail(self, cause: str, rollout: str, at: float, outage: bool | None) -> None:
        """Count a failed call; ``outage`` is as `vote_of` returns it."""
        row, self.plain = self.row, False
        self.failed[cause] = self.failed.get(cause, 0) + 1
        row[_OTHERS if cause == _REJECTED else _FAILURES] += 1
        row[_FIRST_FAILED] = at if row[_FIRST_FAILED] is None else min(row[_FIRST_FAILED], at)
        row[_LAST_FAILED] = at if row[_LAST_FAILED] is None else max(row[_LAST_FAILED], at)
        if outage is None or rollout in RESERVED:
            return
        name = crc32(rollout.encode())
        if name not in self.failing:
            self.failing[name] = {}
        of = self.failing[name].setdefault(cause, [0, 0, at, at, 0])
        count, before, first, last, seconds = of
        of[:] = (
            count + 1, before or int(outage), min(first, at), max(last, at),
            seconds | second_of(at),
        )  # fmt: skip

    def answers_of(self, rollout: str) -> _Answers:
        """Return where answered calls of a rollout are counted."""
        name = crc32(rollout.encode())
        if name not in self.answering and len(self.answering) >= NAMED_ANSWERING:
            self.plain = False
        return self, self.row, self.answering, (name,), self.took

    def written(self) -> list[Any]:
        """Bring the row up to date, and return it."""
        row = self.row
        if self.plain:
            row[_VOTES] = _dumps(self.parts, None, _INT_KEYS).decode()
        else:
            row[_FAILED], row[_VOTES] = orjson.dumps(self.failed).decode(), self._votes()
        return row

    def _votes(self) -> str:
        answering, failing = self.answering, self.failing
        more: dict[str, tuple[int, int]] = {}
        for causes in islice(failing.values(), NAMED_FAILING, None):
            for cause, of in causes.items():
                rollouts_, seconds = more.get(cause, (0, 0))
                more[cause] = rollouts_ + 1, seconds | of[4]
        few = dict(islice(failing.items(), NAMED_FAILING)) if more else failing
        others = answering.keys() - few.keys() if few else answering
        names = [*islice(others, NAMED_ANSWERING)]
        named = dict(zip(names, map(answering.get, names), strict=True))
        answered = dict(zip(few, map(answering.get, few), strict=True))
        parts = (self.took, named, few, answered, len(others) - len(named), more)
        return _dumps(parts, None, _INT_KEYS).decode()


_WRITTEN = _Minute.written
# A minute, its row, `answering`, the rollout's name alone, and `took`: all that a call adds to.
_Answers = tuple[_Minute, list[Any], dict[int, int], tuple[int], dict[str, int]]


class LaneCounter:
    """Adds up the calls of one process. Its owner calls it from one thread at a time."""

    def __init__(self, *, slot_minutes: float = _SLOT) -> None:
        self._slot_minutes = slot_minutes
        self._known: set[_Lane] = set()  # that were answered, or have a key of the operator's
        self.forget()

    def forget(self) -> None:
        """Begin a new slot: after a commit that failed, whose calls will come again."""
        self._slot = secrets.randbits(62)
        self._ends: float | None = None
        self._minutes: dict[tuple[Any, ...], _Minute] = {}
        self._answers: dict[tuple[float, tuple[Any, ...]], _Answers] = {}
        self._unknown: defaultdict[int, set[_Lane]] = defaultdict(set)
        self._servers: defaultdict[Any, set[str]] = defaultdict(set)

    def add(self, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """Add ended calls, as the values of EXCHANGE_COLUMNS.

        Returns:
            The sums that have changed, as rows of `lane_minutes`.
        """
        answers = self._answers
        changed: dict[_Minute, None] = {}
        for row in rows:
            at = row[_AT]
            try:
                minute, sums, answering, rollout, seconds = answers[at // MINUTE_S, _signature(row)]
            except KeyError:
                begun = self._begin(row, changed)
                answers = self._answers
                if begun is None:
                    continue
                minute, sums, answering, rollout, seconds = begun
            changed[minute] = None
            sums[_ANSWERED] += 1
            sums[_LAST_ANSWERED] = max(sums[_LAST_ANSWERED], at)
            _count(answering, rollout)
            try:
                _count(seconds, (_TOOK % _took(row)).split())
            except TypeError:  # one is not known
                _count(seconds, (_TOOK % tuple(took or 0 for took in _took(row))).split())
        return [*map(_WRITTEN, changed)]

    def _begin(self, row: Sequence[Any], changed: dict[_Minute, None]) -> _Answers | None:
        """Return where a call that was answered is counted; count one that was not."""
        at = row[_AT]
        *_, kind, ending, cause, rollout = signature = _signature(row)
        if kind not in ANSWERING or rollout == REFERENCE:
            return None
        if not changed:  # what had changed is written
            self._roll(at // MINUTE_S)
        minute = self._minute(int(at // MINUTE_S), signature, row)
        if cause is None and ending == _COMPLETE:
            if len(self._answers) >= _MINUTES:
                self._answers.clear()
            answers = self._answers[at // MINUTE_S, signature] = minute.answers_of(rollout)
            return answers
        changed[minute] = None
        if cause is None:
            minute.row[_OTHERS] += 1
            return None
        status, ending, held, key_source, injected = _of_failure(row)
        outage = vote_of(
            cause, status=status, ending=ending, held=held, key_source=key_source, injected=injected
        )
        minute.fail(cause, rollout, at, outage)
        return None

    def _minute(self, at: int, signature: tuple[Any, ...], row: Sequence[Any]) -> _Minute:
        """Return the minute of a lane; a name that is one too many is counted as `OTHER`."""
        upstream, model, key, served_by, fingerprint, _kind, _ending, cause, _rollout = signature
        lane, server = (upstream, model or "", key or ""), served_by or fingerprint or ""
        own_key = _key_source(row) in _OWN_KEYS
        if lane not in self._known:
            unknown = self._unknown[at]
            if own_key or cause is None:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                self._known.add(lane)
            elif lane not in unknown and len(unknown) >= UNKNOWN_NAMES:
                lane = (upstream, OTHER, "")
            else:
                unknown.add(lane)
        if server:
            servers = self._servers[at, lane]
            if server not in servers and len(servers) >= SERVERS:
                server = OTHER
            servers.add(server)
        place = (at, *lane, server)
        minute = self._minutes.get(place)
        if minute is None:
            minute = self._minutes[place] = _Minute(place, self._slot, own_key=own_key)
        return minute

    def _roll(self, at: float) -> None:
        if self._ends is not None and (at >= self._ends or len(self._minutes) >= _MINUTES):
            self.forget()
        if self._ends is None:
            self._ends = at + self._slot_minutes


def add_ended(connection: Connection, rows: Iterable[Sequence[Any]]) -> None:
    """Count ended calls that no recorder has counted, as the values of EXCHANGE_COLUMNS."""
    counted = LaneCounter(slot_minutes=math.inf).add(rows)
    if made := [dict(zip(LANE_COLUMNS, row, strict=True)) for row in counted]:
        connection.execute(insert_into(connection.dialect.name, lane_minutes), made)


# --- reading -----------------------------------------------------------------------------------


_NAMED_S = 6 * 3600.0
_SUMS = 50_000  # minutes of lanes with several rows, whose sums are remembered
_OVERLAP_S = 60.0  # of clocks, and of registrations under way
_OVERDUE = 500
_REFERENCES = 200
_FIRST_ROWS = 200  # of a lane that began to fail
_ASKED_AFTER_S = 600.0  # the failures before a series that it was asked because of
_EACH = lane_minutes.c
_CALLS = _EACH.answered + _EACH.failures + _EACH.others
_WITHIN = and_(_EACH.minute >= bindparam("since"), _EACH.minute <= bindparam("until"))
_HOUR = select(lane_minutes).where(_WITHIN)


class LanePlace(NamedTuple):
    """A lane, or one of its servers; None: no model was named, no key sent, all servers."""

    upstream: str
    model: str | None
    key: str | None
    server: str | None = None

    @property
    def name(self) -> str:
        """The lane as people read it: ``openai · gpt-5 · key-3f9a``."""
        upstream, model, key, server = self
        return " · ".join(filter(None, (upstream, model or "no model named", key, server)))

    @property
    def is_several(self) -> bool:
        """True of the names that are one too many, which are counted as one."""
        return self.model == OTHER and self.key is None


class OpenRow(NamedTuple):
    """Calls of a lane in flight that began in one minute, and how many rollouts they are of."""

    upstream: str
    model: str | None
    key: str | None
    minute: int
    calls: int
    rollouts: int
    oldest_at: float


class OverdueRow(NamedTuple):
    """A call that has been in flight for a while."""

    upstream: str
    model: str | None
    key: str | None
    started_at: float
    rollout_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRows:
    """The rows that lanes are judged by.

    ``tallies`` has a lane's minutes, oldest first, those of its servers apart too. ``explained``
    are rollouts whose failures a reference question was answered beside: upstream, the model as it
    was asked, the name of the rollout, and from when until when the failures began. ``p99_s`` is
    known for lanes with an overdue call.
    """

    tallies: dict[LanePlace, list[LaneTally]]
    open: Sequence[OpenRow] = ()
    overdue: Sequence[OverdueRow] = ()
    series: Sequence[dict[str, Any]] = ()
    explained: Sequence[tuple[str, str, str, float, float]] = ()
    p99_s: Mapping[tuple[str, str | None, str | None], float] = field(default_factory=dict)


class Beginning(NamedTuple):
    """The first minutes in which a lane failed after the last in which it was answered.

    That is among them where it is known. ``answered_at`` is when the lane was answered last. What
    it did before ``counted_from`` is not known, as counts are deleted or were added to `OTHER`; 0:
    all is known.
    """

    tallies: Sequence[LaneTally]
    answered_at: float | None
    counted_from: float


class Names(NamedTuple):
    """Models and upstreams that rollouts are registered for; models as `plain` spells them."""

    models: frozenset[str]
    upstreams: frozenset[str]


class LaneMinutes:
    """Reads the table `lane_minutes`. Rows that have not changed are not decoded again."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._decoded: dict[tuple[Any, ...], tuple[Any, LaneTally]] = {}
        self._sums: dict[Any, tuple[list[LaneTally], LaneTally]] = {}
        self._registered: tuple[float, Names] = (0.0, Names(frozenset(), frozenset()))

    def rows(self, *, since: float, now: float, overdue_s: float) -> LaneRows:
        """Read the calls that began from ``since`` to ``now`` (epoch seconds), and those in flight.

        Arguments:
            overdue_s: calls in flight for longer are listed, up to 500, the oldest first.

        Raises:
            StoreError: the database is unavailable.
        """
        with self._connections.reading() as connection:
            overdue = _overdue(connection, now - overdue_s)
            series = _series(connection, since)
            return LaneRows(
                tallies=self._tallies(connection, _HOUR, since, now),
                open=_open(connection),
                overdue=overdue,
                series=series,
                explained=_explained(connection, series),
                p99_s=_p99_s(connection, {row[:3] for row in overdue}, since, now),
            )

    def tallies(
        self, *, since: float, until: float, upstreams: Collection[str] | None = None
    ) -> dict[LanePlace, list[LaneTally]]:
        """Read the calls of lanes that began in a time (epoch seconds), of some upstreams or all.

        Raises:
            StoreError: the database is unavailable.
        """
        query = select(lane_minutes).where(_WITHIN)
        if upstreams is not None:
            query = query.where(_EACH.upstream.in_(upstreams))
        with self._connections.reading() as connection:
            return self._tallies(connection, query, since, until)

    def ever_answered(self, place: LanePlace) -> bool:
        """Return True if a lane has answered anybody, as far back as is known.

        Raises:
            StoreError: the database is unavailable.
        """
        lane = (place.upstream, place.model or "", place.key or "")
        named = tuple_(_EACH.upstream, _EACH.model, _EACH.key_digest) == tuple_(*lane)
        query = select(_EACH.minute).where(named, _EACH.answered > 0).limit(1)
        with self._connections.reading() as connection:
            return connection.execute(query).first() is not None

    def beginning(self, place: LanePlace, *, before: float) -> Beginning:
        """Read the last answer of a lane before a time, in epoch seconds, and what failed then on.

        Raises:
            StoreError: the database is unavailable.
        """
        lane = (place.upstream, place.model or "", place.key or "")
        theirs = tuple_(_EACH.upstream, _EACH.model, _EACH.key_digest) == tuple_(*lane)
        last = (
            select(_EACH.minute, _EACH.last_answered_at)
            .where(theirs, _EACH.minute <= math.floor(before / MINUTE_S))
            .where(_EACH.answered > 0, _EACH.last_answered_at < before)
            .order_by(_EACH.minute.desc(), _EACH.last_answered_at.desc())
            .limit(1)
        )
        with self._connections.reading() as connection:
            minute, answered_at = connection.execute(last).one_or_none() or (0, None)
            query = (
                select(lane_minutes)
                .where(_WITHIN, theirs)
                .where((_EACH.minute == minute) | (_EACH.failures > 0))
                .order_by(_EACH.minute)
                .limit(_FIRST_ROWS)
            )
            tallies = self._tallies(connection, query, minute * MINUTE_S, before)
            counted_from = _counted_from(connection, place.upstream, before)
        return Beginning(tallies.get(place, ()), answered_at, counted_from)

    def names(self, *, now: float) -> Names:
        """Return the models and upstreams that rollouts of the last hours are registered for.

        Only rollouts are read that were registered since the last time, six hours back at first.

        Raises:
            StoreError: the database is unavailable.
        """
        read_to, known = self._registered
        since = max(read_to - _OVERLAP_S, now - _NAMED_S)
        each = rollouts.c
        query = (
            select(each.model, each.fallbacks, each.upstream)
            .distinct()
            .where(each.created_at >= since, each.registered)
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        models = {
            plain(name) or ""
            for model, fallbacks, _ in rows
            for name in (model or "", *(fallbacks or "").splitlines())
        }
        names = Names(
            known.models | (models - {""}), known.upstreams | {row[2] for row in rows if row[2]}
        )
        self._registered = (now, names)
        return names

    def _tallies(
        self, connection: Connection, query: Any, since: float, until: float
    ) -> dict[LanePlace, list[LaneTally]]:
        known, decoded = self._decoded, {}
        lanes: defaultdict[LanePlace, defaultdict[int, list[LaneTally]]]
        lanes = defaultdict(lambda: defaultdict(list))
        given = {"since": math.floor(since / MINUTE_S), "until": math.floor(until / MINUTE_S)}
        places: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in map(tuple, connection.execute(query, given).all()):
            key = row[:6]
            held = known.get(key)
            if held is None or held[0] != row:
                held = row, _tally(row)
            decoded[key] = held
            theirs = places.get(key[1:5])
            if theirs is None:
                _, upstream, model, digest, server, _ = key
                place = LanePlace(upstream, model or None, digest or None)
                theirs = (lanes[place],)
                if server:
                    theirs = (*theirs, lanes[place._replace(server=server)])
                places[key[1:5]] = theirs
            for minutes in theirs:
                minutes[key[0]].append(held[1])
        if query is _HOUR:
            self._decoded = decoded
        return {
            place: [self._merged(place, minutes[minute]) for minute in sorted(minutes)]
            for place, minutes in lanes.items()
        }

    def _merged(self, place: LanePlace, tallies: list[LaneTally]) -> LaneTally:
        """Add up rows of the same minute, unless they were the same the last time."""
        if len(tallies) == 1:
            return tallies[0]
        key = (place, tallies[0].minute)
        before = self._sums.get(key)
        if before is None or before[0] != tallies:
            if len(self._sums) > _SUMS:
                self._sums.clear()
            before = self._sums[key] = tallies, merged(tallies)
        return before[1]


def _tally(row: Sequence[Any]) -> LaneTally:
    (
        minute, _upstream, _model, _key, _server, _slot, answered, failures, others,
        first_failed_at, last_failed_at, last_answered_at, own_key, failed, votes,
    ) = row  # fmt: skip
    _took, answering, *more = orjson.loads(votes)
    failing, answered_of, more_answering, more_failing = more or ({}, {}, 0, {})
    return LaneTally(
        minute=minute, calls=answered + failures + others, answered=answered,
        failed=orjson.loads(failed),
        first_failed_at=first_failed_at, last_failed_at=last_failed_at,
        last_answered_at=last_answered_at or None, own_key=bool(own_key),
        answering=answering,
        failing={
            name: RolloutCalls(
                answered_of[name] or 0,
                {
                    cause: Failures(calls, bool(outage), first, last, seconds)
                    for cause, (calls, outage, first, last, seconds) in causes.items()
                },
            )
            for name, causes in failing.items()
        },
        more_answering=more_answering,
        more_failing={cause: rollouts_ for cause, (rollouts_, _) in more_failing.items()},
        more_seconds={cause: seconds for cause, (_, seconds) in more_failing.items()},
    )  # fmt: skip


def _open(connection: Connection) -> list[OpenRow]:
    each = open_calls.c
    minute = floor_of(connection, each.started_at / MINUTE_S).label("minute")
    by = (each.upstream, each.model, each.key_digest, minute)
    counts = (func.count(), func.count(each.rollout_id.distinct()), func.min(each.started_at))
    query = select(*by, *counts).where(each.kind.in_(ANSWERING)).group_by(*by)
    return [OpenRow._make(row) for row in connection.execute(query)]


def _overdue(connection: Connection, before: float) -> list[OverdueRow]:
    each = open_calls.c
    query = (
        select(each.upstream, each.model, each.key_digest, each.started_at, each.rollout_id)
        .where(each.kind.in_(ANSWERING), each.started_at < before)
        .order_by(each.started_at)
        .limit(_OVERDUE)
    )
    return [OverdueRow._make(row) for row in connection.execute(query)]


def _series(connection: Connection, since: float) -> list[dict[str, Any]]:
    each = reference_series.c
    query = (
        select(each.id, each.upstream, each.model, each.started_at, each.ended_at, each.calls,
               each.not_run)
        .where(each.started_at > since, each.ended_at.is_not(None))
        .order_by(each.started_at.desc())
        .limit(_REFERENCES)
    )  # fmt: skip
    return [
        {**row, "calls": orjson.loads(row["calls"])} for row in connection.execute(query).mappings()
    ]


def _explained(
    connection: Connection, series: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, float, float]]:
    """Return the failures beside which a series was asked that was answered.

    By the failed call's own way, or by the usual one if the rollout alone asks by its own.
    """
    answered = {
        row["id"]: row for row in series if row["not_run"] is None and _is_answered(row["calls"])
    }
    if not answered:
        return []
    each = reference_failures.c
    query = select(each.series_id, each.rollout_id).where(each.series_id.in_(answered))
    return [
        (row["upstream"], row["model"], name_of(rollout), row["started_at"] - _ASKED_AFTER_S,
         row["ended_at"])
        for series_id, rollout in connection.execute(query)
        for row in (answered[series_id],)
    ]  # fmt: skip


def _is_answered(calls: Sequence[Mapping[str, Any]]) -> bool:
    usual = [x for x in calls if x.get("asked_by") == AskedBy.USUAL]
    return bool(calls) and all(x["answered"] for x in usual or calls)


def name_of(rollout_id: str) -> str:
    """Return the name of a rollout in the votes of a lane."""
    return str(crc32(rollout_id.encode()))


def _p99_s(
    connection: Connection,
    lanes: Collection[tuple[str, str | None, str | None]],
    since: float,
    until: float,
) -> dict[tuple[str, str | None, str | None], float]:
    """Return the 99th percentile of the seconds that a lane's answers took."""
    if not lanes:
        return {}
    named = {
        (upstream, model or "", key or ""): (upstream, model, key) for upstream, model, key in lanes
    }
    place = (_EACH.upstream, _EACH.model, _EACH.key_digest)
    query = select(*place, _EACH.votes).where(_WITHIN, tuple_(*place).in_(named))
    given = {"since": math.floor(since / MINUTE_S), "until": math.floor(until / MINUTE_S)}
    seconds: defaultdict[Any, Counter[float]] = defaultdict(Counter)
    for *lane, votes in connection.execute(query, given):
        seconds[named[tuple(lane)]].update(_seconds(votes)[1])
    return {lane: quantile(counts, _P99) or 0.0 for lane, counts in seconds.items()}


def quantile(counts: Mapping[float, int], share: float) -> float | None:
    """Return the value below which this share of counted values lies; None without any."""
    total, seen = sum(counts.values()), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= share * total - 1e-9:
            return value
    return None


# --- lanes over a window of time ---------------------------------------------------------------


class LaneStep(NamedTuple):
    """Ended calls of one lane in one step (times its seconds since the epoch); failures by cause.

    ``answered_at`` and ``failed_at`` are when the last such call began, in epoch seconds.
    """

    step: int
    upstream: str
    model: str | None
    key: str | None
    calls: int
    failed: Mapping[str, int]
    answered_at: float | None = None
    failed_at: float | None = None


def lane_steps(
    connection: Connection, *, since: float, until: float, step_s: int
) -> list[LaneStep]:
    """Count the calls of each lane that began in a time (epoch seconds), by whole minutes."""
    step = (_EACH.minute // (step_s // MINUTE_S)).label("step")
    by = (step, _EACH.upstream, _EACH.model, _EACH.key_digest, _EACH.failed)
    last = (func.max(_EACH.last_answered_at), func.max(_EACH.last_failed_at))
    query = select(*by, func.sum(_CALLS), func.count(), *last)
    calls: Counter[tuple[Any, ...]] = Counter()
    failed: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    times: defaultdict[tuple[Any, ...], list[list[float]]] = defaultdict(lambda: [[], []])
    for at, *lane, causes, count, rows, answered_at, failed_at in connection.execute(
        query.where(*_in(since, until)).group_by(*by)
    ):
        place = (int(at), *lane)
        calls[place] += int(count)
        for known, time in zip(times[place], (answered_at, failed_at), strict=True):
            known.extend((time,) if time else ())  # 0: none was answered
        if causes != "{}":  # of as many rows that failed alike
            for cause, failures in orjson.loads(causes).items():
                failed[place][cause] += failures * rows
    return [
        LaneStep(
            at, upstream, model or None, key or None, count, failed[place],
            *(max(known, default=None) for known in times[place]),
        )
        for place, count in calls.items()
        for at, upstream, model, key in (place,)
    ]  # fmt: skip


class Took(NamedTuple):
    """The seconds that answered calls of one minute took, to two digits, and how many calls did."""

    minute: int
    upstream: str
    model: str | None
    first_byte_s: Mapping[float, int]
    duration_s: Mapping[float, int]
    key: str | None = None


def took(connection: Connection, *, since: float, until: float) -> list[Took]:
    """List the seconds that calls took which began in a time (epoch seconds)."""
    names = (_EACH.minute, _EACH.upstream, _EACH.model, _EACH.votes, _EACH.key_digest)
    query = select(*names).where(*_in(since, until))
    return [
        Took(minute, upstream, model or None, *_seconds(votes), key or None)
        for minute, upstream, model, votes, key in connection.execute(query)
    ]


def _seconds(votes: str) -> tuple[dict[float, int], dict[float, int]]:
    """Return how many calls took so many seconds to the first byte, and to the end."""
    first: dict[float, int] = {}
    whole: dict[float, int] = {}
    for name, calls in orjson.loads(votes)[0].items():
        if (value := float(name[1:])) > 0:  # 0 is not known
            (first if name[0] == "f" else whole)[value] = calls
    return first, whole


def last_minutes(connection: Connection, *, since: float, until: float) -> dict[str, int]:
    """Return the last minute of a time (epoch seconds) in which each upstream was called."""
    query = select(_EACH.upstream, func.max(_EACH.minute)).where(*_in(since, until))
    rows = connection.execute(query.group_by(_EACH.upstream))
    return dict(map(tuple, rows))


def _in(since: float, until: float) -> tuple[ColumnElement[bool], ...]:
    return _EACH.minute >= math.floor(since / MINUTE_S), _EACH.minute < math.ceil(until / MINUTE_S)


KEPT_FROM = "lanes kept from"
"""The name in the table `server` of the time, in epoch seconds, before which calls are not counted
any more: what lanes did then is not known."""


_KEPT_FROM = select(named_values.c.value).where(named_values.c.name == KEPT_FROM)
_CAPPED_MINUTES = 60  # before a lane's first failure, in which it may have been one name too many


def _counted_from(connection: Connection, upstream: str, before: float) -> float:
    """Return from when on the calls of an upstream's lanes are counted apart, in epoch seconds."""
    minute = math.floor(before / MINUTE_S)
    together = (_EACH.upstream == upstream, _EACH.model == OTHER, _EACH.key_digest == "")
    lately = (_EACH.minute > minute - _CAPPED_MINUTES, _EACH.minute <= minute)
    capped = connection.scalar(select(func.max(_EACH.minute)).where(*together, *lately))
    kept_from = float(connection.scalar(_KEPT_FROM) or 0.0)
    return kept_from if capped is None else max(kept_from, capped * float(MINUTE_S))


def delete_before(connection: Connection, before: float) -> None:
    """Delete what began before a time, in epoch seconds."""
    old = delete(lane_minutes).where(_EACH.minute < math.floor(before / MINUTE_S))
    if connection.execute(old).rowcount:
        note_kept_from(connection, before)


def note_kept_from(connection: Connection, at: float) -> None:
    """Store that calls before a time, in epoch seconds, are not counted, or not any more."""
    noted = insert_into(connection.dialect.name, named_values).values(
        name=KEPT_FROM, value=repr(at)
    )
    connection.execute(
        noted.on_conflict_do_update(index_elements=["name"], set_={"value": repr(at)})
    )


def struck(connection: Connection, batch: str, place: LanePlace, since: float, until: float) -> int:
    """Count a batch's rollouts with a failed call on a lane that began in a time.

    Arguments:
        since, until: epoch seconds.
    """
    each = exchanges.c
    query = (
        select(func.count(each.rollout_id.distinct()))
        .join_from(exchanges, rollouts, rollouts.c.id == each.rollout_id)
        .where(text(FAILED), each.started_at >= since, each.started_at < until)
        .where(rollouts.c.batch == batch, each.upstream == place.upstream, each.kind.in_(ANSWERING))
        .where(each.model.is_not_distinct_from(place.model), each.subcategory.is_not(None))
        .where(each.key_digest.is_not_distinct_from(place.key))
    )
    return connection.scalar(query) or 0
