"""Run blocking control-plane work in threads without starving the relay's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

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
    """What work in threads took so far, in ``seconds`` of CPU."""

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
