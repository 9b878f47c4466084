"""Database queries of the control plane: run in threads, cached by state, paged by cursors."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.store.database import Database
from proxy.store.errors import StoreError

# --- threads -----------------------------------------------------------------------------------
# Blocking work runs beside the event loop without starving the relay.


P = ParamSpec("P")
T = TypeVar("T")

# The interpreter's switch interval in seconds: CPython's default while no work runs in threads,
# because a shorter one costs the relay 15 % more CPU, and a small part of it while some does: the
# relay's threads wait so long each time that they go on, some ten times an exchange.
_IDLE_S, _BUSY_S = 0.005, 0.0002
_IN_LINE_S = 0.05  # for work that lasts, such as a slow query, nobody waits longer


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
    """Add up what the work takes that this task, or one it begins, runs in threads."""
    cost = Cost()
    before = _COST.set(cost)
    try:
        yield cost
    finally:
        _COST.reset(before)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread and return its result; raises what the work raises.

    One after another, where they are short.
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


# --- queries -----------------------------------------------------------------------------------


PAGE = 1000  # rows read at once


class Queries:
    """Runs queries in threads, so that a slow one delays no agent's bytes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query, or work that makes several.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        try:
            return await run_in_thread(query, *args, **kwargs)
        except StoreError as error:
            raise Refusal(
                503,
                "storage_unavailable",
                f"database unavailable ({error.kind})",
                RETRY_SOON,
            ) from error

    async def read(self, query: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a query of `proxy.store.statistics`, which takes a connection.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        return await self.run(self._database.read, query, *args, **kwargs)


def unknown_rollout(rollout_id: str) -> Refusal:
    """Refuse a rollout that was neither registered nor seen in a call."""
    return Refusal(404, "unknown_rollout", f"rollout {rollout_id!r} does not exist")


def unknown_batch(batch: str) -> Refusal:
    """Refuse a batch without rollouts."""
    return Refusal(404, "unknown_batch", f"batch {batch!r} does not exist")


# --- cache: one value per key, valid for one state ---------------------------------------------


Key = TypeVar("Key")
State = TypeVar("State")
Value = TypeVar("Value")


class Kept(dict[Key, tuple[State, Value]]):
    """The last value of each of the latest keys, behind the state that it is of.

    Arguments:
        most: keys; of more the oldest is forgotten.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def of(self, key: Key, state: State) -> Value | None:
        """Return the value of a key in this state; None where it is not kept."""
        kept = self.get(key)
        return kept[1] if kept is not None and kept[0] == state else None

    def keep(self, key: Key, state: State, value: Value) -> None:
        """Keep a value, in place of that of another state."""
        if len(self) >= self._most:
            self.pop(next(iter(self)), None)  # another thread may have been first
        self[key] = state, value


# --- page cursors: opaque text that a caller hands back ----------------------------------------


_LONGEST = 16_384  # characters; the longest names that can be take half of it
_GREATEST = 2.0**63


def encode_cursor(place: Sequence[Any]) -> str:
    """Return the cursor of a place: values that JSON has."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode_cursor(cursor: str) -> Any:
    """Return what a cursor holds, which may be anything.

    Raises:
        ValueError: it holds nothing.
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
    """Return the refusal of what is no cursor of a list."""
    return Refusal(422, "invalid", "after: not a valid page cursor")


# --- paths of pages, for links and alerts ------------------------------------------------------


def path_of(kind: str, name: str) -> str:
    """Return the path of one batch's or rollout's page.

    Arguments:
        kind: ``batches`` or ``rollouts``.
    """
    return f"/ui/{kind}/{quote(name, safe='')}"
