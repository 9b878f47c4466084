"""Counters and histograms of finished calls, updated once per sample."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram

from classifier.records import Exchange, Kind
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
_NO_CAUSE = "none"


class _LabelTotals:
    """The calls with the same labels, and what is totalled of them."""

    __slots__ = ("answer_s", "ended", "first_token_s")

    def __init__(self) -> None:
        self.ended: list[Exchange] = []
        self.answer_s: list[float] = []
        self.first_token_s: list[float] = []

    def count(self, e: Exchange) -> None:
        """Add one call."""
        self.ended.append(e)
        if e.cause is None and e.kind is Kind.INFERENCE:
            timing = e.timing
            if timing.duration_s is not None:
                self.answer_s.append(timing.duration_s)
            if e.streamed and timing.first_token_s is not None:
                self.first_token_s.append(timing.first_token_s)


# Upstream, kind, class of status, subcategory and ending: the labels of `truezero_exchanges`.
_Labels = tuple[str, str, str, str, str]


class FreshCalls:
    """Calls and flushes since the last sample, half a second ago.

    Counting a call here takes a fifth of the work that seven Prometheus counters take.
    """

    __slots__ = ("calls", "flushes_s", "waited_s")

    def __init__(self) -> None:
        self.calls: dict[_Labels, _LabelTotals] = {}
        self.waited_s: list[float] = []
        self.flushes_s: list[float] = []

    def count(self, flush: FlushResult) -> None:
        """Count a flush: its calls, how long each waited for it, and how long it took."""
        for e in flush.ended:
            if e.injected:  # an injected fault is not the provider's
                continue
            cause = e.cause
            labels = (
                e.upstream,
                e.kind,
                _CLASSES.get(e.status, "other"),
                _NO_CAUSE if cause is None else cause.subcategory,
                e.ending or "none",
            )
            totals = self.calls.get(labels)
            if totals is None:
                totals = self.calls[labels] = _LabelTotals()
            totals.count(e)
        self.waited_s += flush.waited_s
        self.flushes_s.append(flush.took_s)

    def ended(self) -> Iterator[Exchange]:
        """Return the calls that were counted."""
        return chain.from_iterable(totals.ended for totals in self.calls.values())


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

    def add(self, calls: Mapping[_Labels, _LabelTotals]) -> None:
        """Add finished calls."""
        for labels, totals in calls.items():
            upstream = labels[0]
            self._exchanges.labels(*labels).inc(len(totals.ended))
            usages = [e.usage for e in totals.ended]
            for kind, tokens in _TOKENS.items():
                if count := sum(filter(None, map(tokens, usages))):
                    self._tokens.labels(upstream, kind).inc(count)
            if totals.answer_s:
                self._durations.labels(upstream).add(totals.answer_s)
            if totals.first_token_s:
                self._first_tokens.labels(upstream).add(totals.first_token_s)
