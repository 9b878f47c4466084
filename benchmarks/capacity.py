"""The capacity model: what measured points say of a deployment, and where its first limit is.

It measures nothing: lines fitted to points, a simulation of rollouts, and divisions of the two.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, linear_regression

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
FULL = 0.7  # of a resource, above which queues grow long: a server 70 % busy makes others wait
_GROUP = 500  # calls of a group commit at most, as measured
_MEASURED = 4  # processes beside each other; more are taken for no better and no worse
_CHUNK_BITS = 200 * 8

Points = Mapping[str, Sequence[Mapping[str, float | str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A cost by least squares: ``base`` and ``slope`` for each unit more, neither below 0."""

    base: float
    slope: float

    def at(self, x: float) -> float:
        return self.base + self.slope * x


def fitted(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line through points; through one point, or points that fall, a level one.

    Raises:
        ValueError: there are no points.
    """
    if not ys:
        raise ValueError("no points")
    if len(set(xs)) < 2:
        return Line(base=fmean(ys), slope=0.0)
    slope, base = linear_regression(xs, ys)
    if slope < 0:
        return Line(base=fmean(ys), slope=0.0)
    if base < 0:  # a cost of nothing is none: the line through the origin
        slope, _ = linear_regression(xs, ys, proportional=True)
        base = 0.0
    return Line(base=base, slope=slope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one database makes things cost, as lines over what they grow with."""

    exchange_us: Line  # CPU of the service, by processes on its host
    database_us: float  # CPU of the database's server for an exchange
    request_us: Line  # CPU of the service, by kB of the request
    chunk_us: float
    streams_mb: Line  # memory, by streams open
    commit_ms: Line  # by calls in the group, for both of a call's rows
    disk_bytes: Line  # by exchanges
    verdict_ms: Line  # CPU of the service, by calls of the rollout
    verdict_database_ms: Line  # CPU of the database's server


def costs(points: Points, database: str) -> Costs:
    """Fit all lines to the points of one database; what has none of its own takes all."""
    relay = _of(points["relay"], database)
    disk, groups = _of(points["disk"], database), _of(points["commits"], database)
    calls = [1.0] * len(disk) + [1000.0] * len(disk)
    return Costs(
        exchange_us=fitted(_numbers(relay, "workers"), _numbers(relay, "cpu_us")),
        database_us=fmean(_numbers(relay, "database_cpu_us")),
        request_us=fitted(
            _numbers(points["requests"], "request_kb"), _numbers(points["requests"], "cpu_us")
        ),
        chunk_us=fmean(_numbers(points["chunks"], "cpu_us")),
        streams_mb=fitted(
            _numbers(points["streams"], "streams"), _numbers(points["streams"], "mb")
        ),
        commit_ms=fitted(_numbers(groups, "calls"), _numbers(groups, "ms")),
        disk_bytes=fitted(_numbers(disk, "exchanges"), _numbers(disk, "bytes")),
        verdict_ms=fitted(calls, _by_calls(disk, "cpu_ms")),
        verdict_database_ms=fitted(calls, _by_calls(disk, "database_cpu_ms")),
    )


def _of(
    points: Sequence[Mapping[str, float | str]], database: str
) -> list[Mapping[str, float | str]]:
    return [point for point in points if point["database"] == database]


def _numbers(points: Sequence[Mapping[str, float | str]], name: str) -> list[float]:
    return [float(point[name]) for point in points]


def _by_calls(points: Sequence[Mapping[str, float | str]], name: str) -> list[float]:
    return [*_numbers(points, f"verdict_1_{name}"), *_numbers(points, f"verdict_1000_{name}")]


# --- what rollouts ask for -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What rollouts do; nobody measured your agents, so put your own in.

    Times are means of exponential distributions, in seconds: spread widely, as tools and
    providers are.
    """

    rollouts: int = 100_000
    ramp_s: float = 120.0  # in which all of them begin
    calls: int = 50  # of a rollout, on average
    think_s: float = 10.0  # between an answer and the next call: tools, tests, the agent itself
    first_byte_s: float = 2.0
    stream_s: float = 5.0
    chunks: int = 250  # of an answer
    request_kb: float = 60.0  # about 15,000 tokens of conversation so far
    failed: float = 0.02  # of calls
    verdicts: float = 2.0  # asked for each rollout: its own, and its part of a batch's summary
    seconds: float = 300.0  # that are looked at, after the ramp
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What so many rollouts ask for: means, and the highest second or moment."""

    calls_per_s: float
    calls_per_s_peak: float
    streams: float
    streams_peak: float
    begun_per_s_peak: float
    ended_per_s: float


def simulate(assumed: Assumed) -> Demand:
    """Play the rollouts event by event: think, call, hear the answer; who ends is followed.

    The service's own time is left out: it is microseconds against seconds.
    """
    chance = random.Random(assumed.seed)
    end = assumed.ramp_s + assumed.seconds
    # (when, whether a call is under way until then, whether it is the rollout's first)
    events = [(chance.uniform(0, assumed.ramp_s), False, True) for _ in range(assumed.rollouts)]
    heapq.heapify(events)
    seen = _Seen(settled_at=assumed.ramp_s)
    while events and events[0][0] < end:
        at, calling, fresh = events[0]
        if calling:
            seen.ends(at)
            last = chance.random() < 1 / assumed.calls
            if last:
                seen.rollouts_ended(at)
            heapq.heapreplace(events, (at + _wait(chance, assumed.think_s), False, last))
        else:
            seen.begins(at, fresh=fresh)
            takes = _wait(chance, assumed.first_byte_s) + _wait(chance, assumed.stream_s)
            heapq.heapreplace(events, (at + takes, True, False))
    return seen.demand(end)


def _wait(chance: random.Random, mean_s: float) -> float:
    return chance.expovariate(1 / mean_s) if mean_s else 0.0


class _Seen:
    """Counts what happens; means are of the time from ``settled_at`` on, peaks of all of it."""

    def __init__(self, settled_at: float) -> None:
        self._settled_at = settled_at
        self._calls: Counter[int] = Counter()
        self._begun: Counter[int] = Counter()
        self._settled_calls = self._ended = 0
        self._open = self._peak = 0
        self._area = self._since = 0.0

    def begins(self, at: float, *, fresh: bool) -> None:
        """A call begins; with it, if fresh, its rollout."""
        self._move(at, 1)
        self._calls[int(at)] += 1
        self._begun[int(at)] += fresh
        self._settled_calls += at >= self._settled_at

    def ends(self, at: float) -> None:
        self._move(at, -1)

    def rollouts_ended(self, at: float) -> None:
        self._ended += at >= self._settled_at

    def _move(self, at: float, change: int) -> None:
        if at > self._settled_at:
            self._area += self._open * (at - max(self._since, self._settled_at))
        self._since = at
        self._open += change
        self._peak = max(self._peak, self._open)

    def demand(self, end: float) -> Demand:
        self._move(end, 0)
        seconds = end - self._settled_at
        return Demand(
            calls_per_s=self._settled_calls / seconds,
            calls_per_s_peak=max(self._calls.values(), default=0),
            streams=self._area / seconds,
            streams_peak=self._peak,
            begun_per_s_peak=max(self._begun.values(), default=0),
            ended_per_s=self._ended / seconds,
        )


# --- what a deployment has -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Machines as they are often had, and truezero's own limits as it comes."""

    name: str
    database: str
    processes: int = 1  # of all hosts, a core each
    hosts: int = 1
    process_mb: float = 130.0  # without a stream (docs/benchmarks.md, after an hour's exchanges)
    host_gb: float = 16.0
    host_gbit: float = 10.0
    open_files: int = 65_536  # each process may open; a service gets what its hard limit is
    calls_at_once: int = 20_000  # `max_concurrent_calls`
    registrations_per_s: float = 1000.0  # `registrations_per_s`
    ports: int = 28_232  # to one address of a provider: Linux's ip_local_port_range
    database_cores: int = 16
    database_connections: int = 500  # `max_connections`; 100 as PostgreSQL comes
    connections_each: int = 12  # that a process holds (docs/self-hosting.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of a resource is used: 1 is all of it."""

    resource: str
    used: float
    has: float
    unit: str
    add: str  # what helps where it is the first limit

    @property
    def share(self) -> float:
        return self.used / self.has


def uses(demand: Demand, assumed: Assumed, costs: Costs, on: Deployment) -> list[Use]:
    """Every resource, the one that is used most first."""
    found = [*_of_service(demand, assumed, costs, on), *_of_database(demand, assumed, costs, on)]
    return sorted(found, key=lambda use: -use.share)


def _of_service(demand: Demand, assumed: Assumed, costs: Costs, on: Deployment) -> list[Use]:
    calls, peak, each, hosts = demand.calls_per_s, demand.streams_peak, on.processes, on.hosts
    cores = calls * call_us(assumed, costs, on) / 1e6 + _judging(demand, assumed, costs)
    memory_mb = each * (on.process_mb + costs.streams_mb.base) + peak * costs.streams_mb.slope
    bits = calls * (assumed.request_kb * 8e3 + assumed.chunks * _CHUNK_BITS)
    return [
        Use(resource="CPU", used=cores, has=each, unit="cores",
            add="processes: `--workers`, then hosts"),
        Use(resource="calls at once", used=peak, has=each * on.calls_at_once, unit="calls",
            add="`max_concurrent_calls`, where memory allows; else processes"),
        Use(resource="open files", used=2 * peak, has=each * on.open_files, unit="files",
            add="the hard limit (`LimitNOFILE`, `ulimits`); else processes"),
        Use(resource="memory", used=memory_mb / 1e3, has=hosts * on.host_gb, unit="GB",
            add="memory, or hosts"),
        Use(resource="ports", used=peak, has=hosts * on.ports, unit="connections",
            add="hosts, or a wider `ip_local_port_range`; each further address of a provider has"
            " as many"),
        Use(resource="network", used=bits / 1e9, has=hosts * on.host_gbit, unit="Gbit/s each way",
            add="hosts"),
        Use(resource="registrations", used=demand.begun_per_s_peak,
            has=each * on.registrations_per_s, unit="rollouts/s",
            add="a longer ramp, `registrations_per_s`, or processes"),
    ]  # fmt: skip


def call_us(assumed: Assumed, costs: Costs, on: Deployment) -> float:
    """CPU µs of the service for a streamed call."""
    beside = min(on.processes / on.hosts, _MEASURED)
    larger = costs.request_us.slope * max(0.0, assumed.request_kb - 0.4)
    return costs.exchange_us.at(beside) + larger + assumed.chunks * costs.chunk_us


def _judging(demand: Demand, assumed: Assumed, costs: Costs) -> float:
    return demand.ended_per_s * assumed.verdicts * costs.verdict_ms.at(assumed.calls) / 1e3


def _of_database(demand: Demand, assumed: Assumed, costs: Costs, on: Deployment) -> list[Use]:
    calls = demand.calls_per_s
    writers = 1 if on.database == SQLITE else min(on.processes, _MEASURED)
    more = "PostgreSQL" if on.database == SQLITE else "processes; then faster disks under WAL"
    written = Use(
        resource="commits", used=calls, has=writers * commits_per_s(costs), unit="calls/s", add=more
    )
    if on.database == SQLITE:
        return [written]
    judging = demand.ended_per_s * assumed.verdicts * costs.verdict_database_ms.at(assumed.calls)
    return [
        written,
        Use(resource="database CPU", used=calls * costs.database_us / 1e6 + judging / 1e3,
            has=on.database_cores, unit="cores",
            add="cores; then a database that spreads writes over several machines"),
        Use(resource="connections", used=on.processes * on.connections_each,
            has=on.database_connections, unit="connections",
            add="`max_connections`, or PgBouncer with `pool_mode = session`"),
        Use(resource="event lock", used=calls * assumed.failed,
            has=2e3 / costs.commit_ms.at(1), unit="commits/s, one after another, of failed calls",
            add="faster disks under WAL; beyond it they share commits and wait for each other"),
    ]  # fmt: skip


def commits_per_s(costs: Costs) -> float:
    """Calls/s that one writer writes down in its largest groups."""
    return _GROUP / costs.commit_ms.at(_GROUP) * 1e3


def carried(assumed: Assumed, use: Use, share: float = FULL) -> float:
    """How many rollouts a resource carries up to a share of it, all else being as assumed."""
    return assumed.rollouts * share / use.share if use.share else math.inf


def enough(
    demand: Demand, assumed: Assumed, costs: Costs, on: Deployment, *, each: int = 8
) -> Deployment:
    """The deployment with as many hosts of so many processes as keep all within `FULL`.

    What more hosts do not mend is left out.
    """
    hosts = 1
    while True:
        grown = replace(on, hosts=hosts, processes=hosts * each)
        if all(use.share <= FULL for use in _of_service(demand, assumed, costs, grown)):
            return grown
        hosts += 1


def gb_per_day(demand: Demand, costs: Costs) -> float:
    """GB that a day of this demand takes on disk."""
    return demand.calls_per_s * 86_400 * costs.disk_bytes.slope / 1e9
