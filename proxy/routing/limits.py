"""How much one process takes on: calls under way at once, and registrations in a stretch of time.

It lets nobody wait: what is over a bound is refused at once, and told when to ask again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from proxy.routing.errors import Refusal

_A_BURST_S = 10  # so many seconds' worth may come at once, as a batch does that is announced whole
_SOON = ((b"retry-after", b"1"),)  # seconds, RFC 9110 §10.2.3


class ConcurrencyLimiter:
    """Places for calls under way, in all and for each rollout; None is no bound.

    Whoever takes one gives it back, however the call ends.
    """

    __slots__ = ("_each", "_in_all", "_of", "_taken")

    def __init__(self, *, in_all: int | None = None, each: int | None = None) -> None:
        self._in_all = math.inf if in_all is None else in_all
        self._each = each
        self._taken = 0
        self._of: dict[str, int] = {}  # kept only where each rollout has a bound

    def acquire(self, rollout_id: str) -> None:
        """Take a place for a call.

        Raises:
            Refusal: 503, there is none left; the provider was not asked.
        """
        if self._taken >= self._in_all:
            raise _full("too_many_calls", f"{self._in_all} calls are under way here")
        if self._each is not None:
            under_way = self._of.get(rollout_id, 0)
            if under_way >= self._each:
                raise _full(
                    "too_many_calls_of_rollout", f"{self._each} calls of this rollout are under way"
                )
            self._of[rollout_id] = under_way + 1
        self._taken += 1

    def release(self, rollout_id: str) -> None:
        """Give back the place of a call that is over."""
        self._taken -= 1
        if self._each is not None:
            left = self._of[rollout_id] - 1
            if left:
                self._of[rollout_id] = left
            else:
                del self._of[rollout_id]


def _full(code: str, why: str) -> Refusal:
    return Refusal(503, code, f"{why}, which is as many as may be: ask again in a second", _SOON)


class RateLimiter:
    """How often something may be done: a bucket that fills at a rate and holds ten seconds' worth.

    Arguments:
        rate: times per second, in the long run; None is no bound.
        clock: seconds that only ever grow.
    """

    __slots__ = ("_at", "_clock", "_holds", "_left", "_rate")

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._at = clock()
        self._holds = self._left = max(1.0, (rate or 0) * _A_BURST_S)

    def step(self) -> None:
        """Do it once more.

        Raises:
            Refusal: 429, too often; it says after how many seconds to ask again.
        """
        if self._rate is None:
            return
        now = self._clock()
        self._left = min(self._holds, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            raise self._too_often()
        self._left -= 1

    def _too_often(self) -> Refusal:
        assert self._rate is not None, "without a rate nothing is too often"
        wait_s = math.ceil((1 - self._left) / self._rate)
        return Refusal(
            429,
            "too_many_registrations",
            f"rollouts are registered faster than {self._rate:g} a second, which is as fast as may "
            f"be here: ask again in {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
        )
