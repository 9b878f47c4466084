"""Writes finished calls in groups: one thread commits what is queued, wakes the waiters, repeats.

It never fails a call: what cannot be written now is kept, in a file where there is one, and a
second thread writes it when the database is back; what cannot be kept either is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Protocol

from classifier.records import Ending, Exchange
from proxy.store.errors import DatabaseUnavailable, RowRejected
from proxy.store.types import CommitBatch, Gap

log = logging.getLogger("truezero.recorder")

_NOTED_S = 0.005  # a call that takes less is written once, when it ends; twice that at most
_GROUP = 2000  # items one commit takes at most, so that no waiter stands behind a long one
_BACKLOG = 50_000  # exchanges kept in memory where they cannot be spilled, about 1 kB each
_MENDED = 500  # kept exchanges that one commit takes, so that calls ending now wait for little
_RETRY_S = 0.5
_REMEMBERED = 10_000  # calls whose end was told; a second one comes within seconds


class SpillStore(Protocol):
    """Where exchanges are kept that the database does not take, so that a kill loses none."""

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        """Write them down; False, and nothing written, where that is not possible."""
        ...

    def next(self, most: int) -> list[Exchange]:
        """The oldest that the database lacks; the same again until ``taken``."""
        ...

    def taken(self) -> None:
        """The database has what ``next`` gave."""
        ...

    def close(self) -> None:
        """Let go of it, and remove it where the database has all of it."""
        ...


class Writer(Protocol):
    """The part of the database that the recorder needs."""

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        """Commit, or raise DatabaseUnavailable or RowRejected with nothing written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushResult:
    """What one turn of the recorder did, for those who watch.

    ``ended`` are the calls that ended, each told once, although more bytes after a stream's
    terminal event have it written again. ``waited_s`` is how long each of them was held until
    it was durable, ``took_s`` the turn itself, in seconds.
    """

    ended: Sequence[Exchange]
    waited_s: Sequence[float]
    took_s: float


FlushObserver = Callable[[FlushResult], None]


@dataclass(slots=True)
class _PendingWrites:
    """What the loop hands to the thread: exchanges, and whom each of them keeps waiting.

    ``put_at`` is when those that ended came.
    """

    opened: list[Exchange] = field(default_factory=list)
    ended: list[Exchange] = field(default_factory=list)
    put_at: list[float] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def take(self, more: _PendingWrites) -> None:
        """Add what came later."""
        self.opened += more.opened
        self.ended += more.ended
        self.put_at += more.put_at
        self.waiting += more.waiting

    def lasting(self) -> list[Exchange]:
        """The exchanges, without the beginnings of those that ended here too."""
        ended = {exchange.id for exchange in self.ended}
        return [each for each in self.opened if each.id not in ended] + self.ended


# How to tell of a call that began, who waits for that, and behind how many looks it was noted.
_OpenCalls = tuple[Callable[[], Exchange], asyncio.Future[None], int]


