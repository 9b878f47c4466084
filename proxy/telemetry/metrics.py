"""What Prometheus reads at `/metrics`: counts and times of calls, and how the service fares.

Its labels are names of our own (upstreams, causes, endings), so that their number is bounded:
never a rollout, a model, a role or a key.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from proxy.recording.ports import FlushResult
from proxy.store.errors import StoreError
from proxy.store.types import StoreCounts
from proxy.telemetry.call_counters import OVERHEAD_S, CallCounters, CallHistogram, FreshCalls

# Where several processes keep their numbers, so that each can tell the sum; read by
# prometheus_client as it is imported.
SHARED = "PROMETHEUS_MULTIPROC_DIR"


_GAUGES = (
    ("calls_in_flight", "Calls of agents that have not ended"),
    ("recorder_waiting", "Exchanges not yet in the database"),
    ("recorder_failing", "Processes whose database refuses writes"),
)


class RecorderGauges(Protocol):
    """What the metrics read from the recorder."""

    @property
    def failing(self) -> bool:
        """Whether the database refuses writes."""
        ...

    @property
    def gaps_counted(self) -> int:
        """Calls that were served and could not be recorded, over the life of the process."""
        ...

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
        census: counts what the database holds; may raise StoreError.
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
        self._calls = CallCounters(self._registry)
        self._service = _Service(self._registry, recording)
        self._fresh = FreshCalls()
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
                fresh, self._fresh = self._fresh, FreshCalls()
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
        except StoreError:
            return StoreCounts(verdicts={}, breakers={})


class _Service:
    """How the process itself fares."""

    def __init__(self, registry: CollectorRegistry, recording: RecorderGauges) -> None:
        self._recording = recording
        overhead = CallHistogram(
            "truezero_overhead_seconds",
            "What the proxy adds: commit, an answer's end held until its call is durable; "
            "loop, how late the process turns to what has come",
            ("part",),
            buckets=OVERHEAD_S,
            registry=registry,
        )
        self._held_s, self.loop_s = overhead.labels("commit"), overhead.labels("loop")
        self._turns_s = CallHistogram(
            "truezero_recorder_turn_seconds",
            "One turn of the recorder: a commit of all that had queued",
            buckets=OVERHEAD_S,
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

    def add(self, fresh: FreshCalls) -> None:
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
