"""The health of each lane now, from what was counted of its calls of the last hour.

`classifier.lane_health` decides the word. Here its evidence is put beside it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from classifier.fingerprints import plain
from classifier.lane import silence
from classifier.lane_health import (
    MINUTE_S,
    Episode,
    Failures,
    LaneHealth,
    LaneTally,
    LaneWord,
    LastReference,
    episodes,
    lane_health,
    weighed,
)
from classifier.logical_calls import canonical
from classifier.verdicts import Subcategory
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service, run_in_thread
from proxy.routing.upstreams import BUILT_IN
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.lane_minutes import LanePlace, LaneRows, OpenRow, OverdueRow, struck

LOOKED_BACK_S = 3600.0
OVERDUE_S = 30.0
OVERDUE_TIMES = 3  # a lane's p99
LISTED = 200
"""Lanes that are listed at most, those that fail first."""
_CACHED_S = 2.0  # a page, metrics and `--watch` ask at once
_ALL = ""  # no batch
_SEVERITY = {
    LaneWord.DOWN: 0, LaneWord.DEGRADED: 1, LaneWord.HEALTHY: 2, LaneWord.UNKNOWN: 3,
}  # fmt: skip


_TOO_FEW = "too few calls in the last hour to tell"
_NONE_ENDED = "no call has ended in the last hour"
_REFERENCE_FAILED = "a reference call failed after the last call"
_AGENTS_ONLY = (
    "only agents named it and it never answered; "
    "register a rollout with its upstream or model to have it judged"
)

AGENTS_OWN = "an agent's own"
"""The source of a key that no setting has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLane:
    """One lane with its health, and the calls that it stands on.

    ``calls`` have ended since the health was weighed from, else within the hour; ``failed`` counts
    failed ones by cause, without rejected requests. ``open`` calls are in flight, the oldest since
    ``open_since``. ``key_from`` is the setting that the key is from, or `AGENTS_OWN`; None: no key
    was sent, or it is not known. ``next_at`` is when one that waits for it may try it. ``overdue``
    are the rollouts whose calls are in flight far longer than usual, the oldest first.
    ``agents_only``: it fails, but has no word, as it never answered and nobody but agents named it.
    """

    place: LanePlace
    health: LaneHealth
    calls: int = 0
    failed: Mapping[str, int]
    last_at: float | None = None
    open: int = 0
    open_since: float | None = None
    own_key: bool = False
    key_from: str | None = None
    next_at: float | None = None
    agents_only: bool = False
    overdue: Sequence[str] = ()

    @property
    def reason(self) -> str | None:
        """Return why it is unknown, in words; None of one that has a word."""
        if self.health.word is not LaneWord.UNKNOWN:
            return None
        if self.agents_only:
            return _AGENTS_ONLY
        reference = self.health.reference
        if reference is not None and reference.answered is False:
            return _REFERENCE_FAILED
        return _TOO_FEW if self.calls else _NONE_ENDED

    @property
    def name(self) -> str:
        """The lane as people read it."""
        return self.place.name

    @property
    def fails(self) -> bool:
        """True if it is degraded or down."""
        return self.health.word in (LaneWord.DEGRADED, LaneWord.DOWN)

    @property
    def episodes(self) -> Sequence[Episode]:
        """The times in which it was not healthy, within what was looked at."""
        return self.health.episodes

    @property
    def last_episode(self) -> Episode | None:
        """The last time in which it was not healthy, which may last."""
        return self.episodes[-1] if self.episodes else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as REST has it."""
        health, reference = self.health, self.health.reference
        return {
            **self.place._asdict(),
            "key_from": self.key_from,
            "word": health.word.value,
            "reason": self.reason,
            "since": health.since,
            "answered_at": health.answered_at,
            "cause": health.cause,
            "calls": self.calls,
            "failed": dict(self.failed),
            "votes": round(health.votes, 2),
            "failed_votes": round(health.failures, 2),
            "failed_share_low": health.share_low,
            "weighed_from": health.weighed_from,
            "last_at": self.last_at,
            "open": self.open,
            "open_since": self.open_since,
            "waiting": health.waiting,
            "next_at": self.next_at,
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
            "answered_at": each.health.answered_at if each.fails else None,
            "cause": each.health.cause,
        }
        for (upstream, model), each in worst.items()
    ]
    return {"at": report.at, "items": items}


def _rank(status: NamedLane) -> tuple[Any, ...]:
    return (_SEVERITY[status.health.word], -status.calls, *map(str, status.place))


# --- lanes from rows ---------------------------------------------------------------------------


def lanes_of(
    rows: LaneRows,
    now: float,
    *,
    known: Callable[[LanePlace], bool] = lambda _place: False,
) -> list[NamedLane]:
    """Decide each lane's health, those that fail first. Each that was called is in the list.

    Arguments:
        known: whether a lane that fails and was not answered within the time is known by more than
            agents' words.
    """
    lanes: dict[LanePlace, Sequence[LaneTally]] = dict(rows.tallies)
    in_flight: defaultdict[LanePlace, list[OpenRow]] = defaultdict(list)
    for row in rows.open:
        in_flight[LanePlace(row.upstream, row.model, row.key)].append(row)
    for place in in_flight:
        lanes.setdefault(place, ())
    waiting = _waiting(rows, now)
    references, explained = _references(rows.series), _explained(rows)
    told_apart = _told_apart(lanes)
    found = []
    for place, tallies in lanes.items():
        if place.server is not None and place[:3] not in told_apart:
            continue
        late = waiting[place]
        health = lane_health(
            weighed(
                tallies,
                pending=_pending(
                    in_flight[place],
                    Counter(row.started_at // MINUTE_S for row in late),
                ),
                explained=explained(place),
            ),
            now,
            waiting=len(late),
            reference=references.get((place.upstream, canonical(place.model))),
        )
        lane = _named_lane(place, health, tallies, in_flight[place])
        if late:
            lane = replace(lane, overdue=[*dict.fromkeys(row.rollout_id for row in late)])
        whole = lanes[place._replace(server=None)]
        said = lane.own_key or any(each.answered for each in whole)
        if lane.fails and not said and not known(place):
            health = replace(health, word=LaneWord.UNKNOWN, since=None, cause=None, episodes=())
            lane = replace(lane, health=health, agents_only=True)
        found.append(lane)
    return sorted(found, key=_rank)


def _named_lane(
    place: LanePlace, health: LaneHealth, tallies: Sequence[LaneTally], in_flight: Sequence[OpenRow]
) -> NamedLane:
    begin = 0.0 if health.weighed_from is None else health.weighed_from // MINUTE_S
    weighed_ones = [each for each in tallies if each.minute >= begin]
    failed: Counter[str] = Counter()
    for each in weighed_ones:
        failed.update(each.failed)
    failed.pop(Subcategory.REJECTED_REQUEST, None)
    return NamedLane(
        place=place,
        health=health,
        calls=sum(each.calls for each in weighed_ones),
        failed=dict(failed.most_common()),
        last_at=max((at for each in tallies if (at := each.last_at) is not None), default=None),
        open=sum(row.calls for row in in_flight),
        open_since=min((row.oldest_at for row in in_flight), default=None),
        own_key=any(each.own_key for each in tallies),
        next_at=_next_at(tallies),
    )


def _next_at(tallies: Sequence[LaneTally]) -> float | None:
    """Return when one that waits for a lane may try it; None: nobody has to wait."""
    silent = silence(tallies)
    return silent.next_at(None) if silent is not None and silent.is_down(0) else None


def _waiting(rows: LaneRows, now: float) -> defaultdict[LanePlace, list[OverdueRow]]:
    """List the calls that are overdue by their lane, the oldest first."""
    late: defaultdict[LanePlace, list[OverdueRow]] = defaultdict(list)
    for row in rows.overdue:
        place = LanePlace(row.upstream, row.model, row.key)
        p99_s = rows.p99_s.get(place[:3], 0.0)
        if now - row.started_at > max(OVERDUE_S, OVERDUE_TIMES * p99_s):
            late[place].append(row)
    return late


def _pending(in_flight: Iterable[OpenRow], late: Mapping[float, int]) -> dict[int, int]:
    """Return how many rollouts have calls in flight that are not overdue, by minute."""
    pending = {
        row.minute: min(row.rollouts, row.calls - late.get(row.minute, 0)) for row in in_flight
    }
    return {minute: rollouts for minute, rollouts in pending.items() if rollouts > 0}


def _told_apart(lanes: Iterable[LanePlace]) -> set[tuple[str, str | None, str | None]]:
    """Return the lanes whose answers name several servers."""
    servers: Counter[tuple[str, str | None, str | None]] = Counter()
    servers.update(place[:3] for place in lanes if place.server is not None)
    return {lane for lane, count in servers.items() if count > 1}


def _explained(rows: LaneRows) -> Callable[[LanePlace], Callable[[str, Failures], bool] | None]:
    """Return what tells of a lane's failures whether a reference was answered beside them."""
    times: defaultdict[tuple[str, str | None], list[tuple[str, float, float]]] = defaultdict(list)
    for upstream, model, name, since, until in rows.explained:
        times[upstream, canonical(model)].append((name, since, until))

    def on_lane(place: LanePlace) -> Callable[[str, Failures], bool] | None:
        theirs = times.get((place.upstream, canonical(place.model)))
        if theirs is None:
            return None
        return lambda name, failures: any(
            name == each and since <= failures.last <= until for each, since, until in theirs
        )

    return on_lane


