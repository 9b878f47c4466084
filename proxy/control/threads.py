"""Where questions of runners and people are worked on: in threads, beside the agents' bytes.

It knows no question, and sets nobody a time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# How long a thread keeps the interpreter while another waits for it, in seconds: CPython's own
# while nothing is asked, since changing often costs a relay 15 % more, and a tenth meanwhile.
_ALONE_S, _BESIDE_S = 0.005, 0.0005


class _ThreadPool:
    """Works under way, over all threads; the interval is one for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def come(self, more: int) -> None:
        with self._lock:
            self._count += more
            sys.setswitchinterval(_BESIDE_S if self._count else _ALONE_S)


_GUESTS = _ThreadPool()


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do work in a thread; raises what the work raises."""
    return await asyncio.to_thread(_beside, work, args, kwargs)


def _beside(work: Callable[..., T], args: Any, kwargs: Any) -> T:
    _GUESTS.come(1)
    try:
        return work(*args, **kwargs)
    finally:
        _GUESTS.come(-1)
