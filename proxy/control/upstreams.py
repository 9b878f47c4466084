"""Upstreams' failures, latency and keys over a window of time, and calls over time, from calls."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from classifier.records import Exchange
from classifier.references import REFERENCE
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service, run_in_thread, storage_unavailable
from proxy.control.reports import CallTotals, call_totals
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.routing.upstreams import normalised
from proxy.store import statistics
from proxy.store.batches import CallSum, question_sums
from proxy.store.calls import some_of
from proxy.store.errors import StoreError
from proxy.store.pace import WaitingCalls
from proxy.store.statistics import Slice

# --- figures of upstreams and their models -----------------------------------------------------


_AGENTS_FAULT = "rejected_request"
_FAILING = 0.5  # share of failed calls
_FEWEST = 3  # failed calls
_NO_KEY = "-"  # calls that sent none
DRAWN = 8  # models and keys of an upstream that are followed over time, the busiest

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds that answered calls took, over the ``calls`` of a sample; None if none did."""

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
    ``error_rate`` is over the others, None if there are none. ``failing_since`` is the start
    of the step (epoch seconds) from which on most calls failed, None if they do not fail now.
    """

    calls: int
    refused: int
    failed: Mapping[str, int]
    error_rate: float | None
    failing_since: float | None
    last_at: float
    latencies: Latencies


class KeyStats(NamedTuple):
    """One key by its digest: sampled calls, and those that failed by the provider.

    ``failing_since`` is the begin (epoch seconds) of the failed calls in a row that the key ended
    on, ``cause`` the last one's subcategory; both None if fewer than three did.
    """

    key: str
    calls: int
    failed: int
    failing_since: float | None
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStats:
    """One upstream over a window.

    ``models`` are by name (None: no call said which), ``keys`` are of the sampled calls; both the
    busiest first. ``points`` are consecutive steps; ``model_points`` and ``key_points`` the same
    steps of the busiest models and keys.
    """

    name: str
    origin: str
    stats: CallStats
    models: Sequence[tuple[str | None, CallStats]]
    keys: Sequence[KeyStats]
    points: Sequence[UpstreamPoint]
    model_points: Sequence[tuple[str | None, Sequence[UpstreamPoint]]] = ()
    key_points: Sequence[tuple[str, Sequence[UpstreamPoint]]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps of ``step_s`` seconds from ``start`` to ``end``, in epoch seconds.

    From ``fine_from`` on calls were counted in finer steps too.
    """

    start: float
    end: float
    step_s: int
    fine_from: float

    @property
    def edges(self) -> range:
        """The begin of each step."""
        return range(int(self.start), int(self.end), self.step_s)


def upstream_stats(
    window: Window,
    rows: Sequence[Facts],
    sampled: Sequence[Facts],
    *,
    recent: Sequence[Facts],
    origins: Mapping[str, str],
) -> list[UpstreamStats]:
    """Sum up calls by upstream, the busiest first.

    Arguments:
        rows: counts as of `proxy.store.statistics.usage`, each with ``at`` in epoch seconds.
        sampled: some or all of the calls.
        recent: the same counts in finer steps, from the window's ``fine_from`` on.
    """
    calls = _weighed(window, rows, sampled)
    finest = [*(row for row in rows if row["at"] < window.fine_from), *recent]
    of_upstream, finest_of, sampled_of = (
        _grouped(each, "upstream") for each in (rows, finest, calls)
    )
    ranked = sorted(of_upstream, key=lambda name: (-_total(of_upstream[name]), name))
    return [
        _upstream(
            window, name, of_upstream[name], sampled_of[name], finest=finest_of[name],
            origin=origins.get(name, ""),
        )
        for name in ranked
    ]  # fmt: skip


def _upstream(
    window: Window,
    name: str,
    rows: Sequence[Facts],
    sampled: Sequence[Facts],
    *,
    finest: Sequence[Facts],
    origin: str,
) -> UpstreamStats:
    models, keys = _models(rows, finest, sampled), key_stats(sampled)
    of_model, sampled_of = _grouped(rows, "model"), _grouped(sampled, "model")
    of_key = _by_key(sampled)
    return UpstreamStats(
        name=name,
        origin=origin,
        stats=_stats(rows, finest, sampled),
        models=models,
        keys=keys,
        points=_points(window, rows, sampled),
        model_points=[
            (model, _points(window, of_model[model], sampled_of[model]))
            for model, _ in models[:DRAWN]
        ],
        key_points=[
            (key, _points(window, [{**call, "calls": 1} for call in of_key[key]], of_key[key]))
            for key, *_ in keys[:DRAWN]
        ],
    )


