"""Upstreams' failures, latencies and keys over a window of time, and calls over time."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from classifier.lane_health import MINUTE_S, LaneWord
from classifier.logical_calls import canonical
from classifier.records import Exchange
from classifier.references import REFERENCE
from proxy.control.health import NamedLane, key_from, last_lanes, status_report
from proxy.control.look import Condition, Conditions, link_to
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service, run_in_thread, storage_unavailable
from proxy.control.reports import CallTotals, call_totals
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.routing.upstreams import normalised
from proxy.store import lane_minutes, statistics
from proxy.store.batches import CallSum, question_sums
from proxy.store.calls import some_of
from proxy.store.errors import StoreError
from proxy.store.lane_minutes import LanePlace, LaneStep, Took, quantile

# --- figures of upstreams and their models -----------------------------------------------------


_AGENTS_FAULT = "rejected_request"
_NO_KEY = "-"  # calls that sent none

Facts = Mapping[str, Any]


class Down(NamedTuple):
    """The time since when lanes are all down, None if that is not known, and their last answer.

    Both in epoch seconds, as calls began; ``answered_at`` is None if no answer is known.
    """

    since: float | None
    answered_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds that ``calls`` answered calls took, to two digits; None if none did."""

    calls: int
    first_byte_p50_s: float | None
    first_byte_p95_s: float | None
    duration_p50_s: float | None
    duration_p95_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamPoint:
    """One step of time from ``at`` (epoch seconds): all calls, and failed ones by subcategory."""

    at: float
    calls: int
    failed: Mapping[str, int]
    first_byte_p50_s: float | None = None
    first_byte_p95_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStats:
    """The outcomes and latencies of some calls.

    ``refused`` are the agents' own bad requests, which say nothing about the provider;
    ``error_rate`` is over the others, None if there are none. ``down`` is None if one of their
    lanes is not down.
    """

    calls: int
    refused: int
    failed: Mapping[str, int]
    error_rate: float | None
    down: Down | None
    last_at: float
    latencies: Latencies


