"""How often something may be done that can also be done later."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """So many times a second, of which some seconds' worth may be saved up.

    Arguments:
        clock: seconds, of which only differences count.
    """

    __slots__ = ("_at", "_clock", "_left", "_most", "_rate")

    def __init__(self, rate: float, *, most: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._most = self._left = most
        self._clock = clock
        self._at = clock()

    @property
    def left(self) -> int:
        """How many times it may be done now."""
        now = self._clock()
        passed, self._at = max(0.0, now - self._at), now
        self._left = min(self._most, self._left + passed * self._rate)
        return max(0, int(self._left))

    def use(self, times: int) -> None:
        """Note that it was done."""
        self._left -= times
