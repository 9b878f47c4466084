"""Counters and histograms of finished calls, updated once per sample."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram

from classifier.records import Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.recording.ports import FlushResult

# Models answer in a second or think for minutes; a commit takes less than a millisecond.
_ANSWER_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_FIRST_TOKEN_S = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 2, 4, 8, 15, 30, 60, 120)
OVERHEAD_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5)
# Input holds what was read from and written to a cache, output holds reasoning.
_TOKENS = {
    "input": attrgetter("input_total"),
    "output": attrgetter("output_total"),
    "cache_read": attrgetter("cached_input_tokens"),
    "cache_write": attrgetter("cache_write_tokens"),
    "reasoning": attrgetter("reasoning_tokens"),
}
_CLASSES = {None: "none"} | {status: f"{status // 100}xx" for status in range(100, 1000)}


# Upstream, kind, status, subcategory and ending: the labels of `truezero_exchanges`.
_Labels = tuple[str, Kind, int | None, Subcategory | None, Ending | None]


class FreshCalls:
    """Calls and flushes since the last sample, half a second ago.

    They are only gathered here: counting them together takes a twentieth of the work.
    """

    __slots__ = ("ended", "flushes_s", "waited_s")

    def __init__(self) -> None:
        self.ended: list[Exchange] = []
        self.waited_s: list[float] = []
        self.flushes_s: list[float] = []

    def count(self, flush: FlushResult) -> None:
        """Count a flush: its calls, how long each waited for it, and how long it took."""
        self.ended += flush.ended
        self.waited_s += flush.waited_s
        self.flushes_s.append(flush.took_s)

    def of_providers(self) -> list[Exchange]:
        """Return the calls that were counted; an injected fault is not the provider's."""
        return [e for e in self.ended if not e.injected]


def _by_labels(calls: Iterable[Exchange]) -> dict[_Labels, list[Exchange]]:
    groups: dict[_Labels, list[Exchange]] = {}
    for e in calls:
        cause = None if e.cause is None else e.cause.subcategory
        labels = (e.upstream, e.kind, e.status, cause, e.ending)
        if labels in groups:
            groups[labels].append(e)
        else:
            groups[labels] = [e]
    return groups


class CallHistogram(Histogram):
    """A histogram that takes many observations at once."""

    def add(self, seconds: list[float]) -> None:
        """Observe each of them; sorts the list in place."""
        seconds.sort()
        self._sum.inc(sum(seconds))
        below = 0
        for bound, bucket in zip(self._upper_bounds, self._buckets, strict=True):
            within = bisect_right(seconds, bound)
            bucket.inc(within - below)
            below = within


class CallCounters:
    """Prometheus counters and histograms of agents' calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._exchanges = Counter(
            "truezero_exchanges",
            "Finished calls of agents",
            ("upstream", "kind", "status_class", "subcategory", "ending"),
            registry=registry,
        )
        self._tokens = Counter(
            "truezero_tokens",
            "Tokens as counted by providers; input includes the caches, output reasoning",
            ("upstream", "kind"),
            registry=registry,
        )
        self._durations = CallHistogram(
            "truezero_exchange_duration_seconds",
            "Duration of successful inference calls",
            ("upstream",),
            buckets=_ANSWER_S,
            registry=registry,
        )
        self._first_tokens = CallHistogram(
            "truezero_first_token_seconds",
            "Time to the first output token of streamed inference calls",
            ("upstream",),
            buckets=_FIRST_TOKEN_S,
            registry=registry,
        )

    def add(self, ended: Iterable[Exchange]) -> None:
        """Add finished calls."""
        for (upstream, kind, status, cause, ending), calls in _by_labels(ended).items():
            labels = (_CLASSES.get(status, "other"), cause or "none", ending or "none")
            self._exchanges.labels(upstream, kind, *labels).inc(len(calls))
            usages = [e.usage for e in calls]
            for part, tokens in _TOKENS.items():
                if count := sum(filter(None, map(tokens, usages))):
                    self._tokens.labels(upstream, part).inc(count)
            if cause is None and kind is Kind.INFERENCE:
                self._time(upstream, calls)

    def _time(self, upstream: str, answered: list[Exchange]) -> None:
        durations = [e.timing.duration_s for e in answered]
        first_tokens = [e.timing.first_token_s for e in answered if e.streamed]
        for histogram, times in ((self._durations, durations), (self._first_tokens, first_tokens)):
            if known := [each for each in times if each is not None]:
                histogram.labels(upstream).add(known)
