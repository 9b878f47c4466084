"""The calls and sockets under way in one process, by rollout: how many, and how they are ended."""

from __future__ import annotations

import asyncio
import math
import os
from typing import Protocol

from classifier.records import UNATTRIBUTED
from classifier.verdicts import plural
from proxy.capture.request import Conversations
from proxy.routing.errors import RETRY_SOON, Refusal, RefusalCode

_END_S = 5.0  # within which a call that was told to end has been recorded


class LiveCall(Protocol):
    """A call or socket under way."""

    def close(self) -> None:
        """End it, because its rollout has ended; it is recorded as it then stands."""
        ...


class LiveCalls:
    """Knows which calls are under way; whoever enters one leaves it, however it ended.

    All methods are called in the event loop. ``conversations`` are those that rollouts' calls go
    on with, followed by a secret that is drawn here.

    Arguments:
        total, per_rollout: how many there may be at once; None is no limit.
    """

    __slots__ = ("_by_rollout", "_in_flight", "_per_rollout", "_total", "_waited_for",
                 "conversations")  # fmt: skip

    def __init__(self, *, total: int | None = None, per_rollout: int | None = None) -> None:
        self._total = math.inf if total is None else total
        self._per_rollout = math.inf if per_rollout is None else per_rollout
        self._in_flight = 0
        self.conversations = Conversations(os.urandom(16))
        self._by_rollout: dict[str, set[LiveCall]] = {}
        self._waited_for: dict[LiveCall, asyncio.Future[None]] = {}

    def enter(self, rollout_id: str, call: LiveCall) -> None:
        """Note a call that begins.

        Raises:
            Refusal: 503, there are as many as there may be; nothing was sent to the provider.
        """
        if self._in_flight >= self._total:
            raise _full("too_many_calls", f"{plural(self._in_flight, 'call')} in flight")
        calls = self._by_rollout.get(rollout_id)
        if calls is None:
            self._by_rollout[rollout_id] = {call}
        elif len(calls) >= self._per_rollout and rollout_id != UNATTRIBUTED:
            raise _full(
                "too_many_calls_of_rollout",
                f"{plural(len(calls), 'call')} of this rollout in flight",
            )
        else:
            calls.add(call)
        self._in_flight += 1

    def leave(self, rollout_id: str, call: LiveCall) -> None:
        """Drop a call that ended and is on record."""
        self._in_flight -= 1
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


def _full(code: RefusalCode, calls: str) -> Refusal:
    return Refusal(503, code, f"concurrency limit reached ({calls}); retry after 1 s", RETRY_SOON)
