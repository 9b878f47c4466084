"""What Prometheus reads at `/metrics`: counts and times of calls, and how the service fares.

Its labels are names of our own (upstreams, causes, endings), so that their number is bounded:
never a rollout, a model, a role or a key.
"""

from __future__ import annotations

import contextlib
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from classifier.records import Exchange, Kind
from proxy.recorder import FlushResult
from proxy.store.database import StorageError, StoreCounts

# Where several processes keep their numbers, so that each can tell the sum; read by
# prometheus_client as it is imported.
SHARED = "PROMETHEUS_MULTIPROC_DIR"

# Models answer in a second or think for minutes; a commit takes less than a millisecond.
_ANSWER_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_FIRST_TOKEN_S = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 2, 4, 8, 15, 30, 60, 120)
_OWN_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5)

# Input holds what was read from and written to a cache, output holds reasoning.
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
_CLASSES = {None: "none"} | {status: f"{status // 100}xx" for status in range(100, 1000)}
_NO_CAUSE = "none"
_GAUGES = (
    ("calls_in_flight", "Calls of agents that have not ended"),
    ("recorder_waiting", "Exchanges not yet in the database"),
    ("recorder_failing", "Processes whose database refuses writes"),
)


class RecorderGauges(Protocol):
    """What is asked of the recorder."""

    failing: bool
    gaps_counted: int

    @property
    def in_flight(self) -> int:
        """Calls that have not ended."""
        ...

    @property
    def waiting(self) -> int:
        """Exchanges not yet written."""
        ...