def _references(
    series: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str | None], LastReference]:
    """Return the last reference call of each upstream and model that asked something."""
    found: dict[tuple[str, str | None], LastReference] = {}
    for row in series:  # the newest first
        place = row["upstream"], canonical(row["model"])
        if place in found or row["not_run"] is not None or not row["calls"]:
            continue
        last = row["calls"][-1]
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
        listed = [
            replace(each, key_from=key_from(service, each.place.key, own_key=each.own_key))
            for each in lanes[:LISTED]
        ]
        cached = LaneReport(at=now, items=listed, total=len(lanes))
        service.statuses.store(_ALL, version, cached)
    return cached


def key_from(service: Service, key: str | None, *, own_key: bool = False) -> str | None:
    """Return the setting that a key is from, or `AGENTS_OWN`, by its digest.

    None: no key was sent, or a setting had it (``own_key``) that has another one now.
    """
    if key is None or key in service.key_names:
        return service.key_names.get(key or "")
    return None if own_key else AGENTS_OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEpisode:
    """A time in which a lane was not healthy, and how many of a batch's rollouts it struck.

    ``until`` is None where it lasted at the batch's last call; ``since`` and ``answered_at`` are as
    in `Episode`.
    """

    name: str
    word: LaneWord
    since: float | None
    until: float | None
    cause: str
    rollouts: int
    answered_at: float | None = None


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
    upstreams = database.read(statistics.upstreams_of, batch)
    tallies = database.lane_minutes.tallies(since=begin, until=end, upstreams=upstreams)
    found = []
    for lane in _lanes(database, LaneRows(tallies=tallies), begin, end):
        if lane.place.server is not None:
            continue
        for episode in lane.episodes:
            until = end if episode.until is None else episode.until
            count = database.read(struck, batch, lane.place, episode.since or begin, until)
            if count:
                found.append(
                    BatchEpisode(
                        name=lane.name, word=episode.word, since=episode.since,
                        until=episode.until, cause=episode.cause, rollouts=count,
                        answered_at=episode.answered_at,
                    )
                )  # fmt: skip
    return sorted(found, key=lambda each: (-each.rollouts, each.since or 0.0))[:_SHOWN]


