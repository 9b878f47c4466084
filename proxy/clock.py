"""One clock of a process, by which calls, outcomes and verdicts have an order."""

from __future__ import annotations

import time
from collections.abc import Callable

_SET_S = 0.001  # seconds; less apart are two clocks that were read one after the other


class OrderedClock:
    """Seconds since the epoch that go on as a monotonic clock does, and never back.

    What began later is later: verdicts go by the order of calls, and a clock that is set back
    would turn it. One that is set forward is followed.
    """

    __slots__ = ("_ahead", "_monotonic", "_wall")

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._ahead = wall() - monotonic()

    def __call__(self) -> float:
        """Return the time now."""
        # In this order: a thread that is held up between the two finds a difference that is too
        # small, which is not followed. The other way round each delay would be, for good.
        wall = self._wall()
        since = self._monotonic()
        if wall - since > self._ahead + _SET_S:
            self._ahead = wall - since
        return since + self._ahead


# Read by the relay and the control plane: two clocks would say that a call began after the outcome
# that was reported once it had ended.
epoch_s = OrderedClock(time.time, time.monotonic)
