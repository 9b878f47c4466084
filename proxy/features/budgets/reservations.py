"""Reservations of one process's calls: made before a call is sent, settled once it is on record.

The database keeps limits for all processes. While it is away, agents are let through.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from classifier.records import Exchange, LimitReached
from proxy.clock import epoch_s
from proxy.features.budgets.amounts import (
    Amounts,
    BudgetKey,
    InTheWay,
    Made,
    Reservation,
    spent_by,
)
from proxy.features.budgets.store import Budgets
from proxy.store.errors import StoreError

log = logging.getLogger("truezero")

_AGAIN_S = 1.0  # until the database is tried again that did not take what calls spent
_LOOK_S = 0.5  # how often the first in line looks for what other processes settled


class Reservations:
    """Makes and settles the reservations of this process's calls.

    All methods but `ended` are called in the event loop.

    Arguments:
        worker: the process's name in the table of workers.
        watch: has `ended` called with the calls on record from then on, in any thread.
        cost: the price of a call that ended, in US dollars; None if unknown.
        provoked: returns which failed calls are their agent's own doing, by id; raises StoreError.
    """

    def __init__(
        self,
        budgets: Budgets,
        *,
        worker: str,
        watch: Callable[[Callable[[Sequence[Exchange]], None]], None],
        cost: Callable[[Exchange], float | None],
        provoked: Callable[[Sequence[Exchange]], frozenset[str]],
    ) -> None:
        self._budgets = budgets
        self._worker = worker
        self._watch = watch
        self._cost = cost
        self._provoked = provoked
        self._made: dict[str, Made] = {}  # by call
        self._settling: set[asyncio.Task[None]] = set()
        self._lines = Lines()
        self.settlements = 0  # so far
        self._loop: asyncio.AbstractEventLoop | None = None  # once it watches

    async def make(self, reservation: Reservation) -> InTheWay | None:
        """Reserve what a call may spend, or return what is in its way."""
        reserve = self._budgets.reserve
        try:
            answer = await asyncio.to_thread(
                reserve, reservation, worker=self._worker, now=epoch_s()
            )
        except StoreError as error:
            log.warning("a call's budget cannot be looked up: %s", error.kind)
            self._lines.leave(reservation.id)
            return None
        if isinstance(answer, InTheWay):
            return answer
        if answer is not None:
            if self._loop is None:  # nothing is watched in a service without limits
                self._loop = asyncio.get_running_loop()
                self._watch(self.ended)
            self._made[reservation.id] = answer
            self._lines.leave(reservation.id)
        return None

    async def wait(
        self,
        reservation: Reservation,
        way: InTheWay,
        left: asyncio.Event,
        timeout_s: float,
        *,
        seen: int,
    ) -> None:
        """Wait until a call is to try again: it is first in line, and something was settled.

        Arguments:
            seen: the `settlements` before it last tried.
        """
        waiter = self._lines.join(way.budget, reservation)
        if self._lines.is_first(waiter):
            timeout_s = min(timeout_s, _LOOK_S)
            if self.settlements != seen:
                return
        await _first_of(waiter.woken, left, timeout_s)
        waiter.woken.clear()

    def leave_line(self, reservation: Reservation) -> None:
        """Let the next call in line try."""
        self._lines.leave(reservation.id)

    async def end_wait(self, reservation: Reservation) -> None:
        """Leave the line without a reservation, in the database too."""
        self.leave_line(reservation)
        await self._store(self._budgets.end_wait, reservation.id)

    async def note_refused(self, rollout_id: str, reached: LimitReached) -> None:
        """Store which limit kept a rollout's agent from a call; its verdict depends on it."""
        await self._store(self._budgets.refused, rollout_id, reached)

    def release(self, call_id: str) -> None:
        """Give back the reservation of a call that is not sent after all."""
        if (made := self._made.pop(call_id, None)) is not None:
            self._begin(self._settle_all({call_id: Amounts()}, made.budgets))

    def ended(self, exchanges: Sequence[Exchange]) -> None:
        """Settle the reservations of calls that are on record now."""
        theirs = [(each, made) for each in exchanges if (made := self._made.pop(each.id, None))]
        if theirs and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._begin(self._settle_ended(theirs)))

    async def _settle_ended(self, theirs: Sequence[tuple[Exchange, Made]]) -> None:
        provoked = frozenset[str]()
        if failed := [each for each, _ in theirs if each.cause is not None]:
            try:
                provoked = await asyncio.to_thread(self._provoked, failed)
            except StoreError as error:
                log.warning("failed calls are counted as the provider's: %s", error.kind)
        spent = {
            each.id: spent_by(each, made.amounts, self._cost, provoked=each.id in provoked)
            for each, made in theirs
        }
        await self._settle_all(spent, {key for _, made in theirs for key in made.budgets})

    async def stop(self) -> None:
        """Wait until what has ended is settled, as the process stops."""
        while self._settling:
            await asyncio.wait(self._settling, timeout=_AGAIN_S)
            if any(not task.done() for task in self._settling):
                return

    def _begin(self, settling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(settling)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_all(
        self, spent: Mapping[str, Amounts], budgets: Collection[BudgetKey]
    ) -> None:
        if await self._store(self._budgets.settle, spent):
            self.settlements += 1
            self._lines.wake(budgets)
        else:
            await asyncio.sleep(_AGAIN_S)
            self._begin(self._settle_all(spent, budgets))

    async def _store(self, write: Callable[..., None], *values: Any) -> bool:
        try:
            await asyncio.to_thread(write, *values)
        except StoreError as error:
            log.warning("a budget cannot be written: %s", error.kind)
            return False
        return True


@dataclass(eq=False, slots=True)
class Waiter:
    """A call in line; ``woken`` is set when it is to try again."""

    since: float
    id: str
    budget: BudgetKey
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def place(self) -> tuple[float, str]:
        """The order in which the database admits calls."""
        return self.since, self.id


class Lines:
    """The calls of one process that wait for reservations: a line for each budget, oldest first.

    Only the first of a line tries: the others would fail, and many of them cost.
    """

    def __init__(self) -> None:
        self._lines: dict[BudgetKey, list[Waiter]] = {}
        self._waiters: dict[str, Waiter] = {}

    def join(self, budget: BudgetKey, call: Reservation) -> Waiter:
        """Return a call's place in the line for a budget; it leaves any other line."""
        waiter = self._waiters.get(call.id)
        if waiter is not None and waiter.budget == budget:
            return waiter
        self.leave(call.id)
        waiter = self._waiters[call.id] = Waiter(call.since, call.id, budget)
        insort(self._lines.setdefault(budget, []), waiter, key=lambda each: each.place)
        return waiter

    def is_first(self, waiter: Waiter) -> bool:
        """Return True if a call is the first of its line."""
        return self._lines[waiter.budget][0] is waiter

    def leave(self, call_id: str) -> None:
        """Take a call out of its line; the next one tries at once if it is the first now."""
        waiter = self._waiters.pop(call_id, None)
        if waiter is None:
            return
        line = self._lines[waiter.budget]
        line.remove(waiter)
        if line:
            line[0].woken.set()
        else:
            del self._lines[waiter.budget]

    def wake(self, budgets: Iterable[BudgetKey]) -> None:
        """Have the first call in line for each of these try again."""
        for budget in budgets:
            if budget in self._lines:
                self._lines[budget][0].woken.set()


async def _first_of(woken: asyncio.Event, left: asyncio.Event, timeout_s: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (woken, left)]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