def _lanes(database: Database, rows: LaneRows, begin: float, now: float) -> list[NamedLane]:
    """Decide lanes' health; a lane is known that answered or that a rollout is registered for.

    Arguments:
        begin: of what was read, in epoch seconds.
    """
    registered = cache(partial(database.lane_minutes.names, now=now))

    def known(place: LanePlace) -> bool:
        models, upstreams = registered()
        if place.upstream in upstreams or plain(place.model) in models:
            return True
        return database.lane_minutes.ever_answered(place)

    lanes = lanes_of(rows, now, known=known)
    return _with_beginnings(database, lanes, rows, begin, now)


# --- since when --------------------------------------------------------------------------------
# What failed from the begin of what was read may have failed before.


_FIRST_S = 600.0  # of what was read


def _with_beginnings(
    database: Database, lanes: Sequence[NamedLane], rows: LaneRows, begin: float, now: float
) -> list[NamedLane]:
    """Return lanes with the begin of what had begun before they were read, as far as is known."""
    explained, longer = _explained(rows), min(begin, now - _LONGEST_S)

    @cache
    def whole(upstream: str) -> Mapping[LanePlace, Sequence[LaneTally]]:
        return database.lane_minutes.tallies(since=longer, until=now, upstreams=[upstream])

    told = []
    for lane in lanes:
        first = lane.episodes[0] if lane.episodes else None
        if first is None or (first.answered_at is not None and not _is_early(first, begin)):
            told.append(lane)
            continue
        begun = _begun(database, lane.place, first)
        if _is_early(first, begin) and (begun.answered_at or 0.0) > begin - _FIRST_S:
            # It was answered now and then, so that votes say when it began.
            tallies = whole(lane.place.upstream).get(lane.place, ())
            minutes = weighed(tallies, explained=explained(lane.place))
            begun = _covering(episodes(minutes), first)
            if _is_early(begun, longer):
                begun = begun._replace(since=None, answered_at=None)
        told.append(_begun_as(lane, begun))
    return told


