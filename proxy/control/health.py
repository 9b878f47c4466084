"""The health of each lane now: its calls of the last hour, put together from sums and samples.

`classifier.lane_health` decides the word. Here calls are given to their lanes: exactly while few
are made, and by shares of a sample beyond some thousand an hour.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import orjson

from classifier.lane_health import (
    Episode,
    LaneFailure,
    LaneHealth,
    LaneMinute,
    LaneWord,
    LastReference,
    failures_by_minute,
    lane_failures,
    lane_health,
    minutes_of,
)
from classifier.logical_calls import canonical
from classifier.records import Ending, KeySource, Kind
from classifier.verdicts import Subcategory
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service, run_in_thread
from proxy.routing.upstreams import BUILT_IN
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.health import MOST, AnsweredRow, FailedRow, LaneRows, lane_rows, struck

LOOKED_BACK_S = 3600.0
OVERDUE_S = 30.0
OVERDUE_TIMES = 3  # a lane's p99
LISTED = 200
"""Lanes that are listed at most, those that fail first."""
_CACHED_S = 2.0  # a page, metrics and `--watch` ask at once
_MINUTE = 60
_ALL = ""  # no batch
_P99 = 0.99
_SEVERITY = {
    LaneWord.DOWN: 0, LaneWord.DEGRADED: 1, LaneWord.HEALTHY: 2, LaneWord.UNKNOWN: 3,
}  # fmt: skip


class LanePlace(NamedTuple):
    """The name of a lane: the model as it is asked for, a key's digest, and a server.

    ``server`` is None for all of them; it is told apart where answers name several.
    """

    upstream: str
    model: str | None
    key: str | None
    server: str | None = None

    @property
    def name(self) -> str:
        """The lane as people read it: ``openai · gpt-5 · key-3f9a``."""
        upstream, model, key, server = self
        return " · ".join(filter(None, (upstream, model or "no model named", key, server)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLane:
    """One lane with its health, and its episodes within the time that was looked at."""

    place: LanePlace
    health: LaneHealth
    episodes: Sequence[Episode] = ()

    @property
    def name(self) -> str:
        """The lane as people read it."""
        return self.place.name

    @property
    def fails(self) -> bool:
        """True if it is degraded or down."""
        return self.health.word in (LaneWord.DEGRADED, LaneWord.DOWN)

    @property
    def last_episode(self) -> Episode | None:
        """The last time in which it was not healthy, which may last."""
        return self.episodes[-1] if self.episodes else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as REST has it."""
        health, reference = self.health, self.health.reference
        return {
            **self.place._asdict(),
            "word": health.word.value,
            "since": health.since,
            "cause": health.cause,
            "calls": round(health.calls),
            "failed": {cause: round(count) for cause, count in health.failed.items()},
            "failed_share_low": health.share_low,
            "weighed_from": health.weighed_from,
            "last_at": health.last_at,
            "waiting": health.waiting,
            "drifts": None,
            "reference": None
            if reference is None
            else {
                "at": reference.at,
                "answered": reference.answered,
                "subcategory": reference.subcategory,
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """All lanes that were called within the last hour, those that fail first.

    ``word`` is the worst that a lane has beside unknown, if any has one.
    """

    at: float
    items: Sequence[NamedLane]
    total: int

    @property
    def word(self) -> LaneWord:
        """The worst word of a lane, unknown only if all are."""
        return min((each.health.word for each in self.items), key=_SEVERITY.__getitem__,
                   default=LaneWord.UNKNOWN)  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the response to `GET /status`."""
        items = [each.to_dict() for each in self.items]
        return {"word": self.word.value, "at": self.at, "lanes": self.total, "items": items}


def public_dict(report: LaneReport, names: Mapping[tuple[str, str | None], str]) -> dict[str, Any]:
    """Return the short form for everybody: without keys, counts and names of one's own.

    Arguments:
        names: public names of models, by upstream and model as it is asked for.
    """
    worst: dict[tuple[str, str], NamedLane] = {}
    for each in report.items:
        name = names.get((each.place.upstream, each.place.model))
        if name is None or each.place.server is not None:
            continue
        place = (each.place.upstream, name)
        if place not in worst or _rank(each) < _rank(worst[place]):
            worst[place] = each
    items = [
        {
            "upstream": upstream,
            "model": model,
            "word": each.health.word.value,
            "since": each.health.since,
            "cause": each.health.cause,
        }
        for (upstream, model), each in worst.items()
    ]
    return {"at": report.at, "items": items}


def _rank(status: NamedLane) -> tuple[Any, ...]:
    return (_SEVERITY[status.health.word], -status.health.calls, *map(str, status.place))


# --- lanes from rows ---------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Lane:
    """The calls of one lane while they are put together, by minute."""

    answered: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    answers: list[tuple[float, str]] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)
    pending: Counter[int] = field(default_factory=Counter)
    durations_s: list[float] = field(default_factory=list)
    waiting: int = 0


def lanes_of(rows: LaneRows, now: float) -> list[NamedLane]:
    """Give calls to their lanes and decide each one's health, those that fail first."""
    lanes: defaultdict[LanePlace, _Lane] = defaultdict(_Lane)
    for place, failed in _failed(rows.failed):
        lanes[place].failed.append(failed)
    _add_answered(lanes, rows)
    _add_open(lanes, rows, now)
    scale = _Scale(rows)
    references = _references(rows.series)
    told_apart = _told_apart(lanes)
    found = []
    for place, lane in lanes.items():
        if place.server is not None and (place.upstream, place.model, place.key) not in told_apart:
            continue
        minutes = scale.minutes(place, lane)
        if not (minutes or lane.waiting):
            continue
        reference = references.get((place.upstream, canonical(place.model)))
        health = lane_health(minutes, now, waiting=lane.waiting, reference=reference)
        found.append(NamedLane(place=place, health=health, episodes=health.episodes))
    return sorted(found, key=_rank)


def _failed(rows: Iterable[FailedRow]) -> Iterator[tuple[LanePlace, FailedRow]]:
    for row in rows:
        place = LanePlace(row.upstream, row.model, row.key_digest)
        yield place, row
        if row.server is not None:
            yield place._replace(server=row.server), row


def _add_answered(lanes: defaultdict[LanePlace, _Lane], rows: LaneRows) -> None:
    """Spread the answered calls of each minute over lanes, as the sample of them is spread."""
    sampled: defaultdict[_Stratum, defaultdict[int, list[_Lanes]]]
    sampled = defaultdict(lambda: defaultdict(list))
    known: dict[tuple[Any, ...], _Lanes] = {}
    for row in rows.answered:
        called: _Lanes = ()
        if row.kind in _ANSWERING:
            called = known.get(row[:4]) or known.setdefault(row[:4], _called(lanes, row))
            called[0].answers.append((row.started_at, row.rollout_id))
            if row.duration_s is not None:
                called[0].durations_s.append(row.duration_s)
        minute = int(row.started_at // _MINUTE)
        sampled[row.upstream, row.answered_model or row.model][minute].append(called)
    overall = {stratum: _shares(chain(*calls.values())) for stratum, calls in sampled.items()}
    shares = {
        (stratum, minute): _shares(calls)
        for stratum, minutes in sampled.items()
        for minute, calls in minutes.items()
    }
    for count in rows.counts:
        if count["subcategory"] is not None:
            continue
        stratum, minute = (count["upstream"], count["model"]), count["step"]
        theirs = shares.get((stratum, minute), overall.get(stratum))
        if theirs is None:
            theirs = _unsampled(lanes, *stratum)
        for lane, share in theirs:
            lane.answered[minute] += count["calls"] * share


_ANSWERING = (Kind.INFERENCE.value, Kind.CONTINUATION.value)
_Stratum = tuple[str, str | None]  # an upstream, and the model that answered
_Lanes = tuple[_Lane, ...]  # that one call belongs to, none where no model was asked


def _called(lanes: defaultdict[LanePlace, _Lane], row: AnsweredRow) -> _Lanes:
    """Return the lanes of a call: the one of all servers, then its server's."""
    place = LanePlace(row.upstream, row.model, row.key_digest)
    if row.server is None:
        return (lanes[place],)
    return lanes[place], lanes[place._replace(server=row.server)]


def _shares(calls: Iterable[_Lanes]) -> list[tuple[_Lane, float]]:
    counts = Counter(calls)
    return [(lane, count / counts.total()) for called, count in counts.items() for lane in called]


def _unsampled(
    lanes: Mapping[LanePlace, _Lane], upstream: str, model: str | None
) -> list[tuple[_Lane, float]]:
    """Return the lanes that rare answers, of which none is in the sample, may be those of.

    They are shared out: of a lane that fails they must not be left out.
    """
    name = canonical(model)
    near = [
        lane
        for place, lane in lanes.items()
        if place.upstream == upstream and place.server is None and canonical(place.model) == name
    ]
    return [(lane, 1 / len(near)) for lane in near]


def _add_open(lanes: defaultdict[LanePlace, _Lane], rows: LaneRows, now: float) -> None:
    for row in rows.open:
        lanes[LanePlace(row.upstream, row.model, row.key_digest)].pending[row.minute] += row.calls
    for late in rows.overdue:
        lane = lanes[LanePlace(late.upstream, late.model, late.key_digest)]
        if now - late.started_at > _overdue_s(lane.durations_s):
            lane.waiting += 1
            lane.pending[int(late.started_at // _MINUTE)] -= 1


def _overdue_s(durations_s: Sequence[float]) -> float:
    """Return for how long a call may be in flight before it is overdue."""
    if not durations_s:
        return OVERDUE_S
    ordered = sorted(durations_s)
    p99 = ordered[min(len(ordered) - 1, int(_P99 * len(ordered)))]
    return max(OVERDUE_S, OVERDUE_TIMES * p99)


def _told_apart(lanes: Iterable[LanePlace]) -> set[tuple[str, str | None, str | None]]:
    """Return the lanes whose answers name several servers."""
    servers: defaultdict[tuple[str, str | None, str | None], set[str]] = defaultdict(set)
    for place in lanes:
        if place.server is not None:
            servers[place.upstream, place.model, place.key].add(place.server)
    return {lane for lane, names in servers.items() if len(names) > 1}


class _Scale:
    """Counts failed calls by minute: each one, or by shares where more failed than are read."""

    def __init__(self, rows: LaneRows) -> None:
        self._whole = len(rows.failed) < MOST
        self._read: Counter[tuple[str, str | None, str]] = Counter()
        self._counts: defaultdict[tuple[str, str | None, str], dict[int, int]] = defaultdict(dict)
        if self._whole:
            return
        for row in rows.failed:
            self._read[row.upstream, row.model, row.subcategory] += 1
        for count in rows.counts:
            if count["subcategory"] is not None:
                stratum = count["upstream"], count["model"], count["subcategory"]
                self._counts[stratum][count["step"]] = count["calls"]

    def minutes(self, place: LanePlace, lane: _Lane) -> list[LaneMinute]:
        """Return the calls of a lane by minute, without those that an agent may have caused."""
        counted = lane_failures(map(_failure, lane.failed), lane.answers)
        failed: Mapping[int, Mapping[str, float]] = (
            failures_by_minute(counted) if self._whole else self._estimated(place, counted)
        )
        pending = {minute: max(0, calls) for minute, calls in lane.pending.items()}
        return minutes_of(lane.answered, failed, pending=pending)

    def _estimated(
        self, place: LanePlace, counted: Iterable[LaneFailure]
    ) -> Mapping[int, Mapping[str, float]]:
        """Spread the lane's share of all that failed alike over the minutes in which it did."""
        failed: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for cause, count in Counter(call.subcategory.value for call in counted).items():
            stratum = place.upstream, place.model, cause
            share = count / self._read[stratum]
            for minute, calls in self._counts[stratum].items():
                failed[minute][cause] += calls * share
        return failed


def _failure(row: FailedRow) -> LaneFailure:
    return LaneFailure(
        rollout_id=row.rollout_id,
        at=row.started_at,
        subcategory=_SUBCATEGORIES[row.subcategory],
        status=row.status,
        ending=_ENDINGS[row.ending],
        held=row.held,
        key_source=_KEY_SOURCES[row.key_source],
        injected=row.injected,
    )


# Hundreds of rows are read every two seconds: to look a member up takes a fifth of a call.
_SUBCATEGORIES = {each.value: each for each in Subcategory}
_ENDINGS = {None: None} | {each.value: each for each in Ending}
_KEY_SOURCES = {None: None} | {each.value: each for each in KeySource}


def _references(
    series: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str | None], LastReference]:
    """Return the last reference call of each upstream and model that asked something."""
    found: dict[tuple[str, str | None], LastReference] = {}
    for row in series:  # the newest first
        place = row["upstream"], canonical(row["model"])
        calls = orjson.loads(row["calls"])
        if place in found or row["not_run"] is not None or not calls:
            continue
        last = calls[-1]
        cause = last.get("subcategory")
        found[place] = LastReference(
            at=last["ended_at"],
            answered=last.get("answered"),
            subcategory=None if cause is None else Subcategory(cause),
        )
    return found


# --- reports -----------------------------------------------------------------------------------


async def status_report(service: Service) -> LaneReport:
    """Report the health of each lane that was called within the last hour.

    Two seconds long the same report is returned.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    now = service.now()
    version = int(now // _CACHED_S)
    cached: LaneReport | None = service.statuses.current(_ALL, version)
    if cached is None:
        lanes = await service.run(read_lanes, service.database, now)
        cached = LaneReport(at=now, items=lanes[:LISTED], total=len(lanes))
        service.statuses.store(_ALL, version, cached)
    return cached


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEpisode:
    """A time in which a lane was not healthy, and how many of a batch's rollouts it struck.

    ``until`` is None where it lasted at the batch's last call.
    """

    name: str
    word: LaneWord
    since: float
    until: float | None
    cause: str
    rollouts: int


_LONGEST_S = 6 * 3600.0  # of a batch, up to its last call, that is looked at
_SHOWN = 3
_BATCH_S = 10.0  # for which the same episodes are returned


async def batch_episodes(service: Service, batch: str) -> list[BatchEpisode]:
    """Return the times in which lanes failed while a batch called them, those that struck most.

    Three at most, of the last six hours of its calls.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    version = int(service.now() // _BATCH_S)
    known: list[BatchEpisode] | None = service.statuses.current(batch, version)
    if known is None:
        known = await service.run(_batch_episodes, service.database, batch)
        service.statuses.store(batch, version, known)
    return known


def _batch_episodes(database: Database, batch: str) -> list[BatchEpisode]:
    span = database.read(statistics.call_span, batch)
    if span is None:
        return []
    begin, end = max(span[0], span[1] - _LONGEST_S), span[1]
    rows = database.read(lane_rows, since=begin, now=end, overdue_s=OVERDUE_S)
    found = []
    for lane in lanes_of(replace(rows, open=(), overdue=()), end):
        if lane.place.server is not None:
            continue
        for episode in lane.episodes:
            until = end if episode.until is None else episode.until
            count = database.read(struck, batch, lane.place[:2], episode.since, until)
            if count:
                found.append(
                    BatchEpisode(
                        name=lane.name, word=episode.word, since=episode.since,
                        until=episode.until, cause=episode.cause, rollouts=count,
                    )
                )  # fmt: skip
    return sorted(found, key=lambda each: (-each.rollouts, each.since))[:_SHOWN]


def lane_counts(
    database: Database, prices: PriceTable, now: float
) -> dict[tuple[str, str | None, str], int]:
    """Count the lanes of the last hour by upstream, public name of the model, and word.

    Raises:
        StoreError: the database is unavailable.
    """
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for lane in read_lanes(database, now)[:LISTED]:
        model = prices.model_name(lane.place.upstream, lane.place.model)
        if lane.place.server is None:
            counts[lane.place.upstream, model, lane.health.word.value] += 1
    return dict(counts)


def read_lanes(database: Database, now: float) -> list[NamedLane]:
    """Read the lanes that were called within the last hour, those that fail first.

    Raises:
        StoreError: the database is unavailable.
    """
    rows = database.read(lane_rows, since=now - LOOKED_BACK_S, now=now, overdue_s=OVERDUE_S)
    lanes = lanes_of(rows, now)
    known_from = now - LOOKED_BACK_S + _FIRST_S
    if not any(lane.fails and _lasts_since(lane.episodes) < known_from for lane in lanes):
        return lanes
    rows = database.read(lane_rows, since=now - _LONGEST_S, now=now, overdue_s=OVERDUE_S)
    begins = {lane.place: _lasts_since(lane.episodes) for lane in lanes_of(rows, now)}
    return [_since_earlier(lane, begins.get(lane.place, math.inf), known_from) for lane in lanes]


_FIRST_S = 600.0  # of what is looked at: what fails from then on may have failed before


def _lasts_since(episodes: Sequence[Episode]) -> float:
    return episodes[-1].since if episodes and episodes[-1].until is None else math.inf


def _since_earlier(lane: NamedLane, begin: float, known_from: float) -> NamedLane:
    """Return a lane that fails from the first on with the true begin of that."""
    since = _lasts_since(lane.episodes)
    if since >= known_from or begin >= since:
        return lane
    episodes = (*lane.episodes[:-1], lane.episodes[-1]._replace(since=begin))
    health = replace(lane.health, since=begin, episodes=episodes)
    return replace(lane, health=health, episodes=episodes)


async def public_status(service: Service) -> dict[str, Any]:
    """Return the short form of the report, which everybody may read.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    report = await status_report(service)
    return public_dict(report, await run_in_thread(_public_names, service, report))


def _public_names(service: Service, report: LaneReport) -> dict[tuple[str, str | None], str]:
    """Return the names of models in the table of prices, at upstreams that everybody has."""
    places = {(each.place.upstream, each.place.model) for each in report.items}
    return {
        (upstream, model): name
        for upstream, model in places
        if upstream in BUILT_IN and (name := service.prices.model_name(upstream, model)) is not None
    }
