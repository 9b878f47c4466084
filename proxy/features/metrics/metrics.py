"""Prometheus metrics of calls and of the service itself.

Labels have few values (upstreams, causes, endings, models as the price table names them): never a
rollout, a role, a key or what a caller wrote.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import prometheus_client
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

from classifier.records import UNREAD_API, Cause, Ending, Exchange, Kind
from classifier.verdicts import INJECTED, Verdict
from proxy.recording.backlog import FlushResult
from proxy.store.errors import StoreError
from proxy.store.statistics import stored_gauges
from proxy.store.tables import StoreCounts

# --- calls -------------------------------------------------------------------------------------
# Counters and histograms of finished calls, updated once per sample.


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
            "Finished calls of agents; subcategory none: no failure of the provider, "
            "status_class none: no answer",
            ("upstream", "kind", "status_class", "subcategory", "ending"),
            registry=registry,
        )
        self._unread = Counter(
            "truezero_unread_questions",
            "Calls with a question at a path that is not read; they count in no verdict",
            ("upstream",),
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
            elif kind is Kind.OTHER and (
                unread := sum(each.api.startswith(UNREAD_API) for each in calls)
            ):
                self._unread.labels(upstream).inc(unread)

    def _time(self, upstream: str, answered: list[Exchange]) -> None:
        streamed = filter(_STREAMED, answered)
        for histogram, times in (
            (self._durations, map(_DURATION, answered)),
            (self._first_tokens, map(_FIRST_TOKEN, streamed)),
        ):
            if known := [each for each in times if each is not None]:
                histogram.labels(upstream).add(known)


# --- calls by model ----------------------------------------------------------------------------
# A label is a model's name in the price table, so there are only so many labels, and none can hold
# a secret or a prompt. A model not in the table is ``other``.


OTHER = "other"
MOST = 100  # upstreams and models that have a label, over the life of a process
_FRESH = 64  # that are told apart in one sample: an agent chooses names, and each is looked up

_COUNTED = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.EMBEDDING))
_NO_CAUSE = "none"
_MODEL_TOKENS = {
    "input": attrgetter("usage.input_total"),
    "output": attrgetter("usage.output_total"),
}


class Prices(Protocol):
    """The part of a price table that the counters use."""

    def model_name(self, upstream: str, model: str | None) -> str | None:
        """Return the table's name of a model; None if it has none."""
        ...

    def cost(self, exchange: Exchange) -> float | None:
        """Return the cost of one call in US dollars; None if it is unknown."""
        ...


class ModelCounters:
    """Prometheus counters by model.

    Arguments:
        prices: loads its table on first use, in a tenth of a second: not in the event loop.
    """

    def __init__(self, registry: CollectorRegistry, prices: Prices) -> None:
        self._prices = prices
        self._labelled: set[tuple[str, str]] = set()
        self._calls = prometheus_client.Counter(
            "truezero_model_calls",
            "Finished calls by model as the price table names it, else other",
            ("upstream", "model", "subcategory"),
            registry=registry,
        )
        self._tokens = prometheus_client.Counter(
            "truezero_model_tokens",
            "Tokens by model; input includes the caches, output reasoning",
            ("upstream", "model", "kind"),
            registry=registry,
        )
        self._cost = prometheus_client.Counter(
            "truezero_cost_usd",
            "US dollars of the calls whose cost is known, by the provider or the price table",
            ("upstream", "model"),
            registry=registry,
        )
        self._costed = prometheus_client.Counter(
            "truezero_cost_calls",
            "Calls that used tokens, by whether their cost is in truezero_cost_usd_total: "
            "known, unknown",
            ("upstream", "model", "cost"),
            registry=registry,
        )

    def add(self, ended: Iterable[Exchange]) -> None:
        """Add finished calls; those of a kind that uses no tokens are left out."""
        for (upstream, model), calls in _by_model(ended).items():
            name = self._prices.model_name(upstream, model)
            label = self._label(upstream, name)
            causes = collections.Counter(
                _NO_CAUSE if e.cause is None else e.cause.subcategory for e in calls
            )
            for cause, count in causes.items():
                self._calls.labels(upstream, label, cause).inc(count)
            used = [e for e in calls if _uses_tokens(e)]
            for kind, tokens in _MODEL_TOKENS.items():
                if total := sum(filter(None, map(tokens, used))):
                    self._tokens.labels(upstream, label, kind).inc(total)
            self._add_costs(upstream, label, [self._cost_of(e, name) for e in used])

    def _cost_of(self, e: Exchange, name: str | None) -> float | None:
        cost = e.usage.cost_usd if name is None else self._prices.cost(e)
        contradictory = cost is not None and not cost >= 0  # more read from the cache than sent
        return None if contradictory else cost

    def _add_costs(self, upstream: str, label: str, costs: Sequence[float | None]) -> None:
        known = [cost for cost in costs if cost is not None]
        if known:
            self._cost.labels(upstream, label).inc(sum(known))
            self._costed.labels(upstream, label, "known").inc(len(known))
        if unknown := len(costs) - len(known):
            self._costed.labels(upstream, label, "unknown").inc(unknown)

    def _label(self, upstream: str, name: str | None) -> str:
        if name is not None and len(self._labelled) < MOST:
            self._labelled.add((upstream, name))
        return name if name is not None and (upstream, name) in self._labelled else OTHER


def _by_model(ended: Iterable[Exchange]) -> dict[tuple[str, str | None], list[Exchange]]:
    """Group calls by upstream and the model that answered, or else was asked for, as written."""
    groups: dict[tuple[str, str | None], list[Exchange]] = {}
    for e in ended:
        if e.kind not in _COUNTED:
            continue
        named = (e.upstream, e.answered_model or e.model)
        if named not in groups and len(groups) >= _FRESH:
            named = (e.upstream, None)
        groups.setdefault(named, []).append(e)
    return groups


def _uses_tokens(e: Exchange) -> bool:
    """Return True unless it is known that a call used no tokens."""
    failed = e.cause is not None and (e.status is None or e.status >= 400)
    return not (failed or e.pending)


# --- metrics of a process ----------------------------------------------------------------------


REFUSALS = "truezero_refusals"
AGENTS, CONTROL = "agents", "control"  # planes


Counts = Callable[[], Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """The counts of requests since the process started, read for every sample.

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
    """The part of the recorder that the metrics read."""

    @property
    def failing(self) -> bool:
        """True if the database refuses writes."""
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
            "Validity findings of final verdicts, without drills",
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
        for finding in () if INJECTED in verdict.warnings else verdict.validity:
            self._findings.labels(finding.check, finding.level.value).inc()

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
            return StoreCounts(verdicts={})


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
            "Calls that named no rollout; they count in no verdict",
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
        for gauge in stored_gauges():
            counts = self._census.gauges.get(gauge.name, {})
            yield _gauge(gauge.name, gauge.text, gauge.label, counts)
        lanes = GaugeMetricFamily(
            "truezero_lanes",
            "Lanes called within the last hour, by the word for their health: healthy, degraded, "
            "down, unknown",
            labels=("upstream", "model", "word"),
        )
        for (upstream, model, word), count in self._census.lanes.items():
            lanes.add_metric((upstream, model or OTHER, word), count)
        yield lanes


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
