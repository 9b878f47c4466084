"""Prometheus metrics of calls and of the service itself.

Labels have few values (upstreams, causes, endings, models as the price table names them): never a
rollout, a role, a key or what a caller wrote.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

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

from classifier.verdicts import INJECTED, Verdict
from proxy.recording.backlog import FlushResult
from proxy.store.errors import StoreError
from proxy.store.tables import StoreCounts
from proxy.telemetry.call_counters import OVERHEAD_S, CallCounters, CallHistogram, FreshCalls
from proxy.telemetry.model_counters import ModelCounters, Prices

REFUSALS = "truezero_refusals"
AGENTS, CONTROL = "agents", "control"  # planes
# The folder in which worker processes share their metrics; read by prometheus_client on import.
SHARED = "PROMETHEUS_MULTIPROC_DIR"


Counts = Callable[[], Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """What a process counts of requests, each since it started: read for every sample.

    ``refused``: refusals by code, of agents' requests and of the control plane's;
    ``unattributed``: calls that named no rollout, by upstream.
    """

    refused: Mapping[str, Counts] = field(default_factory=dict)
    unattributed: Counts = dict


_NO_COUNTS = RequestCounts()
_GAUGES = (
    ("calls_in_flight", "Calls in flight"),
    ("recorder_waiting", "Exchanges waiting to be written to the database"),
    ("recorder_failing", "Processes that cannot write to the database"),
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
    """The metrics of one process; with ``shared``, exposes the sums over all processes.

    Arguments:
        recorder: read for its queue, gaps and calls in flight.
        census: counts what the database holds; may raise StoreError.
        prices: names models and prices calls.
        requests: counts what is refused, and what names no rollout.
        shared: the folder named by `PROMETHEUS_MULTIPROC_DIR`; None for a single process.
    """

    def __init__(
        self,
        recorder: RecorderGauges,
        *,
        census: Callable[[], StoreCounts],
        version: str,
        prices: Prices,
        requests: RequestCounts = _NO_COUNTS,
        shared: Path | None = None,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._census = census
        self._version = version
        self._shared = shared
        self._registry = CollectorRegistry()
        if shared is None:  # of several processes it would cover only the one that answers
            ProcessCollector(registry=self._registry)
        self._calls = CallCounters(self._registry)
        self._models = ModelCounters(self._registry, prices)
        self._service = _ServiceMetrics(self._registry, recorder)
        self._requests = _RequestMetrics(self._registry, requests)
        self._findings = Counter(
            "truezero_validity_findings",
            "Validity findings of final verdicts; a rollout's are counted once",
            ("check", "level"),
            registry=self._registry,
        )
        self._fresh = FreshCalls()
        self._counting = threading.Lock()  # guards `_fresh`
        self._adding = threading.Lock()  # guards the rest, longer than an agent may wait

    def observe(self, flush: FlushResult) -> None:
        """Count one flush of the recorder."""
        with self._counting:
            self._fresh.count(flush)

    def judged(self, verdict: Verdict) -> None:
        """Count what a final verdict found beside health, unless of a drill."""
        for found in () if INJECTED in verdict.warnings else verdict.validity:
            self._findings.labels(found.check, found.level.value).inc()

    def late(self, by_s: float) -> None:
        """Observe how late the event loop ran a callback, in seconds."""
        self._service.loop_s.observe(by_s)

    def sample(self) -> None:
        """Add what was counted since the last sample, and read the recorder's gauges."""
        with self._adding:
            with self._counting:
                fresh, self._fresh = self._fresh, FreshCalls()
            self._service.add(fresh)
            self._requests.sample()
            ended = fresh.of_providers()
            self._calls.add(ended)
            self._models.add(ended)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All numbers as text, and the type of that text.

        While the database does not answer, what only it knows is left out.

        Arguments:
            accept: the reader's `Accept` header; it may ask for OpenMetrics.
        """
        self.sample()
        registry = CollectorRegistry()
        registry.register(_StoreCollector(self._counted(), self._version))
        if self._shared is None:
            registry.register(self._registry)
        else:
            _forget_dead_processes(self._shared)
            MultiProcessCollector(registry, str(self._shared))  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def refused_calls(self) -> dict[str, int]:
        """Count agents' refused requests by code, since the service started: in all its workers."""
        self.sample()
        families: Iterable[Any] = self._registry.collect()
        if self._shared is not None:
            files = [str(file) for file in self._shared.glob("counter_*.db")]
            families = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return {
            sample.labels["code"]: int(sample.value)
            for family in families
            if family.name == REFUSALS
            for sample in family.samples
            if sample.name == f"{REFUSALS}_total" and sample.labels["plane"] == AGENTS
        }

    def _counted(self) -> StoreCounts:
        try:
            return self._census()
        except StoreError:
            return StoreCounts(verdicts={}, breakers={})