def _is_early(episode: Episode, begin: float) -> bool:
    return episode.minute * MINUTE_S < begin + _FIRST_S


def _covering(longer: Iterable[Episode], episode: Episode) -> Episode:
    """Return the episode that another is the end of, else that itself."""
    for each in longer:
        if each.minute <= episode.minute < (each.until or math.inf) / MINUTE_S:
            return each
    return episode


def _begun(database: Database, place: LanePlace, episode: Episode) -> Episode:
    """Return an episode since the first failure after the last answer before it.

    When that was is not known of a server, of names that are counted as one, and where counts from
    before the first failure are deleted.
    """
    unknown = episode._replace(since=None)
    if episode.since is None or place.server is not None or place.is_several:
        return unknown
    found = database.lane_minutes.beginning(place, before=episode.since)
    starts = [at for each in weighed(found.tallies) if (at := each.failing_from) is not None]
    starts = [at for at in (*starts, episode.since) if at > (found.answered_at or 0.0)]
    if found.answered_at is None and min(starts) < found.counted_from + _FIRST_S:
        return unknown
    return episode._replace(since=min(starts), answered_at=found.answered_at)


def _begun_as(lane: NamedLane, first: Episode) -> NamedLane:
    """Return a lane whose first episode began as another says."""
    begun = lane.episodes[0]._replace(since=first.since, answered_at=first.answered_at)
    health = replace(lane.health, episodes=(begun, *lane.episodes[1:]))
    if lane.fails and len(lane.episodes) == 1:
        answered_at = lane.health.answered_at or first.answered_at
        health = replace(health, since=first.since, answered_at=answered_at)
    return replace(lane, health=health)


# --- lanes from the database -------------------------------------------------------------------


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
    begin = now - LOOKED_BACK_S
    rows = database.lane_minutes.rows(since=begin, now=now, overdue_s=OVERDUE_S)
    return _lanes(database, rows, begin, now)


def last_lanes(database: Database, upstream: str, until: float) -> list[NamedLane]:
    """Read the lanes of an upstream as they were at a time, from the hour before it.

    Raises:
        StoreError: the database is unavailable.
    """
    begin = until - LOOKED_BACK_S
    tallies = database.lane_minutes.tallies(since=begin, until=until - 1, upstreams=[upstream])
    return _lanes(database, LaneRows(tallies=tallies), begin, until)


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
