"""Counters and histograms of finished calls, updated once per sample."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram

from classifier.records import Cause, Ending, Exchange, Kind
from proxy.recording.backlog import FlushResult

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


# What makes the labels of `truezero_exchanges`. C reads it: a step of Python a call is most of what
# counting them costs.
_LABELLED = attrgetter("upstream", "kind", "status", "ending", "cause")
_Labelled = tuple[str, Kind, int | None, Ending | None, Cause | None]
_INJECTED, _STREAMED, _USAGE = map(attrgetter, ("injected", "streamed", "usage"))
_DURATION, _FIRST_TOKEN = attrgetter("timing.duration_s"), attrgetter("timing.first_token_s")


class FreshCalls:
    """Calls and flushes since the last sample, half a second ago.

    They are only gathered here: counted together they take less than half the work.
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
        return [*filterfalse(_INJECTED, self.ended)]


def _by_labels(calls: Sequence[Exchange]) -> Mapping[_Labelled, list[Exchange]]:
    groups: defaultdict[_Labelled, list[Exchange]] = defaultdict(list)
    for labelled, e in zip(map(_LABELLED, calls), calls, strict=True):
        groups[labelled].append(e)
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

    def add(self, ended: Sequence[Exchange]) -> None:
        """Add finished calls."""
        for (upstream, kind, status, ending, cause), calls in _by_labels(ended).items():
            failed = "none" if cause is None else cause.subcategory
            labels = (_CLASSES.get(status, "other"), failed, ending or "none")
            self._exchanges.labels(upstream, kind, *labels).inc(len(calls))
            usages = [*map(_USAGE, calls)]
            for part, tokens in _TOKENS.items():
                if count := sum(filter(None, map(tokens, usages))):
                    self._tokens.labels(upstream, part).inc(count)
            if cause is None and kind is Kind.INFERENCE:
                self._time(upstream, calls)

    def _time(self, upstream: str, answered: list[Exchange]) -> None:
        streamed = filter(_STREAMED, answered)
        for histogram, times in (
            (self._durations, map(_DURATION, answered)),
            (self._first_tokens, map(_FIRST_TOKEN, streamed)),
        ):
            if known := [each for each in times if each is not None]:
                histogram.labels(upstream).add(known)