def _weighed(
    window: Window, rows: Iterable[Facts], sampled: Sequence[Facts]
) -> list[dict[str, Any]]:
    """Add to sampled calls the step they began in, and the number of calls that each stands for."""
    placed = [
        {**call, "at": float(call["started_at"] // window.step_s * window.step_s)}
        for call in sampled
    ]
    counted: Counter[float] = Counter()
    for row in rows:
        counted[row["at"]] += row["calls"]
    taken = Counter(call["at"] for call in placed)
    return [
        {**call, "weight": max(1.0, counted[call["at"]] / taken[call["at"]])} for call in placed
    ]


def _models(
    rows: Sequence[Facts], finest: Sequence[Facts], sampled: Sequence[Facts]
) -> list[tuple[str | None, CallStats]]:
    of_model, finest_of, sampled_of = (_grouped(each, "model") for each in (rows, finest, sampled))
    ranked = sorted(of_model, key=lambda name: (-_total(of_model[name]), name or ""))
    return [(name, _stats(of_model[name], finest_of[name], sampled_of[name])) for name in ranked]


def _grouped(rows: Iterable[Facts], by: str) -> defaultdict[Any, list[Facts]]:
    groups: defaultdict[Any, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[row[by]].append(row)
    return groups


def _total(rows: Iterable[Facts]) -> int:
    return sum(row["calls"] for row in rows)


def _stats(rows: Sequence[Facts], finest: Sequence[Facts], sampled: Sequence[Facts]) -> CallStats:
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
        failing_since=failing_since(finest),
        last_at=max(row["last_at"] for row in rows),
        latencies=_latencies(sampled),
    )


def _latencies(sampled: Sequence[Facts]) -> Latencies:
    answered = [call for call in sampled if call["subcategory"] is None]
    first = _weighted(answered, "first_byte_s")
    whole = _weighted(answered, "duration_s")
    return Latencies(
        calls=len(answered),
        first_byte_p50_s=quantile(first, 0.5),
        first_byte_p95_s=quantile(first, 0.95),
        duration_p50_s=quantile(whole, 0.5),
        duration_p95_s=quantile(whole, 0.95),
    )


def _weighted(calls: Iterable[Facts], name: str) -> list[tuple[float, float]]:
    return [(call[name], call["weight"]) for call in calls if call[name] is not None]


def _points(window: Window, rows: Sequence[Facts], sampled: Sequence[Facts]) -> list[UpstreamPoint]:
    of_step, sampled_of = _grouped(rows, "at"), _grouped(sampled, "at")
    points = []
    for at in window.edges:
        failed: Counter[str] = Counter()
        for row in of_step[at]:
            if row["subcategory"] is not None:
                failed[row["subcategory"]] += row["calls"]
        taken = _latencies(sampled_of[at])
        points.append(
            UpstreamPoint(
                at=at,
                calls=_total(of_step[at]),
                failed=dict(failed),
                first_byte_p50_s=taken.first_byte_p50_s,
                first_byte_p95_s=taken.first_byte_p95_s,
            )
        )
    return points


def failing_since(rows: Iterable[Facts]) -> float | None:
    """Return the begin of the step from which on most calls failed, in epoch seconds.

    None if most calls of the last step were answered, or fewer than three failed since.
    Steps without calls decide nothing.
    """
    served: Counter[float] = Counter()
    failed: Counter[float] = Counter()
    for row in rows:
        if row["subcategory"] != _AGENTS_FAULT:
            served[row["at"]] += row["calls"]
            failed[row["at"]] += row["calls"] * (row["subcategory"] is not None)
    since, count = None, 0
    for at in sorted(served, reverse=True):
        if failed[at] < _FAILING * served[at]:
            break
        since, count = at, count + failed[at]
    return since if count >= _FEWEST else None


def refined(upstream: UpstreamStats, fine: Sequence[Facts]) -> UpstreamStats:
    """Return an upstream with the finer step from which on it and its models fail.

    Arguments:
        fine: counts in finer steps around ``failing_since``.
    """
    of_model = _grouped(fine, "model")
    return replace(
        upstream,
        stats=_refined(upstream.stats, fine),
        models=[(name, _refined(stats, of_model[name])) for name, stats in upstream.models],
    )


def _refined(stats: CallStats, fine: Sequence[Facts]) -> CallStats:
    since = None if stats.failing_since is None else failing_since(fine)
    return stats if since is None else replace(stats, failing_since=since)


def quantile(values: Iterable[tuple[float, float]], share: float) -> float | None:
    """Return the value below which this share of the weight lies; None without values.

    Arguments:
        values: pairs of a value and its weight.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    sums = list(accumulate(weight for _, weight in ordered))
    return ordered[min(len(ordered) - 1, bisect_left(sums, share * sums[-1] + 1e-9))][0]


def ratio(part: int, whole: int) -> float | None:
    """Divide a part by its whole; None if the whole is 0."""
    return part / whole if whole else None


def key_stats(calls: Iterable[Facts]) -> list[KeyStats]:
    """Return each key's calls and failures, most calls first."""
    stats = [_key_stats(key, calls) for key, calls in _by_key(calls).items()]
    return sorted(stats, key=lambda each: -each.calls)


def _by_key(calls: Iterable[Facts]) -> defaultdict[str, list[Facts]]:
    by_key: defaultdict[str, list[Facts]] = defaultdict(list)
    for call in calls:
        by_key[call["key_digest"] or _NO_KEY].append(call)
    return by_key


def _key_stats(key: str, calls: Sequence[Facts]) -> KeyStats:
    served = sorted(
        (call for call in calls if call["subcategory"] != _AGENTS_FAULT),
        key=lambda call: call["started_at"],
        reverse=True,
    )
    streak = list(takewhile(lambda call: call["subcategory"] is not None, served))
    dead = len(streak) >= _FEWEST and key != _NO_KEY
    return KeyStats(
        key=key,
        calls=len(calls),
        failed=sum(call["subcategory"] is not None for call in served),
        failing_since=streak[-1]["started_at"] if dead else None,
        cause=streak[0]["subcategory"] if dead else None,
    )


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
    row = await service.run(service.database.references.of_id, series_id)
    if row is None:
        raise Refusal(503, "storage_unavailable", "the series is gone", RETRY_SOON)
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
SAMPLED = 4000  # inference calls that latencies and keys stand on, at most
_SLICES = 4  # of a step, from each of which some of them are taken
_STEPS = 48  # in a window, roughly
_MINUTE = 60

UpstreamFacts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """All upstreams called in a window; ``sampled`` calls of ``calls`` gave latencies and keys.

    ``questions`` are the proxy's own calls among them, by upstream.
    """

    window: Window
    items: Sequence[UpstreamStats]
    calls: int
    sampled: int
    questions: Mapping[str, CallTotals]

    def to_dict(self) -> dict[str, Any]:
        """Return the response to `GET /upstreams`."""
        return {
            "since": self.window.start,
            "until": self.window.end,
            "step_s": self.window.step_s,
            "calls": self.calls,
            "sampled_calls": self.sampled,
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
    rows = await _counted(service, window.start, window.end, window.step_s)
    recent = []
    if window.step_s > _MINUTE:
        recent = await _counted(service, window.fine_from, window.end, _MINUTE)
    sampled = await service.read(statistics.samples, _slices(window, rows))
    asked = await service.read(question_sums, since=window.start, until=window.end)
    origins = {name: each.origin if each.url else "" for name, each in service.upstreams.items()}
    items = await run_in_thread(
        upstream_stats, window, rows, sampled, recent=recent, origins=origins
    )
    return WindowReport(
        window=window,
        items=[await _dated(service, item, window) for item in items],
        calls=sum(item.stats.calls for item in items),
        sampled=len(sampled),
        questions=await service.run(_totals_of_questions, service.prices, asked),
    )


async def waiting_calls(service: Service) -> dict[str, list[WaitingCalls]]:
    """List the calls that wait for their turn in any process, by upstream."""
    listed: dict[str, list[WaitingCalls]] = {}
    for each in await service.run(service.database.pace_shares.waiting, now=service.now()):
        listed.setdefault(each.upstream, []).append(each)
    return listed


def _totals_of_questions(prices: PriceTable, sums: Sequence[CallSum]) -> dict[str, CallTotals]:
    by_upstream: defaultdict[str, list[CallSum]] = defaultdict(list)
    for each in sums:
        by_upstream[each.upstream].append(each)
    return {name: call_totals(prices, parts) for name, parts in by_upstream.items()}


_DAY = 86_400
LOOKED_BACK_S = 7 * _DAY  # for upstreams that failed and were not called since
_LOOKED_AT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An upstream that failed when it was last called, and was not called since.

    ``since`` is the begin of the step, in epoch seconds, from which on most calls failed;
    ``failed`` counts those by subcategory.
    """

    upstream: str
    since: float
    last_at: float
    failed: Mapping[str, int]


async def quiet_outages(service: Service, report: WindowReport) -> list[Outage]:
    """Return the outages that a report's window does not hold: only an answer ends one."""
    begin, end = report.window.start - LOOKED_BACK_S, report.window.start
    seen = {row["upstream"] for row in await _counted(service, begin, end, _DAY)}
    outages = []
    for name in sorted(seen - {item.name for item in report.items}):
        rows = await _counted(service, begin, end, _LOOKED_AT_S, upstream=name)
        since = failing_since(rows)
        if since is not None:
            outages.append(_outage(name, since, rows))
    return outages


def _outage(upstream: str, since: float, rows: Iterable[Facts]) -> Outage:
    during = [row for row in rows if row["at"] >= since]
    failed: Counter[str] = Counter()
    for row in during:
        if row["subcategory"] is not None:
            failed[row["subcategory"]] += row["calls"]
    return Outage(
        upstream=upstream,
        since=since,
        last_at=max(row["last_at"] for row in during),
        failed=dict(failed.most_common()),
    )


async def _dated(service: Service, stats: UpstreamStats, window: Window) -> UpstreamStats:
    """Date the begin of a failure to the minute, if minutes were not counted then."""
    since = stats.stats.failing_since
    if since is None or since >= window.fine_from or window.step_s <= _MINUTE:
        return stats
    around = (since - window.step_s, since + window.step_s)
    return refined(stats, await _counted(service, *around, _MINUTE, upstream=stats.name))


async def _counted(
    service: Service, since: float, until: float, step_s: int, *, upstream: str | None = None
) -> list[UpstreamFacts]:
    rows = await service.read(
        statistics.usage, since=since, until=until, step_s=step_s, upstream=upstream
    )
    return [{**row, "at": float(row["step"] * step_s)} for row in rows]


def _window(since: float | None, until: float | None, now: float) -> Window:
    began = now - HOUR_S if since is None else since
    if not now - LONGEST_S <= began < now:
        raise Refusal(422, "invalid", "since: not within the last 31 days, in epoch seconds")
    if until is not None and until <= began:
        raise Refusal(422, "invalid", "until: not after since")
    ended = now if until is None else min(until, now)
    step_s = round_step((ended - began) / _STEPS, at_least=_MINUTE)
    # A call that begins now is within; one that begins at a chosen end is not.
    end = (math.floor(now / step_s) + 1 if ended == now else math.ceil(ended / step_s)) * step_s
    fine_from = end - 2 * step_s if step_s > _MINUTE else float(end)
    return Window(
        start=math.floor(began / step_s) * step_s, end=end, step_s=step_s, fine_from=fine_from
    )


def _slices(window: Window, rows: Sequence[UpstreamFacts]) -> list[Slice]:
    """Return the slices of time of a sample. A few calls are all taken."""
    if sum(row["calls"] for row in rows) <= SAMPLED:
        return [Slice(window.start, window.end, SAMPLED)]
    steps = sorted({row["at"] for row in rows})
    length, most = window.step_s / _SLICES, max(1, SAMPLED // (_SLICES * len(steps)))
    return [
        Slice(at + n * length, at + (n + 1) * length, most) for at in steps for n in range(_SLICES)
    ]


def _item(upstream: UpstreamStats) -> dict[str, Any]:
    return {
        "upstream": upstream.name,
        "origin": upstream.origin,
        **_flat_stats(upstream.stats),
        "models": [{"model": name, **_flat_stats(stats)} for name, stats in upstream.models],
        "keys": [
            {
                "key": each.key,
                "sampled_calls": each.calls,
                "sampled_failed": each.failed,
                "failing_since": each.failing_since,
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
    latencies = flat.pop("latencies")
    return {**flat, "sampled_calls": latencies.pop("calls"), **latencies}