class Recorder:
    """The ledger of one process.

    Arguments:
        writer: where batches go; called from one thread at a time.
        worker: this process's name in the table of calls in flight.
        spill: where to keep what the writer does not take; None keeps it in memory.
    """

    def __init__(self, writer: Writer, *, worker: str, spill: SpillStore | None = None) -> None:
        self._writer = writer
        self._worker = worker
        self._spill = spill
        self._observers: list[FlushObserver] = []
        self._queue: SimpleQueue[_PendingWrites | None] = SimpleQueue()
        self._fresh = _PendingWrites()  # not handed to the thread yet
        self._noted: dict[str, _OpenCalls] = {}  # calls that began just now, oldest first
        self._look = 0  # how often they were looked through
        self._looking = False  # whether they will be
        self._handing: asyncio.Handle | None = None
        self._handed = self._taken = 0  # exchanges, over the life of the process
        self._writing = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._loop: asyncio.AbstractEventLoop  # from `start` on
        self._backlog_thread = threading.Thread()  # writes what was kept, while the database fails
        self._stopping = threading.Event()
        self._kept = threading.Lock()  # over the fields below, which both threads change
        self._spilled = 0  # exchanges in the spill
        self._backlog: deque[Exchange] = deque()  # exchanges kept behind those in the spill
        self._gaps: dict[str, Gap] = {}  # not yet in the database
        self._owed: Counter[str] = Counter()  # by rollout, calls that are kept
        self._owed_open: set[str] = set()  # those of them that have not ended
        self._open: set[str] = set()
        self._told: set[str] = set()
        self._told_before: set[str] = set()
        self.gaps_counted = 0  # over the life of the process
        self.failing = False  # whether the database refuses writes at the moment

    def tell(self, observer: FlushObserver) -> None:
        """Have an observer told of every turn, in the recorder's own thread.

        It holds nobody up: those who waited for a turn were released before.
        """
        self._observers.append(observer)

    def start(self) -> None:
        """Begin to write; the futures belong to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._writing.start()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Write what is queued, then end; what cannot be written stays in the spill."""
        self.hurry()
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._join, timeout_s)

    def _join(self, timeout_s: float) -> None:
        self._writing.join(timeout_s)
        self._stopping.set()
        if self._backlog_thread.ident is not None:
            self._backlog_thread.join(timeout_s)
        if self._backlog:
            log.error("%d exchanges could not be written and are gone", len(self._backlog))
        if self._spill is not None:
            self._spill.close()

    # the ledger, as the relay sees it

    def opened(self, exchange_id: str, snapshot: Callable[[], Exchange]) -> asyncio.Future[None]:
        """Note a call in flight; done once it is durable, within milliseconds.

        Whoever waits for that says `hurry`. A call that ends before is written once, whole.
        """
        self._open.add(exchange_id)
        done = self._loop.create_future()
        self._noted[exchange_id] = snapshot, done, self._look
        if not self._looking:
            self._looking = True
            self._loop.call_later(_NOTED_S, self._look_through)
        return done

    def _look_through(self) -> None:
        """Have written what was noted before the last look; look again while anything is noted."""
        old = [name for name, (_, _, look) in self._noted.items() if look < self._look]
        self._write_down([self._noted.pop(name) for name in old])
        self._look += 1
        self._looking = bool(self._noted)
        if self._looking:
            self._loop.call_later(_NOTED_S, self._look_through)

    def hurry(self) -> None:
        """Have what was only noted written now."""
        noted, self._noted = self._noted, {}
        self._write_down(noted.values())

    def _write_down(self, noted: Collection[_OpenCalls]) -> None:
        for snapshot, done, _ in noted:
            self._fresh.opened.append(snapshot())
            self._fresh.waiting.append(done)
        if noted:
            self._hand_over_soon()

    def recorded(self, exchange: Exchange) -> asyncio.Future[None]:
        """Write a finished call; done once it is durable, or known not to be for now."""
        self._open.discard(exchange.id)
        noted = self._noted.pop(exchange.id, None)
        done = self._loop.create_future() if noted is None else noted[1]
        fresh = self._fresh
        fresh.ended.append(exchange)
        fresh.put_at.append(time.perf_counter())
        fresh.waiting.append(done)
        if self._handing is None:
            self._hand_over_soon()
        return done

    def missing(self, rollout_id: str) -> int:
        """How many of a rollout's calls were served but are not in the database."""
        gap = self._gaps.get(rollout_id)
        return self._owed[rollout_id] + (gap.count if gap else 0)

    @property
    def in_flight(self) -> int:
        """Calls that were noted and have not ended."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Exchanges that are queued or kept for later."""
        queued = self._handed - self._taken + len(self._fresh.waiting)
        return queued + self._spilled + len(self._backlog)

    def _hand_over_soon(self) -> None:
        """Hand over once the loop has seen to all that came with it.

        One thread woken for all of it is the half of what recording costs.
        """
        if self._handing is None:
            self._handing = self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing = None
        load, self._fresh = self._fresh, _PendingWrites()
        if load.waiting:
            self._handed += len(load.waiting)
            self._queue.put(load)

    # the recorder's own thread

    def _run(self) -> None:
        stopping = False
        while not stopping:
            load, stopping = self._take()
            began = time.perf_counter()
            if (load.waiting or self._gaps) and not self._kept_instead(load):
                self._commit(load)
            self._release(load)
            if load.waiting and self._observers:
                self._tell(load, began, time.perf_counter())

    def _kept_instead(self, load: _PendingWrites) -> bool:
        """While the database fails: kept first, released then, so that a verdict knows."""
        with self._kept:
            if self.failing:
                self._keep(load.lasting())
            return self.failing

    def _take(self) -> tuple[_PendingWrites, bool]:
        """What is queued, waiting for the first; an empty one is time to try again."""
        load = _PendingWrites()
        try:
            more = self._queue.get(timeout=_RETRY_S if self._gaps else None)
            while more is not None:
                load.take(more)
                self._taken += len(more.waiting)
                if len(load.waiting) >= _GROUP:
                    return load, False
                more = self._queue.get_nowait()
        except Empty:
            return load, False
        return load, True

    def _commit(self, load: _PendingWrites) -> None:
        try:
            self._write(CommitBatch(opened=load.opened, recorded=load.ended, gaps=dict(self._gaps)))
        except Exception as error:  # whatever it is: without this thread agents wait for ever
            log.error("the database cannot be written: %s", type(error).__name__)
            with self._kept:
                self.failing = True
                self._keep(load.lasting())
            self._backlog_thread = threading.Thread(target=self._mend, name="mender", daemon=True)
            self._backlog_thread.start()

    def _write(self, batch: CommitBatch) -> None:
        """Commit a batch, a row that no database would take costing only itself.

        Raises:
            DatabaseUnavailable: not all of it was written; doing so again does no harm.
        """
        try:
            self._writer.write(batch, worker=self._worker)
        except RowRejected:
            self._write_singly(batch)
            return
        with self._kept:
            for rollout_id, written in batch.gaps.items():
                gap = self._gaps.pop(rollout_id)
                if gap.count > written.count:
                    self._gaps[rollout_id] = Gap(gap.count - written.count, gap.since)

    def _write_singly(self, batch: CommitBatch) -> None:
        for opened in batch.opened:
            with contextlib.suppress(RowRejected):
                self._writer.write(CommitBatch(opened=[opened]), worker=self._worker)
        for recorded in batch.recorded:
            try:
                self._writer.write(CommitBatch(recorded=[recorded]), worker=self._worker)
            except RowRejected as error:
                log.error("an exchange cannot be written: %s", type(error).__name__)
                with self._kept:
                    self._lose(recorded)

    def _keep(self, exchanges: Sequence[Exchange]) -> None:
        if not exchanges:
            return
        if self._spill is not None and not self._backlog and self._spill.keep(exchanges):
            self._spilled += len(exchanges)
            for exchange in exchanges:
                self._owe(exchange)
            return
        for exchange in exchanges:
            if len(self._backlog) < _BACKLOG:
                self._backlog.append(exchange)
                self._owe(exchange)
            elif exchange.ending is not None:
                self._lose(exchange)

    def _owe(self, exchange: Exchange) -> None:
        if exchange.id not in self._owed_open:
            self._owed[exchange.rollout_id] += 1
        if exchange.ending is None:
            self._owed_open.add(exchange.id)
        else:
            self._owed_open.discard(exchange.id)

    def _lose(self, exchange: Exchange) -> None:
        gap = self._gaps.get(exchange.rollout_id, Gap(0, exchange.timing.started_at))
        self._gaps[exchange.rollout_id] = Gap(gap.count + 1, gap.since)
        self.gaps_counted += 1

    # the mender's thread, alive while the database fails

    def _mend(self) -> None:
        while not self._stopping.wait(_RETRY_S):
            if self._mended():
                return
        self._mended()

    def _mended(self) -> bool:
        """Whether what was kept is written, so that the recorder writes again."""
        try:
            self._write_kept()
        except Exception as error:  # no file can be opened, for one
            if not isinstance(error, DatabaseUnavailable):
                log.error("what was kept cannot be written: %s", type(error).__name__)
            return False
        return True

    def _write_kept(self) -> None:
        """Write what was kept, oldest first, and then what ends from now on.

        Raises:
            DatabaseUnavailable: not all of it was written; doing so again does no harm.
        """
        while True:
            with self._kept:
                group = self._next_kept()
                if not group and not self._gaps:
                    self._well_again()
                    return
                batch = _batch(group, self._gaps)
            self._write(batch)
            with self._kept:
                self._forget(len(group))

    def _next_kept(self) -> list[Exchange]:
        if self._spilled and self._spill is not None:
            if group := self._spill.next(_MENDED):
                return group
            self._spilled = 0
        return list(islice(self._backlog, _MENDED))

    def _forget(self, count: int) -> None:
        """Let go of what is written; what was kept meanwhile stands behind it."""
        if self._spilled and self._spill is not None:
            self._spill.taken()
            self._spilled -= count
            return
        for _ in range(count):
            self._backlog.popleft()

    def _well_again(self) -> None:
        if self._spill is not None:
            self._spill.close()
        self._owed.clear()
        self._owed_open.clear()
        self.failing = False
        log.warning("the database is back: what was kept is written")

    # those who watch and those who wait

    def _tell(self, load: _PendingWrites, began: float, now: float) -> None:
        ended, put_at = self._news(load)
        turn = FlushResult(
            ended=ended,
            waited_s=[now - at for at in put_at],
            took_s=now - began,
        )
        for observe in self._observers:
            try:
                observe(turn)
            except Exception as error:  # watching never hurts writing
                log.error("what happened cannot be told: %s", type(error).__name__)

    def _news(self, load: _PendingWrites) -> tuple[Sequence[Exchange], Sequence[float]]:
        """The calls whose end was not told before, and when they came."""
        news = {exchange.id for exchange in load.ended} - self._told - self._told_before
        self._told |= news
        if len(self._told) >= _REMEMBERED:
            self._told, self._told_before = set(), self._told
        if len(news) == len(load.ended):
            return load.ended, load.put_at
        ended, put_at = [], []
        for exchange, at in zip(load.ended, load.put_at, strict=True):
            if exchange.id in news:
                news.remove(exchange.id)
                ended.append(exchange)
                put_at.append(at)
        return ended, put_at

    def _release(self, load: _PendingWrites) -> None:
        if load.waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_wake, load.waiting)


def recover(writer: Writer, spill: SpillStore, *, worker: str) -> int:
    """Write what a dead process left in its spill; its calls without an end are lost.

    Returns:
        How many lines were taken over.

    Raises:
        DatabaseUnavailable: the database does not take them now; the spill keeps the rest.
    """
    count = 0
    while group := spill.next(_MENDED):
        ended = [each if each.ending else replace(each, ending=Ending.LOST) for each in group]
        try:
            writer.write(CommitBatch(recorded=ended), worker=worker)
        except RowRejected:
            for each in ended:
                with contextlib.suppress(RowRejected):
                    writer.write(CommitBatch(recorded=[each]), worker=worker)
        spill.taken()
        count += len(group)
    return count


def _batch(exchanges: Sequence[Exchange], gaps: Mapping[str, Gap]) -> CommitBatch:
    return CommitBatch(
        opened=[exchange for exchange in exchanges if exchange.ending is None],
        recorded=[exchange for exchange in exchanges if exchange.ending is not None],
        gaps=dict(gaps),
    )


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
