"""The context of the control plane: its parts and its state, queries in threads, page cursors."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast
from urllib.parse import quote

from classifier.groups import TaskTotal
from classifier.records import Exchange
from classifier.statistics import Exclusion
from classifier.verdicts import Policy, Verdict
from proxy.clock import epoch_s
from proxy.control.pricing import PriceTable
from proxy.routing.errors import RETRY_SOON, Refusal, TokenBucket
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import Upstream
from proxy.store.batch_versions import BatchVersion
from proxy.store.batches import newest
from proxy.store.database import Database
from proxy.store.errors import StoreError
from truezero.mistakes import meant

# --- threads -----------------------------------------------------------------------------------
# Blocking work runs beside the event loop without starving the relay.


P = ParamSpec("P")
T = TypeVar("T")
State = TypeVar("State")

# The interpreter's switch interval in seconds: CPython's default while no work runs in threads,
# because a shorter one costs the relay 15 % more CPU, and a small part of it while some does: the
# relay's threads wait so long each time that they go on, some ten times an exchange.
_IDLE_S, _BUSY_S = 0.005, 0.0002
_IN_LINE_S = 0.05  # no work waits longer for work that lasts, such as a slow query


class _SwitchInterval:
    """Sets the process-wide switch interval by the number of running jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs = 0

    def add(self, jobs: int) -> None:
        with self._lock:
            self._jobs += jobs
            sys.setswitchinterval(_BUSY_S if self._jobs else _IDLE_S)


_INTERVAL = _SwitchInterval()
_LINE = threading.Lock()  # held by work: two at once would both delay the relay's threads


class Cost:
    """The CPU time that work in threads has taken so far, in ``seconds``."""

    def __init__(self) -> None:
        self.seconds = 0.0


_COST: ContextVar[Cost | None] = ContextVar("cost", default=None)


@contextlib.contextmanager
def counted() -> Iterator[Cost]:
    """Add up the CPU time of the work that this task, or one it begins, runs in threads."""
    cost = Cost()
    before = _COST.set(cost)
    try:
        yield cost
    finally:
        _COST.reset(before)


@cache
def version() -> str:
    """Look up our version, once: parsing what is said of the package takes 4 ms."""
    return metadata.version("truezero")


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread and return its result. Exceptions of the work are raised here.

    Short pieces of work run one after another.
    """
    return await asyncio.to_thread(_run, work, args, kwargs)


def _run(work: Callable[..., T], args: Any, kwargs: Any) -> T:
    alone = _LINE.acquire(timeout=_IN_LINE_S)
    _INTERVAL.add(1)
    began = time.thread_time()
    try:
        return work(*args, **kwargs)
    finally:
        _INTERVAL.add(-1)
        if (cost := _COST.get()) is not None:
            cost.seconds += time.thread_time() - began
        if alone:
            _LINE.release()


# --- cache: one value per key, valid for one version of it -------------------------------------


Key = TypeVar("Key")
Version = TypeVar("Version")
Value = TypeVar("Value")


class VersionedCache(dict[Key, tuple[Version, Value]]):
    """A cache of one value per key, valid for one version of it.

    Arguments:
        limit: keys; beyond it the oldest is dropped.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def current(self, key: Key, version: Version) -> Value | None:
        """Return the value of a key if it is of this version, else None."""
        cached = self.get(key)
        return cached[1] if cached is not None and cached[0] == version else None

    def store(self, key: Key, version: Version, value: Value) -> None:
        """Store a value in place of that of another version."""
        if key not in self and len(self) >= self._limit:
            self.pop(next(iter(self)), None)  # another thread may have been first
        self[key] = version, value


# --- figures of a whole batch, computed when somebody looks --------------------------------------


_ALWAYS_S = 0.1  # of CPU: what costs less is computed with each change
_REST = 20  # what costs more is computed at most once in so many times its cost


class Computed(NamedTuple, Generic[Value]):
    """A value, when the rows it was computed from were read, and the CPU seconds it took."""

    value: Value
    as_of: float
    cost_s: float

    def holds(self, now: float) -> bool:
        """Return True if the value is not computed again yet, although its batch has changed."""
        return self.cost_s >= _ALWAYS_S and now < self.as_of + _REST * self.cost_s


async def computed(
    service: Service,
    cache: VersionedCache[str, BatchVersion, Computed[Value]],
    batch: str,
    version: BatchVersion,
    work: Callable[[Service, str], Value],
    *,
    fresh: bool = False,
) -> Computed[Value]:
    """Return what `work` makes of a batch of this version, from the cache if that holds.

    Arguments:
        fresh: as the batch is now, whatever it costs.
    """
    version = version._replace(waits=False)  # what waits is in no count

    def known() -> Computed[Value] | None:
        before, found = cache.get(batch, (None, None))
        if before is None or found is None or before.began_at != version.began_at:
            return None
        same = before == version or (not fresh and found.holds(service.now()))
        return found if same else None

    if (found := known()) is not None:
        return found
    async with service.computing:  # one at a time: who waited may find what it wants
        if (found := known()) is not None:
            return found
        as_of = service.now()
        value, cost_s = await service.run(_timed, work, service, batch)
        found = Computed(value, as_of, cost_s)
        cache.store(batch, version, found)
        return found


