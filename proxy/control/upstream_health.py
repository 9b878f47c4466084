"""Health of upstreams over a window of time: success, rate limits, latency, keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.routing.upstreams import Upstream

_AGENTS_FAULT = "rejected_request"

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamHealth:
    """How one upstream did over a window: counts of calls, latencies in seconds.

    ``refused`` are the agent's own bad requests, which say nothing about the provider;
    the shares are over the other calls. ``keys`` counts calls and failures by key digest.
    """

    name: str
    origin: str
    calls: int
    refused: int
    success_share: float | None
    rate_limit_share: float | None
    failed: Mapping[str, int]
    latency_p50_s: float | None
    latency_p95_s: float | None
    first_byte_p50_s: float | None
    last_at: float
    keys: Sequence[tuple[str, int, int]]


def upstream_healths(
    calls: Iterable[Facts], upstreams: Mapping[str, Upstream]
) -> list[UpstreamHealth]:
    """Summarize recent calls by upstream, the busiest first."""
    by_name: defaultdict[str, list[Facts]] = defaultdict(list)
    for call in calls:
        by_name[call["upstream"]].append(call)
    ranked = sorted(by_name.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_health(name, upstreams.get(name), group) for name, group in ranked]


def _health(name: str, upstream: Upstream | None, calls: Sequence[Facts]) -> UpstreamHealth:
    failed = Counter(call["subcategory"] for call in calls if call["subcategory"])
    refused = failed[_AGENTS_FAULT]
    served = len(calls) - refused
    succeeded = [call for call in calls if call["subcategory"] is None]
    durations = [call["duration_s"] for call in succeeded]
    return UpstreamHealth(
        name=name,
        origin=(upstream.origin if upstream and upstream.url else ""),
        calls=len(calls),
        refused=refused,
        success_share=ratio(served - (failed.total() - refused), served),
        rate_limit_share=ratio(failed["rate_limit"], served),
        failed=dict(failed.most_common()),
        latency_p50_s=quantile(durations, 0.5),
        latency_p95_s=quantile(durations, 0.95),
        first_byte_p50_s=quantile([call["first_byte_s"] for call in succeeded], 0.5),
        last_at=max(call["started_at"] for call in calls),
        keys=key_counts(calls),
    )


def quantile(values: Iterable[float | None], share: float) -> float | None:
    """Return the value below which this share of the known values lies; None if none is known."""
    known = sorted(value for value in values if value is not None)
    return known[min(len(known) - 1, int(len(known) * share))] if known else None


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