class Metrics:
    """The numbers of one process; with ``shared``, what is told is the sum over all of them.

    Arguments:
        recording: whose queue, gaps and calls in flight are told.
        census: counts what the database holds; may raise StorageError.
        shared: the folder named by `PROMETHEUS_MULTIPROC_DIR`, where there is more than one
            process.
    """

    def __init__(
        self,
        recording: RecorderGauges,
        *,
        census: Callable[[], StoreCounts],
        version: str,
        shared: Path | None = None,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._census = census
        self._version = version
        self._shared = shared
        self._registry = CollectorRegistry()
        if shared is None:  # of several processes it would tell only of the one that is asked
            ProcessCollector(registry=self._registry)
        self._calls = _Calls(self._registry)
        self._service = _Service(self._registry, recording)
        self._fresh = _Fresh()
        self._counting = threading.Lock()  # over what is fresh
        self._adding = threading.Lock()  # over the numbers, held longer than agents may wait

    def observe(self, turn: FlushResult) -> None:
        """Count what one turn of the recorder brought."""
        with self._counting:
            self._fresh.count(turn)

    def late(self, by_s: float) -> None:
        """Note how late the event loop came to what it was called for, in seconds."""
        self._service.loop_s.observe(by_s)

    def sample(self) -> None:
        """Add up what came since, so that other processes tell it, and what the recorder says."""
        with self._adding:
            with self._counting:
                fresh, self._fresh = self._fresh, _Fresh()
            self._service.add(fresh)
            self._calls.add(fresh.calls)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All numbers as text, and the type of that text.

        While the database does not answer, what only it knows is left out.

        Arguments:
            accept: the reader's `Accept` header; it may ask for OpenMetrics.
        """
        self.sample()
        registry = CollectorRegistry()
        registry.register(_Now(self._counted(), self._version))
        if self._shared is None:
            registry.register(self._registry)
        else:
            _forget_the_dead(self._shared)
            MultiProcessCollector(registry, str(self._shared))  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def _counted(self) -> StoreCounts:
        try:
            return self._census()
        except StorageError:
            return StoreCounts(verdicts={}, breakers={})


class _Alike:
    """Calls under the same labels, added up; tokens by their kinds' names."""

    __slots__ = ("answer_s", "cache_read", "cache_write", "calls", "first_token_s", "input",
                 "output", "reasoning")  # fmt: skip

    def __init__(self) -> None:
        self.calls = 0
        self.input = self.output = self.cache_read = self.cache_write = self.reasoning = 0
        self.answer_s: list[float] = []
        self.first_token_s: list[float] = []

    def count(self, e: Exchange) -> None:
        """Count one more."""
        self.calls += 1
        usage = e.usage
        self.input += usage.input_total or 0
        self.output += usage.output_total or 0
        self.cache_read += usage.cached_input_tokens or 0
        self.cache_write += usage.cache_write_tokens or 0
        self.reasoning += usage.reasoning_tokens or 0
        if e.cause is None and e.kind is Kind.INFERENCE:
            timing = e.timing
            if timing.duration_s is not None:
                self.answer_s.append(timing.duration_s)
            if e.streamed and timing.first_token_s is not None:
                self.first_token_s.append(timing.first_token_s)


# Upstream, kind, class of status, cause and ending: what `truezero_exchanges` is counted by.
_Labels = tuple[str, str, str, str, str]


class _Fresh:
    """What came since the last sample, half a second ago.

    A call is counted here by a fifth of the work that seven of Prometheus' own counters take.
    """

    __slots__ = ("calls", "held_s", "turns_s")

    def __init__(self) -> None:
        self.calls: dict[_Labels, _Alike] = {}
        self.held_s: list[float] = []
        self.turns_s: list[float] = []

    def count(self, turn: FlushResult) -> None:
        """Count a turn's calls, how long each was held, and how long the turn took."""
        for e in turn.ended:
            if e.injected:  # a drill's failure is no provider's
                continue
            why = e.cause
            labels = (
                e.upstream,
                e.kind,
                _CLASSES.get(e.status, "other"),
                _NO_CAUSE if why is None else why.subcategory,
                e.ending or "none",
            )
            alike = self.calls.get(labels)
            if alike is None:
                alike = self.calls[labels] = _Alike()
            alike.count(e)
        self.held_s += turn.waited_s
        self.turns_s.append(turn.took_s)


class _Histogram(Histogram):
    """A histogram that takes many times at once."""

    def add(self, seconds: list[float]) -> None:
        """Observe each of them; they are sorted in place."""
        seconds.sort()
        self._sum.inc(sum(seconds))
        below = 0
        for bound, bucket in zip(self._upper_bounds, self._buckets, strict=True):
            within = bisect_right(seconds, bound)
            bucket.inc(within - below)
            below = within


class _Calls:
    """Counts and times of agents' calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._exchanges = Counter(
            "truezero_exchanges",
            "Calls of agents that ended",
            ("upstream", "kind", "status_class", "subcategory", "ending"),
            registry=registry,
        )
        self._tokens = Counter(
            "truezero_tokens",
            "Tokens as providers count them; input holds both caches, output reasoning",
            ("upstream", "kind"),
            registry=registry,
        )
        self._durations = _Histogram(
            "truezero_exchange_duration_seconds",
            "From an inference call's start to the end of its answer, failures left out",
            ("upstream",),
            buckets=_ANSWER_S,
            registry=registry,
        )
        self._first_tokens = _Histogram(
            "truezero_first_token_seconds",
            "From a streamed inference call's start to its first output",
            ("upstream",),
            buckets=_FIRST_TOKEN_S,
            registry=registry,
        )

    def add(self, calls: Mapping[_Labels, _Alike]) -> None:
        """Add calls that ended."""
        for labels, alike in calls.items():
            upstream = labels[0]
            self._exchanges.labels(*labels).inc(alike.calls)
            for kind in _TOKENS:
                if count := getattr(alike, kind):
                    self._tokens.labels(upstream, kind).inc(count)
            if alike.answer_s:
                self._durations.labels(upstream).add(alike.answer_s)
            if alike.first_token_s:
                self._first_tokens.labels(upstream).add(alike.first_token_s)


class _Service:
    """How the process itself fares."""

    def __init__(self, registry: CollectorRegistry, recording: RecorderGauges) -> None:
        self._recording = recording
        overhead = _Histogram(
            "truezero_overhead_seconds",
            "What the proxy adds: commit, an answer's end held until its call is durable; "
            "loop, how late the process turns to what has come",
            ("part",),
            buckets=_OWN_S,
            registry=registry,
        )
        self._held_s, self.loop_s = overhead.labels("commit"), overhead.labels("loop")
        self._turns_s = _Histogram(
            "truezero_recorder_turn_seconds",
            "One turn of the recorder: a commit of all that had queued",
            buckets=_OWN_S,
            registry=registry,
        )
        self._gaps = Counter(
            "truezero_gaps", "Calls that were served and could not be recorded", registry=registry
        )
        self._gaps_told = 0
        self._gauges = {
            name: Gauge(f"truezero_{name}", about, registry=registry, multiprocess_mode="livesum")
            for name, about in _GAUGES
        }

    def add(self, fresh: _Fresh) -> None:
        """Add what turns took, and take what the recorder says at the moment."""
        self._held_s.add(fresh.held_s)
        self._turns_s.add(fresh.turns_s)
        recording = self._recording
        self._gauges["calls_in_flight"].set(recording.in_flight)
        self._gauges["recorder_waiting"].set(recording.waiting)
        self._gauges["recorder_failing"].set(recording.failing)
        counted = recording.gaps_counted
        self._gaps.inc(counted - self._gaps_told)
        self._gaps_told = counted


class _Now(Collector):
    """What is asked anew for every reader."""

    def __init__(self, census: StoreCounts, version: str) -> None:
        self._census = census
        self._version = version

    def collect(self) -> Iterator[GaugeMetricFamily]:
        build = GaugeMetricFamily("truezero_build", "The version that runs", labels=("version",))
        build.add_metric((self._version,), 1)
        yield build
        yield _by(
            "truezero_verdicts",
            "Rollouts by the health they were last judged to have",
            "health",
            self._census.verdicts,
        )
        yield _by(
            "truezero_breakers",
            "Lanes of batches by what their breaker lets pass",
            "phase",
            self._census.breakers,
        )


def _by(name: str, about: str, label: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _forget_the_dead(shared: Path) -> None:
    """A worker that was killed has no calls in flight; what it counted stays counted."""
    for file in shared.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not _alive(pid):
            mark_process_dead(pid, str(shared))  # type: ignore[no-untyped-call]


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        return True
    return False