def _timed(work: Callable[..., T], *args: Any) -> tuple[T, float]:
    began = time.thread_time()
    done = work(*args)
    return done, time.thread_time() - began


# --- the context of every subject --------------------------------------------------------------


PAGE = 1000  # rows read at once
_CACHED_BATCHES = 32
_CACHED_SUMMARIES = 500  # of batches, which lists show as well
_CACHED_ANSWERS = 8  # totals of all tasks of a batch
# Rollouts that run are judged again at this rate at most, some of them at once: in between their
# batch keeps its version. No more are saved up, lest they all be judged when several pages open.
_REJUDGED_PER_S, REJUDGED_TOGETHER = 0.5, 2


class RecorderState(Protocol):
    """The recorder as the control plane sees it."""

    @property
    def failing(self) -> bool:
        """True if the database refuses writes."""
        ...

    @property
    def gaps_counted(self) -> int:
        """Calls that were served and could not be recorded."""
        ...

    @property
    def waiting(self) -> int:
        """Exchanges not yet written."""
        ...

    def missing(self, rollout_id: str) -> int:
        """Count a rollout's calls that were served but are not in the database."""
        ...


def _rejudging() -> TokenBucket:
    return TokenBucket(_REJUDGED_PER_S, most=REJUDGED_TOGETHER, clock=time.monotonic)


async def ask_nothing(_failures: Sequence[Exchange], _within_s: float) -> None:
    """Ask no reference calls, in a process that has no upstreams."""


async def no_lane_to_ask(_upstream: str, _model: str) -> str:
    """Refuse to ask a reference, in a process that has no upstreams."""
    raise Refusal(404, "unknown_upstream", "this process has no upstreams")


