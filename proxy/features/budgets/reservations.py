"""Reservations of one process's calls: made before a call is sent, settled once it is on record.

The database keeps limits for all processes. While it is away, agents are let through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from classifier.records import Exchange, LimitReached
from proxy.clock import epoch_s
from proxy.features.budgets.amounts import Amounts, Reservation, spent_by
from proxy.features.budgets.store import Budgets
from proxy.store.errors import StoreError

log = logging.getLogger("truezero")

_AGAIN_S = 1.0  # until the database is tried again that did not take what calls spent


class Reservations:
    """Makes and settles the reservations of this process's calls.

    All methods but `ended` are called in the event loop.

    Arguments:
        worker: the process's name in the table of workers.
        watch: has `ended` called with the calls on record from then on, in any thread.
        cost: the price of a call that ended, in US dollars; None if unknown.
    """

    def __init__(
        self,
        budgets: Budgets,
        *,
        worker: str,
        watch: Callable[[Callable[[Sequence[Exchange]], None]], None],
        cost: Callable[[Exchange], float | None],
    ) -> None:
        self._budgets = budgets
        self._worker = worker
        self._watch = watch
        self._cost = cost
        self._reserved: dict[str, Amounts] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._settled: asyncio.Event | None = None  # by who waits for the next settlement
        self._loop: asyncio.AbstractEventLoop | None = None  # once it watches

    async def make(self, reservation: Reservation) -> LimitReached | None:
        """Reserve what a call may spend, or return the limit that is in its way."""
        reserve = self._budgets.reserve
        try:
            answer = await asyncio.to_thread(
                reserve, reservation, worker=self._worker, now=epoch_s()
            )
        except StoreError as error:
            log.warning("a call's budget cannot be looked up: %s", error.kind)
            return None
        if isinstance(answer, LimitReached):
            return answer
        if answer is not None:
            if self._loop is None:  # nothing is watched in a service without limits
                self._loop = asyncio.get_running_loop()
                self._watch(self.ended)
            self._reserved[reservation.id] = answer
        return None

    async def note_refused(self, rollout_id: str, reached: LimitReached) -> None:
        """Store which limit kept a rollout's agent from a call; its verdict depends on it."""
        await self._store(self._budgets.refused, rollout_id, reached)

    def next_settlement(self) -> asyncio.Event:
        """Return what is set when reservations of this process have been settled."""
        if self._settled is None or self._settled.is_set():
            self._settled = asyncio.Event()
        return self._settled

    def release(self, call_id: str) -> None:
        """Give back the reservation of a call that is not sent after all."""
        if self._reserved.pop(call_id, None) is not None:
            self._begin_settling({call_id: Amounts()})

    def ended(self, exchanges: Sequence[Exchange]) -> None:
        """Settle the reservations of calls that are on record now."""
        spent = {
            each.id: spent_by(each, reserved, self._cost)
            for each in exchanges
            if (reserved := self._reserved.pop(each.id, None)) is not None
        }
        if spent and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_settling, spent)

    async def stop(self) -> None:
        """Wait until what has ended is settled, as the process stops."""
        while self._settling:
            await asyncio.wait(self._settling, timeout=_AGAIN_S)
            if any(not task.done() for task in self._settling):
                return

    def _begin_settling(self, spent: Mapping[str, Amounts]) -> None:
        task = asyncio.get_running_loop().create_task(self._settle_all(spent))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_all(self, spent: Mapping[str, Amounts]) -> None:
        if not await self._store(self._budgets.settle, spent):
            await asyncio.sleep(_AGAIN_S)
            self._begin_settling(spent)
            return
        if self._settled is not None:
            self._settled.set()

    async def _store(self, write: Callable[..., None], *values: Any) -> bool:
        try:
            await asyncio.to_thread(write, *values)
        except StoreError as error:
            log.warning("a budget cannot be written: %s", error.kind)
            return False
        return True
