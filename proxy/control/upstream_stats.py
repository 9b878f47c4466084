"""How upstreams and their models did over a window of time: failures, latency, keys."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

_AGENTS_FAULT = "rejected_request"
_FAILING = 0.5  # share of failed calls
_FEWEST = 3  # failed calls

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds that answered calls took, over the ``calls`` of a sample; None where none did."""

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
    """How some calls did.

    ``refused`` are the agents' own bad requests, which say nothing about the provider;
    ``error_rate`` is over the others, None where there are none. ``failing_since`` is the start
    of the step (epoch seconds) from which on most calls failed, None where they do not now.
    """

    calls: int
    refused: int
    failed: Mapping[str, int]
    error_rate: float | None
    failing_since: float | None
    last_at: float
    latencies: Latencies


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStats:
    """One upstream over a window.

    ``models`` are by name (None: no call said which), ``keys`` count sampled calls and failures by
    key digest; both the busiest first. ``points`` are consecutive steps.
    """

    name: str
    origin: str
    stats: CallStats
    models: Sequence[tuple[str | None, CallStats]]
    keys: Sequence[tuple[str, int, int]]
    points: Sequence[UpstreamPoint]


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
    told = [*(row for row in rows if row["at"] < window.fine_from), *recent]
    of_upstream, told_of, sampled_of = (_grouped(each, "upstream") for each in (rows, told, calls))
    ranked = sorted(of_upstream, key=lambda name: (-_total(of_upstream[name]), name))
    return [
        UpstreamStats(
            name=name,
            origin=origins.get(name, ""),
            stats=_stats(of_upstream[name], told_of[name], sampled_of[name]),
            models=_models(of_upstream[name], told_of[name], sampled_of[name]),
            keys=key_counts(sampled_of[name]),
            points=_points(window, of_upstream[name], sampled_of[name]),
        )
        for name in ranked
    ]


def _weighed(
    window: Window, rows: Iterable[Facts], sampled: Sequence[Facts]
) -> list[dict[str, Any]]:
    """Add to sampled calls the step they began in, and for how many calls of it each stands."""
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
    rows: Sequence[Facts], told: Sequence[Facts], sampled: Sequence[Facts]
) -> list[tuple[str | None, CallStats]]:
    of_model, told_of, sampled_of = (_grouped(each, "model") for each in (rows, told, sampled))
    ranked = sorted(of_model, key=lambda name: (-_total(of_model[name]), name or ""))
    return [(name, _stats(of_model[name], told_of[name], sampled_of[name])) for name in ranked]


def _grouped(rows: Iterable[Facts], by: str) -> defaultdict[Any, list[Facts]]:
    groups: defaultdict[Any, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[row[by]].append(row)
    return groups


def _total(rows: Iterable[Facts]) -> int:
    return sum(row["calls"] for row in rows)


def _stats(rows: Sequence[Facts], told: Sequence[Facts], sampled: Sequence[Facts]) -> CallStats:
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
        failing_since=failing_since(told),
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

    None where most calls of the last step were answered, or fewer than three failed since.
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


def refined(found: UpstreamStats, fine: Sequence[Facts]) -> UpstreamStats:
    """Return the same with the finer step from which on it and its models fail.

    Arguments:
        fine: counts in finer steps around ``failing_since``.
    """
    of_model = _grouped(fine, "model")
    return replace(
        found,
        stats=_refined(found.stats, fine),
        models=[(name, _refined(stats, of_model[name])) for name, stats in found.models],
    )


def _refined(stats: CallStats, fine: Sequence[Facts]) -> CallStats:
    since = None if stats.failing_since is None else failing_since(fine)
    return stats if since is None else replace(stats, failing_since=since)


def quantile(values: Iterable[tuple[float, float]], share: float) -> float | None:
    """Return the value below which this share of the weight lies; None without values.

    Arguments:
        values: pairs of a value and its weight.
    """
    known = sorted(values)
    if not known:
        return None
    sums = list(accumulate(weight for _, weight in known))
    return known[min(len(known) - 1, bisect_left(sums, share * sums[-1] + 1e-9))][0]


def ratio(part: int, whole: int) -> float | None:
    """Divide a part by its whole; None if the whole is 0."""
    return part / whole if whole else None


def key_counts(calls: Iterable[Facts]) -> list[tuple[str, int, int]]:
    """Count calls and failures by key digest, most calls first."""
    total: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for call in calls:
        key = call["key_digest"] or "-"
        total[key] += 1
        failed[key] += call["subcategory"] not in (None, _AGENTS_FAULT)
    return [(key, count, failed[key]) for key, count in total.most_common()]