async def nothing_to_close(_rollout_id: str, _number: int) -> bool:
    """Report all calls as ended, in a process that relays none."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Service:
    """The context of the control plane: the parts and the state of one process, made once.

    Arguments:
        prices: the cost of calls if the provider does not state it.
        policy: how to judge, retry and stop; a batch may state parts of it.
        salt: the secret of digests on record.
        now: seconds since the epoch.
        new_id: makes ids for rollouts registered without one.
        stopping: returns True once the process is about to end, and streams with it.
        proof_required: base URLs carry the rollout's secret.
        registration_required: an outcome registers no rollout.
        access_changed: called with a rollout whose key's validity or drill has changed.
        worker: this process's name in the table of workers.
        close_here: ends a rollout's calls, under a number, in this process; returns True if all of
            them ended.
        ask_references: has failed calls of one rollout asked about that no series was asked beside
            yet, and waits up to so many seconds until those have ended.
        ask_reference: asks a model of an upstream one series now, and returns its id once it ended.
        reference_key: returns True if reference calls to an upstream have a key, or need none.
        refused_calls: counts agents' requests that were refused since the start, by code.
        on_final_verdict: called with each final verdict once, in one of all processes.
        pages_url: base URL of the pages, for links in alerts; None leaves them out.
        key_names: the settings that the operator's keys are from, by the keys' digests.
    """

    database: Database
    recorder: RecorderState
    keyring: Keyring
    upstreams: Mapping[str, Upstream]
    prices: PriceTable
    policy: Policy
    salt: bytes
    now: Callable[[], float] = epoch_s
    new_id: Callable[[], str]
    stopping: Callable[[], bool] = lambda: False
    proof_required: bool = False
    registration_required: bool = False
    access_changed: Callable[[str], None] = lambda _rollout_id: None
    worker: str = ""
    close_here: Callable[[str, int], Awaitable[bool]] = nothing_to_close
    ask_references: Callable[[Sequence[Exchange], float], Awaitable[None]] = ask_nothing
    ask_reference: Callable[[str, str], Awaitable[str]] = no_lane_to_ask
    reference_key: Callable[[str], bool] = lambda _upstream: True
    refused_calls: Callable[[], Mapping[str, int]] = dict
    on_final_verdict: Callable[[Verdict], object] = lambda _verdict: None
    pages_url: str | None = None
    key_names: Mapping[str, str] = field(default_factory=dict)

    # State that outlives a call. Values of type Any are a subject's own.
    registered: set[str] = field(default_factory=set)
    batch_states: VersionedCache[str, BatchVersion, Computed[Any]] = field(
        default_factory=lambda: VersionedCache(_CACHED_SUMMARIES), init=False
    )
    exclusions: VersionedCache[str, Any, Exclusion] = field(
        default_factory=lambda: VersionedCache(_CACHED_BATCHES), init=False
    )
    task_totals: VersionedCache[str, BatchVersion, Computed[Sequence[TaskTotal]]] = field(
        default_factory=lambda: VersionedCache(_CACHED_ANSWERS), init=False
    )
    unscored: VersionedCache[str, BatchVersion, Computed[Any]] = field(
        default_factory=lambda: VersionedCache(_CACHED_BATCHES), init=False
    )
    timelines: VersionedCache[str, Any, Any] = field(
        default_factory=lambda: VersionedCache(_CACHED_BATCHES), init=False
    )
    statuses: VersionedCache[str, int, Any] = field(
        default_factory=lambda: VersionedCache(_CACHED_BATCHES), init=False
    )
    rejudging: TokenBucket = field(default_factory=_rejudging)
    computing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    states: dict[type, Any] = field(default_factory=dict, init=False)  # of features

    @property
    def asks_references(self) -> bool:
        """True if reference calls are asked where a verdict needs one."""
        return self.ask_references is not ask_nothing

    def state(self, kind: type[State]) -> State:
        """Return the state that a feature keeps with this service; made when first asked for.

        Arguments:
            kind: its class, which only that feature has; made without arguments.
        """
        if kind not in self.states:
            self.states.setdefault(kind, kind())  # another thread may have been first
        return cast("State", self.states[kind])

    async def run(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query, or work that makes several, in a thread: it delays no agent's bytes.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        try:
            return await run_in_thread(query, *args, **kwargs)
        except StoreError as error:
            raise storage_unavailable(error) from error

    async def read(self, query: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a query that takes a connection first, as those of `proxy.store.statistics` do.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        return await self.run(self.database.read, query, *args, **kwargs)


async def readiness(service: Service) -> dict[str, Any]:
    """Check the database and the recorder: return the response to `GET /readyz`."""
    database = await service.run(service.database.is_reachable)
    recorder = service.recorder
    return {
        "status": "ready" if database and not recorder.failing else "not_ready",
        "database": database,
        "recorder": not recorder.failing,
        "gaps": recorder.gaps_counted,
        "waiting": recorder.waiting,
    }


def storage_unavailable(error: StoreError) -> Refusal:
    """Return the refusal of a request while the database is unavailable."""
    detail = f"database unavailable ({error.kind})"
    return Refusal(503, "storage_unavailable", detail, RETRY_SOON)


def unknown_rollout(rollout_id: str) -> Refusal:
    """Refuse a rollout that was neither registered nor seen in a call."""
    return Refusal(404, "unknown_rollout", f"rollout {rollout_id!r} does not exist")


_NAMES = 1_000  # of the newest batches, among which a misspelt one is looked for


async def unknown_batch(service: Service, batch: str) -> Refusal:
    """Refuse a batch without rollouts, and name the one that may be meant."""

    def look() -> Refusal:
        rows = service.database.read(newest, limit=_NAMES)
        return no_batch(batch, [row["batch"] for row in rows])

    return await service.run(look)


def no_batch(batch: str, others: Sequence[str] = ()) -> Refusal:
    """Refuse a batch that does not exist, beside those that do."""
    detail = f"batch {batch!r} does not exist{meant(batch, others, repr)}"
    return Refusal(404, "unknown_batch", detail)


# --- page cursors: opaque text that a caller hands back ----------------------------------------


_LONGEST = 16_384  # characters; the longest names that can be take half of it
_GREATEST = 2.0**63


def encode_cursor(place: Sequence[Any]) -> str:
    """Return the cursor of a place: values that JSON has."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode_cursor(cursor: str) -> Any:
    """Return the value that a cursor encodes, of any type that JSON has.

    Raises:
        ValueError: it encodes none.
    """
    if len(cursor) > _LONGEST:
        raise ValueError("too long")
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except RecursionError:
        raise ValueError("nested too deep") from None


def cursor_name(value: Any) -> str:
    """Return a part of a cursor that is the name of something.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or "\x00" in value or not _encodable(value):
        raise ValueError("not a name")
    return value


def cursor_number(value: Any) -> float:
    """Return a part of a cursor that is a time, an amount or a count.

    Raises:
        ValueError: it is none that a database holds.
    """
    if not isinstance(value, int | float) or not -_GREATEST < value < _GREATEST:
        raise ValueError("not a number")
    return float(value)


def cursor_whole(value: Any) -> int:
    """Return a part of a cursor that is a whole number.

    Raises:
        ValueError: it is none that a database holds.
    """
    return math.floor(cursor_number(value))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        return False
    return True


def invalid_cursor() -> Refusal:
    """Return the refusal of a text that is no cursor of the list."""
    return Refusal(422, "invalid", "after: not a valid page cursor")


# --- paths of pages, for links and alerts ------------------------------------------------------


def path_of(kind: str, name: str) -> str:
    """Return the path of one batch's or rollout's page.

    Arguments:
        kind: ``batches`` or ``rollouts``.
    """
    return f"/ui/{kind}/{quote(name, safe='')}"