class _ServiceMetrics:
    """Prometheus metrics of the process itself."""

    def __init__(self, registry: CollectorRegistry, recorder: RecorderGauges) -> None:
        self._recorder = recorder
        overhead = CallHistogram(
            "truezero_overhead_seconds",
            "Latency added by the proxy: commit, the last byte held until the call is durable; "
            "loop, delay of the event loop",
            ("part",),
            buckets=OVERHEAD_S,
            registry=registry,
        )
        self._waited_s, self.loop_s = overhead.labels("commit"), overhead.labels("loop")
        self._flushes_s = CallHistogram(
            "truezero_recorder_turn_seconds",
            "Duration of one flush of the recorder: a commit of everything queued",
            buckets=OVERHEAD_S,
            registry=registry,
        )
        self._gaps = Counter("truezero_gaps", "Calls served but not recorded", registry=registry)
        self._gaps_added = 0
        self._gauges = {
            name: Gauge(f"truezero_{name}", text, registry=registry, multiprocess_mode="livesum")
            for name, text in _GAUGES
        }

    def add(self, fresh: FreshCalls) -> None:
        """Add the times of flushes, and read the recorder's gauges."""
        self._waited_s.add(fresh.waited_s)
        self._flushes_s.add(fresh.flushes_s)
        recorder = self._recorder
        self._gauges["calls_in_flight"].set(recorder.in_flight)
        self._gauges["recorder_waiting"].set(recorder.waiting)
        self._gauges["recorder_failing"].set(recorder.failing)
        counted = recorder.gaps_counted
        self._gaps.inc(counted - self._gaps_added)
        self._gaps_added = counted


class _RequestMetrics:
    """Prometheus counters of requests that were refused, or named no rollout."""

    def __init__(self, registry: CollectorRegistry, counts: RequestCounts) -> None:
        refused = Counter(
            REFUSALS,
            "Requests refused by the proxy itself; plane: agents, control",
            ("plane", "code"),
            registry=registry,
        )
        unattributed = Counter(
            "truezero_unattributed_calls",
            "Calls that named no rollout",
            ("upstream",),
            registry=registry,
        )
        self._sources: list[tuple[Counts, Callable[[str], Counter]]] = [
            (counted, partial(refused.labels, plane)) for plane, counted in counts.refused.items()
        ]
        self._sources.append((counts.unattributed, unattributed.labels))
        self._added: dict[tuple[int, str], int] = {}

    def sample(self) -> None:
        """Add what was counted since the last sample."""
        for source, (counted, labelled) in enumerate(self._sources):
            for cause, count in counted().items():
                labelled(cause).inc(count - self._added.get((source, cause), 0))
                self._added[source, cause] = count


class _StoreCollector(Collector):
    """Metrics computed for each scrape: the version, and counts of the database."""

    def __init__(self, census: StoreCounts, version: str) -> None:
        self._census = census
        self._version = version

    def collect(self) -> Iterator[GaugeMetricFamily]:
        build = GaugeMetricFamily("truezero_build", "Version of the service", labels=("version",))
        build.add_metric((self._version,), 1)
        yield build
        yield _gauge(
            "truezero_verdicts",
            "Rollouts by the health of their latest verdict",
            "health",
            self._census.verdicts,
        )
        yield _gauge(
            "truezero_breakers",
            "Lanes by the phase of their breaker",
            "phase",
            self._census.breakers,
        )


def _gauge(name: str, text: str, label: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _forget_dead_processes(shared: Path) -> None:
    """Drop the gauges of killed workers, which have no calls in flight; keep their counters."""
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
