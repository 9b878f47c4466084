"""How often something may be done, and the limit of one process's registrations.

Nothing waits: what is over a limit is refused at once, with a Retry-After.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from proxy.routing.errors import Refusal

_BURST_S = 10  # seconds' worth that may come at once: batches are registered in one go


class TokenBucket:
    """So many tokens a second, of which some seconds' worth may be saved up.

    Arguments:
        rate: tokens per second.
        most: that are saved up; so many are there at first.
        clock: seconds, of which only differences count.
    """

    __slots__ = ("_at", "_clock", "_left", "_most", "_rate")

    def __init__(self, rate: float, *, most: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._most = self._left = most
        self._clock = clock
        self._at = clock()

    @property
    def left(self) -> float:
        """The tokens that are there; below 0 where more were taken."""
        now = self._clock()
        passed, self._at = max(0.0, now - self._at), now
        self._left = min(self._most, self._left + passed * self._rate)
        return self._left

    def take(self, tokens: float) -> None:
        """Take tokens, whether they are there or not."""
        self._left -= tokens


class RateLimiter:
    """Limit registrations: a token bucket that holds ten seconds' worth.

    Arguments:
        rate: tokens per second; None is no limit.
        clock: monotonic seconds.
    """

    __slots__ = ("_bucket", "_rate")

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate = rate or 0.0
        most = max(1.0, self._rate * _BURST_S)
        self._bucket = None if rate is None else TokenBucket(rate, most=most, clock=clock)

    def step(self) -> None:
        """Take a token.

        Raises:
            Refusal: 429, the rate limit is reached; it states after how many seconds to retry.
        """
        if self._bucket is None:
            return
        left = self._bucket.left
        if left < 1:
            raise self._limit_reached(left)
        self._bucket.take(1)

    def _limit_reached(self, left: float) -> Refusal:
        wait_s = math.ceil((1 - left) / self._rate)
        return Refusal(
            429,
            "too_many_registrations",
            f"registration rate limit reached ({self._rate:g} rollouts/s); retry after {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
        )