class KeyStats(NamedTuple):
    """One key by its digest: calls that asked a model, and those that failed by the provider.

    ``down`` and its ``cause`` are None if one of its lanes is not down. ``key_from`` is the setting
    that the key is from, or an agent.
    """

    key: str
    calls: int
    failed: int
    down: Down | None
    cause: str | None
    key_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStats:
    """One upstream over a window.

    ``models`` are by name (None: no call said which), ``keys`` are of calls that asked a model;
    both the busiest first. ``points`` are consecutive steps.
    """

    name: str
    origin: str
    stats: CallStats
    models: Sequence[tuple[str | None, CallStats]]
    keys: Sequence[KeyStats]
    points: Sequence[UpstreamPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    """One key and model over a window: ``calls`` asked the model, ``failed`` ones are by cause.

    ``answered_at`` and ``failed_at`` are when the last such call began, in epoch seconds. ``now``
    is the lane's health, None if it was not called for an hour; ``steps`` are what was counted.
    """

    place: LanePlace
    key_from: str | None
    calls: int
    failed: Mapping[str, int]
    answered_at: float | None
    failed_at: float | None
    latencies: Latencies
    now: NamedLane | None
    steps: Sequence[LaneStep] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps of ``step_s`` seconds from ``start`` to ``end``, in epoch seconds."""

    start: float
    end: float
    step_s: int

    @property
    def edges(self) -> range:
        """The begin of each step."""
        return range(int(self.start), int(self.end), self.step_s)


def upstream_stats(
    window: Window,
    rows: Sequence[Facts],
    *,
    keys: Sequence[LaneStep] = (),
    taken: Sequence[Took] = (),
    lanes: Sequence[NamedLane] = (),
    key_names: Callable[[str], str | None] = lambda _key: None,
    origins: Mapping[str, str],
) -> list[UpstreamStats]:
    """Sum up calls by upstream, the busiest first.

    Arguments:
        rows: counts as of `proxy.store.statistics.usage`, each with ``at`` in epoch seconds.
        keys: counts by step and key.
        taken: the seconds that answered calls took.
        lanes: the health of lanes now.
        key_names: the setting that a key is from, by its digest.
    """
    of_upstream = _grouped(rows, "upstream")
    steps: defaultdict[str, list[LaneStep]] = defaultdict(list)
    for step in keys:
        steps[step.upstream].append(step)
    seconds: defaultdict[str, list[Took]] = defaultdict(list)
    for took in taken:
        seconds[took.upstream].append(took)
    ranked = sorted(of_upstream, key=lambda name: (-_total(of_upstream[name]), name))
    return [
        _upstream(
            window, name, of_upstream[name], steps[name], seconds[name],
            [lane for lane in lanes if lane.place.upstream == name], key_names,
            origins.get(name, ""),
        )
        for name in ranked
    ]  # fmt: skip


def _upstream(
    window: Window,
    name: str,
    rows: Sequence[Facts],
    steps: Sequence[LaneStep],
    taken: Sequence[Took],
    lanes: Sequence[NamedLane],
    key_names: Callable[[str], str | None],
    origin: str,
) -> UpstreamStats:
    of_model = _grouped(rows, "model")
    of_key: defaultdict[str, list[LaneStep]] = defaultdict(list)
    for step in steps:
        of_key[step.key or _NO_KEY].append(step)
    keys = sorted(
        (_key_stats(key, theirs, lanes, key_names(key)) for key, theirs in of_key.items()),
        key=lambda each: -each.calls,
    )
    ranked = sorted(of_model, key=lambda model: (-_total(of_model[model]), model or ""))
    models = [
        (model, _stats(of_model[model], _of_model(taken, model), _lanes_of_model(lanes, model)))
        for model in ranked
    ]
    return UpstreamStats(
        name=name,
        origin=origin,
        stats=_stats(rows, taken, lanes),
        models=models,
        keys=keys,
        points=_points(window, rows, taken),
    )


def _of_model(taken: Sequence[Took], model: str | None) -> list[Took]:
    """Return what calls to a model took: of the name that answered, else of one like it.

    Calls are counted by the name that answered, and timed by the name that was asked for.
    """
    exact = [each for each in taken if each.model == model]
    return exact or [each for each in taken if canonical(each.model) == canonical(model)]


def _lanes_of_model(lanes: Sequence[NamedLane], model: str | None) -> list[NamedLane]:
    return [lane for lane in lanes if canonical(lane.place.model) == canonical(model)]


def _grouped(rows: Iterable[Facts], by: str) -> defaultdict[Any, list[Facts]]:
    groups: defaultdict[Any, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[row[by]].append(row)
    return groups


def _total(rows: Iterable[Facts]) -> int:
    return sum(row["calls"] for row in rows)


def _stats(rows: Sequence[Facts], taken: Sequence[Took], lanes: Sequence[NamedLane]) -> CallStats:
    failed: Counter[str] = Counter()
    for row in rows:
        if row["subcategory"] is not None:
            failed[row["subcategory"]] += row["calls"]
    calls, refused = _total(rows), failed[_AGENTS_FAULT]
    return CallStats(
        calls=calls,
        refused=refused,
        failed=dict(failed.most_common()),
        error_rate=ratio(failed.total() - refused, calls - refused),
        down=all_down(lanes),
        last_at=max(row["last_at"] for row in rows),
        latencies=_latencies(taken),
    )


def _latencies(taken: Iterable[Took]) -> Latencies:
    first: Counter[float] = Counter()
    whole: Counter[float] = Counter()
    for each in taken:
        first.update(each.first_byte_s)
        whole.update(each.duration_s)
    return Latencies(
        calls=max(first.total(), whole.total()),
        first_byte_p50_s=quantile(first, 0.5),
        first_byte_p95_s=quantile(first, 0.95),
        duration_p50_s=quantile(whole, 0.5),
        duration_p95_s=quantile(whole, 0.95),
    )


def _points(
    window: Window, rows: Sequence[Facts], taken: Sequence[Took] = ()
) -> list[UpstreamPoint]:
    of_step = _grouped(rows, "at")
    took_in: defaultdict[float, list[Took]] = defaultdict(list)
    for each in taken:
        took_in[each.minute * MINUTE_S // window.step_s * window.step_s].append(each)
    points = []
    for at in window.edges:
        failed: Counter[str] = Counter()
        for row in of_step[at]:
            if row["subcategory"] is not None:
                failed[row["subcategory"]] += row["calls"]
        latencies = _latencies(took_in[at])
        points.append(
            UpstreamPoint(
                at=at,
                calls=_total(of_step[at]),
                failed=dict(failed),
                first_byte_p50_s=latencies.first_byte_p50_s,
                first_byte_p95_s=latencies.first_byte_p95_s,
            )
        )
    return points


def lane_points(window: Window, steps: Iterable[LaneStep]) -> list[UpstreamPoint]:
    """Return the steps of a window with the calls of one lane."""
    by_step = {step.step * window.step_s: step for step in steps}
    points = []
    for at in window.edges:
        step = by_step.get(at)
        calls, failed = (0, {}) if step is None else (step.calls, step.failed)
        points.append(UpstreamPoint(at=at, calls=calls, failed=failed))
    return points


def lane_stats(
    steps: Iterable[LaneStep],
    taken: Iterable[Took],
    lanes: Iterable[NamedLane],
    key_names: Callable[[str | None], str | None],
) -> list[LaneStats]:
    """Sum up calls by lane, and put the health of each now beside them.

    Lanes are listed that were called in the window or within the hour.
    """
    of_lane: defaultdict[LanePlace, list[LaneStep]] = defaultdict(list)
    for step in steps:
        of_lane[LanePlace(step.upstream, step.model, step.key)].append(step)
    seconds: defaultdict[LanePlace, list[Took]] = defaultdict(list)
    for took in taken:
        seconds[LanePlace(took.upstream, took.model, took.key)].append(took)
    now = {lane.place: lane for lane in lanes if lane.place.server is None}
    return [
        LaneStats(
            place=place,
            key_from=key_names(place.key),
            calls=sum(step.calls for step in of_lane[place]),
            failed=sum((Counter(step.failed) for step in of_lane[place]), Counter()),
            answered_at=_latest(step.answered_at for step in of_lane[place]),
            failed_at=_latest(step.failed_at for step in of_lane[place]),
            latencies=_latencies(seconds[place]),
            now=now.get(place),
            steps=of_lane[place],
        )
        for place in dict.fromkeys((*now, *[*of_lane]))
    ]


def _latest(times: Iterable[float | None]) -> float | None:
    return max((at for at in times if at is not None), default=None)


def _key_stats(
    key: str, steps: Iterable[LaneStep], lanes: Sequence[NamedLane], source: str | None
) -> KeyStats:
    calls = failed = 0
    for step in steps:
        calls += step.calls
        failed += sum(step.failed.values()) - step.failed.get(_AGENTS_FAULT, 0)
    theirs = [lane for lane in lanes if lane.place.key == key]
    down = all_down(theirs)
    last = [lane for lane in theirs if down is not None and lane.health.since == down.since]
    return KeyStats(
        key=key,
        calls=calls,
        failed=failed,
        down=down,
        cause=last[0].health.cause if last else None,
        key_from=source,
    )


def all_down(lanes: Iterable[NamedLane]) -> Down | None:
    """Return since when lanes are down, all of those that have a word; None if one is not.

    It is the time of the last that went down: from then on none answered.
    """
    known = [
        lane.health
        for lane in lanes
        if lane.place.server is None and lane.health.word is not LaneWord.UNKNOWN
    ]
    if not known or any(each.word is not LaneWord.DOWN for each in known):
        return None
    times = [each.since for each in known if each.since is not None]
    answers = [each.answered_at for each in known if each.answered_at is not None]
    return Down(max(times, default=None), max(answers, default=None))


def ratio(part: int, whole: int) -> float | None:
    """Divide a part by its whole; None if the whole is 0."""
    return part / whole if whole else None


# --- timeline of a batch's calls ---------------------------------------------------------------
# Counted in steps of a round length.


STEPS = 2000  # steps a timeline is read in, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """Ended calls of one step; ``at`` in epoch seconds.

    ``failed`` counts the failed ones by subcategory, ``calls`` all of them.
    """

    at: float
    calls: int
    failed: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Consecutive points ``step_s`` seconds apart, oldest first."""

    step_s: int
    points: Sequence[TimelinePoint]


def build_timeline(rows: Sequence[Facts], fine_s: int, bars: int) -> Timeline:
    """Merge rows of fine steps into about ``bars`` points a round number of seconds apart."""
    first, last = rows[0]["step"] * fine_s, rows[-1]["step"] * fine_s
    step_s = round_step((last - first) / bars, at_least=fine_s)
    start = int(first // step_s)
    count = int(last // step_s) - start + 1
    calls: Counter[int] = Counter()
    failed: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        place = int(row["step"] * fine_s // step_s) - start
        calls[place] += row["calls"]
        if row["subcategory"] is not None:
            failed[place][row["subcategory"]] += row["calls"]
    points = [
        TimelinePoint(at=(start + n) * step_s, calls=calls[n], failed=dict(failed[n]))
        for n in range(count)
    ]
    return Timeline(step_s=step_s, points=points)


_ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
            86_400)  # fmt: skip


def round_step(wanted_s: float, *, at_least: int = 1) -> int:
    """Return a round number of seconds, no less than either."""
    needed = max(wanted_s, at_least)
    whole = math.ceil(needed / 86_400) * 86_400
    return next((step for step in _ROUND_S if step >= needed), whole)


# --- a reference that somebody asks for --------------------------------------------------------


async def ask_reference(service: Service, upstream: str, model: str) -> dict[str, Any]:
    """Ask a model one series of reference calls: return the answer to the POST.

    Raises:
        Refusal: 404 for an unknown upstream, 429 where too many were asked within a minute, 503
            while the database is unavailable.
    """
    name = normalised(upstream)
    if name not in service.upstreams:
        raise Refusal(404, "unknown_upstream", f"there is no upstream {upstream!r}")
    try:
        series_id = await service.ask_reference(name, model)
    except StoreError as error:
        raise storage_unavailable(error) from error
    facts = await series_facts(service, series_id)
    if facts is None:
        raise Refusal(503, "storage_unavailable", "the series is gone", RETRY_SOON)
    return facts


async def series_facts(service: Service, series_id: str) -> dict[str, Any] | None:
    """Return a series of reference calls and what came back; None if it is deleted.

    Returns:
        ``series``, ``upstream``, ``model``, ``api``, ``started_at``, ``ended_at``, ``not_run``, and
        ``calls``, each with its answer's facts unless they are deleted.
    """
    row = await service.run(service.database.references.of_id, series_id)
    if row is None:
        return None
    asked = json.loads(row["calls"])
    ids = [call["exchange_id"] for call in asked]
    exchanges = await service.read(some_of, REFERENCE, ids)
    return {
        "series": row["id"],
        **{name: row[name] for name in _OF_SERIES},
        "calls": [_reference_call(service, call, exchanges) for call in asked],
    }


_OF_SERIES = ("upstream", "model", "api", "started_at", "ended_at", "not_run")


def _reference_call(
    service: Service, call: dict[str, Any], exchanges: Mapping[str, Exchange]
) -> dict[str, Any]:
    exchange = exchanges.get(call["exchange_id"])
    if exchange is None:  # deleted meanwhile, with all that is as old
        return call
    return call | {
        "status": exchange.status,
        "answered_model": exchange.answered_model,
        "input_tokens": exchange.usage.input_total,
        "output_tokens": exchange.usage.output_total,
        "cost_usd": service.prices.cost(exchange),
    }


# --- reports for REST and pages ----------------------------------------------------------------


HOUR_S = 3600
LONGEST_S = 31 * 24 * HOUR_S
TIMED_S = 24 * HOUR_S
"""The longest window of which latencies are known: they are added up by minute and lane."""
_STEPS = 48  # in a window, roughly

UpstreamFacts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """All upstreams called in a window: ``calls`` have ended, ``asked`` of them asked a model.

    ``questions`` are the proxy's own calls among them, by upstream. ``open`` calls to each upstream
    are in flight, the oldest since a time (epoch seconds). ``lanes`` sums up all keys and models.
    """

    window: Window
    items: Sequence[UpstreamStats]
    calls: int
    asked: int
    questions: Mapping[str, CallTotals]
    open: Mapping[str, tuple[int, float]]
    lanes: Callable[[], list[LaneStats]]

    def to_dict(self) -> dict[str, Any]:
        """Return the response to `GET /upstreams`."""
        return {
            "since": self.window.start,
            "until": self.window.end,
            "step_s": self.window.step_s,
            "calls": self.calls,
            "asked": self.asked,
            "sampled_calls": None,
            "open": {name: calls for name, (calls, _) in self.open.items()},
            "items": [
                {**_item(each), "questions": _questions(self.questions.get(each.name))}
                for each in self.items
            ],
        }


async def upstream_report(
    service: Service, since: float | None = None, *, until: float | None = None
) -> WindowReport:
    """Report on the calls that began at or after ``since`` (epoch seconds; an hour ago).

    Arguments:
        until: began before the end of the step that it is in; now by default.

    Raises:
        Refusal: 422 for a begin in the future or over 31 days ago, or an end before it.
    """
    window = _window(since, until, service.now())
    span = {"since": window.start, "until": window.end}
    rows = await _counted(service, window.start, window.end, window.step_s)
    keys = await service.read(lane_minutes.lane_steps, **span, step_s=window.step_s)
    timed = window.end - window.start <= TIMED_S + window.step_s
    taken = await service.read(lane_minutes.took, **span) if timed else []
    asked = await service.read(question_sums, **span)
    lanes = (await status_report(service)).items
    seen = {lane.place.upstream for lane in lanes}
    if any(row["upstream"] not in seen for row in rows):
        earlier = await _when_last_called(service, but=seen, **span)
        lanes = [*lanes, *chain.from_iterable(earlier.values())]
    origins = {name: each.origin if each.url else "" for name, each in service.upstreams.items()}
    own = {lane.place.key for lane in lanes if lane.own_key}

    def key_names(key: str | None) -> str | None:
        return None if key == _NO_KEY else key_from(service, key, own_key=key in own)

    items = await run_in_thread(
        upstream_stats, window, rows, keys=keys, taken=taken, lanes=lanes, origins=origins,
        key_names=key_names,
    )  # fmt: skip
    now = [] if until is not None else lanes
    return WindowReport(
        window=window,
        items=items,
        calls=sum(item.stats.calls for item in items),
        asked=sum(step.calls for step in keys),
        questions=await service.run(_totals_of_questions, service.prices, asked),
        open=_in_flight(lanes),
        lanes=partial(lane_stats, keys, taken, now, key_names),
    )


def _in_flight(lanes: Iterable[NamedLane]) -> dict[str, tuple[int, float]]:
    """Count the calls in flight by upstream, with the time since when the oldest is."""
    found: dict[str, tuple[int, float]] = {}
    for lane in lanes:
        if lane.open_since is not None:
            calls, since = found.get(lane.place.upstream, (0, lane.open_since))
            found[lane.place.upstream] = (calls + lane.open, min(since, lane.open_since))
    return found


def _totals_of_questions(prices: PriceTable, sums: Sequence[CallSum]) -> dict[str, CallTotals]:
    by_upstream: defaultdict[str, list[CallSum]] = defaultdict(list)
    for each in sums:
        by_upstream[each.upstream].append(each)
    return {name: call_totals(prices, parts) for name, parts in by_upstream.items()}


LOOKED_BACK_S = 7 * 86_400  # for upstreams that failed and were not called since


async def quiet_lanes(
    service: Service, report: WindowReport, lanes: Iterable[LaneStats]
) -> list[LaneStats]:
    """Return the lanes that were down at their last call, before a report's window.

    Only an answer ends an outage. They are of upstreams that were not called since.

    Arguments:
        lanes: of the report, which are not among them.
    """
    begin, end = report.window.start - LOOKED_BACK_S, report.window.start
    called = {lane.place.upstream for lane in lanes} | {each.name for each in report.items}
    earlier = await _when_last_called(service, but=called, since=begin, until=end)
    down = [
        lane
        for of_upstream in earlier.values()
        for lane in of_upstream
        if lane.health.word is LaneWord.DOWN and lane.place.server is None
    ]
    own = {lane.place.key for lane in down if lane.own_key}
    return lane_stats((), (), down, lambda key: key_from(service, key, own_key=key in own))


async def _when_last_called(
    service: Service, *, but: Collection[str], since: float, until: float
) -> dict[str, list[NamedLane]]:
    """Return the lanes of other upstreams as they were at their last call within a time."""
    last = await service.read(lane_minutes.last_minutes, since=since, until=until)
    return {
        name: await service.run(last_lanes, service.database, name, (last[name] + 1) * MINUTE_S)
        for name in sorted(last.keys() - but)
    }


async def _counted(
    service: Service, since: float, until: float, step_s: int
) -> list[UpstreamFacts]:
    rows = await service.read(statistics.usage, since=since, until=until, step_s=step_s)
    return [{**row, "at": float(row["step"] * step_s)} for row in rows]


def _window(since: float | None, until: float | None, now: float) -> Window:
    began = now - HOUR_S if since is None else since
    if not now - LONGEST_S <= began < now:
        raise Refusal(422, "invalid", "since: not within the last 31 days, in epoch seconds")
    if until is not None and until <= began:
        raise Refusal(422, "invalid", "until: not after since")
    ended = now if until is None else min(until, now)
    step_s = round_step((ended - began) / _STEPS, at_least=MINUTE_S)
    # A call that begins now is within; one that begins at a chosen end is not.
    end = (math.floor(now / step_s) + 1 if ended == now else math.ceil(ended / step_s)) * step_s
    return Window(start=math.floor(began / step_s) * step_s, end=end, step_s=step_s)


def _item(upstream: UpstreamStats) -> dict[str, Any]:
    return {
        "upstream": upstream.name,
        "origin": upstream.origin,
        **_flat_stats(upstream.stats),
        "models": [{"model": name, **_flat_stats(stats)} for name, stats in upstream.models],
        "keys": [
            {
                "key": each.key,
                "key_from": each.key_from,
                "calls": each.calls,
                "failed": each.failed,
                "sampled_calls": None,
                "sampled_failed": None,
                **_flat_down(each.down),
            }
            for each in upstream.keys
        ],
        "points": [asdict(point) for point in upstream.points],
    }


def _questions(totals: CallTotals | None) -> dict[str, Any]:
    if totals is None:
        return {"calls": 0, "failures": 0, "total_tokens": None, "cost_usd": None}
    return {
        "calls": totals.calls,
        "failures": totals.failures,
        "total_tokens": totals.total_tokens,
        "cost_usd": totals.cost_usd,
    }


def _flat_stats(stats: CallStats) -> dict[str, Any]:
    flat = asdict(stats)
    latencies, last_at = flat.pop("latencies"), flat.pop("last_at")
    timed = latencies.pop("calls")
    del flat["down"]
    return {
        **flat,
        **_flat_down(stats.down),
        "last_at": last_at,
        "timed_calls": timed,
        "sampled_calls": None,
        **latencies,
    }


def _flat_down(down: Down | None) -> dict[str, Any]:
    since, answered_at = (None, None) if down is None else down
    return {"failing": down is not None, "failing_since": since, "answered_at": answered_at}


# --- conditions that an operator is alerted of -------------------------------------------------


UPSTREAM, LANE = "upstream.failing", "lane"
"""Kinds of alerts; that of a lane has a word behind it: ``lane.down``."""
_LANE_KINDS = tuple(f"{LANE}.{word}" for word in ("degraded", "down", "recovered"))
_RECOVERED_S = 600.0  # ago, at most, for which a recovery is told
_FAILING_S = 120.0  # for which all lanes of an upstream are down


async def failing_lanes(service: Service) -> Conditions:
    """Look for upstreams whose lanes are all down, for lanes that fail, and that recovered."""
    now, lanes = service.now(), (await status_report(service)).items
    found = [*_failing(service, lanes, now), *_lanes(service, lanes, now)]
    return Conditions(found=tuple(found), watched=frozenset((UPSTREAM, *_LANE_KINDS)))


def _failing(service: Service, lanes: Iterable[NamedLane], now: float) -> Iterator[Condition]:
    """Yield a condition for each upstream whose lanes are all down."""
    by_upstream: defaultdict[str, list[NamedLane]] = defaultdict(list)
    for lane in lanes:
        if lane.place.server is None:
            by_upstream[lane.place.upstream].append(lane)
    for name, theirs in by_upstream.items():
        down = all_down(theirs)
        if down is None or (down.since or 0.0) > now - _FAILING_S:
            continue
        failed: Counter[str] = Counter()
        for lane in theirs:
            failed.update(lane.failed)
        calls = sum(lane.calls for lane in theirs)
        data = {
            "upstream": name,
            "failing_since": down.since,
            "answered_at": down.answered_at,
            "calls": calls,
            "failed": dict(failed.most_common()),
            "error_rate": ratio(failed.total(), calls),
            **link_to(service, "/ui/upstreams"),
        }
        at = now if down.since is None else down.since
        yield Condition(kind=UPSTREAM, subject=name, at=at, data=data)


def _lanes(service: Service, lanes: Iterable[NamedLane], now: float) -> Iterator[Condition]:
    """Yield a condition for each lane that fails, and for each that recovered of late."""
    for lane in lanes:
        if lane.fails:
            data = lane.to_dict()
            yield _lane_condition(service, lane, lane.health.word.value, data)
        elif (last := lane.last_episode) is not None and (last.until or 0) > now - _RECOVERED_S:
            data = {
                "since": last.since, "answered_at": last.answered_at, "until": last.until,
                "cause": last.cause,
            }  # fmt: skip
            yield _lane_condition(service, lane, "recovered", data)


def _lane_condition(
    service: Service, lane: NamedLane, word: str, data: Mapping[str, Any]
) -> Condition:
    episode = lane.last_episode
    return Condition(
        kind=f"{LANE}.{word}",
        subject=lane.name,
        at=(episode and (episode.until or episode.since)) or service.now(),
        data={**lane.place._asdict(), **data, **link_to(service, "/status")},
    )
