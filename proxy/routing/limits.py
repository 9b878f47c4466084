"""Limit the calls in flight and the registrations per second of one process.

Nothing waits: what is over a limit is refused at once, with a Retry-After.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from proxy.routing.errors import RETRY_SOON, Refusal

_BURST_S = 10  # seconds' worth that may come at once: batches are registered in one go


class ConcurrencyLimiter:
    """Limit the calls in flight, in total and per rollout; None is no limit.

    Whoever acquires releases, however the call ends.
    """

    __slots__ = ("_by_rollout", "_in_flight", "_per_rollout", "_total")

    def __init__(self, *, total: int | None = None, per_rollout: int | None = None) -> None:
        self._total = math.inf if total is None else total
        self._per_rollout = per_rollout
        self._in_flight = 0
        self._by_rollout: dict[str, int] = {}  # kept only where there is a limit per rollout

    def acquire(self, rollout_id: str) -> None:
        """Count a call in.

        Raises:
            Refusal: 503, the limit is reached; nothing was sent to the provider.
        """
        if self._in_flight >= self._total:
            raise _full("too_many_calls", f"{self._total} calls in flight")
        if self._per_rollout is not None:
            in_flight = self._by_rollout.get(rollout_id, 0)
            if in_flight >= self._per_rollout:
                raise _full(
                    "too_many_calls_of_rollout",
                    f"{in_flight} calls of this rollout in flight",
                )
            self._by_rollout[rollout_id] = in_flight + 1
        self._in_flight += 1

    def release(self, rollout_id: str) -> None:
        """Count a call out that ended."""
        self._in_flight -= 1
        if self._per_rollout is not None:
            left = self._by_rollout[rollout_id] - 1
            if left:
                self._by_rollout[rollout_id] = left
            else:
                del self._by_rollout[rollout_id]


def _full(code: str, calls: str) -> Refusal:
    return Refusal(503, code, f"concurrency limit reached ({calls}); retry after 1 s", RETRY_SOON)


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
