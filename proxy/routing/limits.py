"""Limit the registrations per second of one process.

Nothing waits: what is over a limit is refused at once, with a Retry-After.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from proxy.routing.errors import Refusal

_BURST_S = 10  # seconds' worth that may come at once: batches are registered in one go


class RateLimiter:
    """Limit registrations: a token bucket that holds ten seconds' worth.

    Arguments:
        rate: tokens per second; None is no limit.
        clock: monotonic seconds.
    """

    __slots__ = ("_at", "_capacity", "_clock", "_rate", "_tokens")

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._at = clock()
        self._capacity = self._tokens = max(1.0, (rate or 0) * _BURST_S)

    def step(self) -> None:
        """Take a token.

        Raises:
            Refusal: 429, the rate limit is reached; it states after how many seconds to retry.
        """
        if self._rate is None:
            return
        now = self._clock()
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            raise self._limit_reached()
        self._tokens -= 1

    def _limit_reached(self) -> Refusal:
        assert self._rate is not None, "without a rate there is no limit"
        wait_s = math.ceil((1 - self._tokens) / self._rate)
        return Refusal(
            429,
            "too_many_registrations",
            f"registration rate limit reached ({self._rate:g} rollouts/s); retry after {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
        )
