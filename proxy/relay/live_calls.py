"""The calls and sockets under way in one process, by rollout, so that a rollout's can be ended."""

from __future__ import annotations

import asyncio
from typing import Protocol

from proxy.routing.limits import ConcurrencyLimiter

_END_S = 5.0  # within which a call that was told to end has been recorded


class LiveCall(Protocol):
    """A call or socket under way."""

    def close(self) -> None:
        """End it, because its rollout has ended; it is recorded as it then stands."""
        ...


class LiveCalls:
    """Knows which calls are under way; whoever enters one leaves it, however it ended.

    All methods are called in the event loop.

    Arguments:
        limiter: how many there may be at once.
    """

    __slots__ = ("_by_rollout", "_limiter", "_waited_for")

    def __init__(self, limiter: ConcurrencyLimiter | None = None) -> None:
        self._limiter = limiter or ConcurrencyLimiter()
        self._by_rollout: dict[str, set[LiveCall]] = {}
        self._waited_for: dict[LiveCall, asyncio.Future[None]] = {}

    def enter(self, rollout_id: str, call: LiveCall) -> None:
        """Note a call that begins.

        Raises:
            Refusal: 503, there are as many as there may be.
        """
        self._limiter.acquire(rollout_id)
        calls = self._by_rollout.get(rollout_id)
        if calls is None:
            self._by_rollout[rollout_id] = {call}
        else:
            calls.add(call)

    def leave(self, rollout_id: str, call: LiveCall) -> None:
        """Drop a call that ended and is on record."""
        self._limiter.release(rollout_id)
        calls = self._by_rollout[rollout_id]
        if len(calls) > 1:
            calls.discard(call)
        else:
            del self._by_rollout[rollout_id]
        if self._waited_for and (waited := self._waited_for.pop(call, None)) is not None:
            waited.set_result(None)

    def any_of(self, rollout_id: str) -> bool:
        """Whether a call of this rollout is under way."""
        return rollout_id in self._by_rollout

    async def close(self, rollout_id: str, grace_s: float) -> bool:
        """End a rollout's calls: those under way now that do not end by themselves.

        Arguments:
            grace_s: how long they may go on, in seconds.

        Returns:
            Whether all of them have ended.
        """
        calls = tuple(self._by_rollout.get(rollout_id, ()))
        if not calls:
            return True
        loop = asyncio.get_running_loop()
        ends = {call: self._waited_for.setdefault(call, loop.create_future()) for call in calls}
        _, left = await asyncio.wait(ends.values(), timeout=grace_s)
        if not left:
            return True
        for call, end in ends.items():
            if end in left and not end.done():
                call.close()
        _, left = await asyncio.wait(left, timeout=_END_S)
        return not left
