"""The recorder: one thread that commits queued calls in groups and wakes those waiting for them.

Recording never fails a call. Exchanges that the database does not take go to the backlog.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from queue import Empty, SimpleQueue

from classifier.records import Exchange
from classifier.verdicts import plural
from proxy.recording.backlog import (
    RETRY_S,
    Backlog,
    DelayedStarts,
    Durable,
    FlushObserver,
    FlushResult,
    QueuedWrites,
    SpillingWriter,
    SpillStore,
    Writer,
)

# --- reports of flushes to observers -----------------------------------------------------------
# A call that ended is reported once.


log = logging.getLogger("truezero.recorder")

_ID = attrgetter("id")
_REMEMBERED = 10_000  # calls reported last; a second write of one follows within seconds


class FlushReports:
    """Reports each flush to all observers."""

    def __init__(self) -> None:
        self._observers: list[FlushObserver] = []
        self._reported: set[str] = set()
        self._reported_before: set[str] = set()  # the previous generation of the set above

    def add_observer(self, observer: FlushObserver) -> None:
        """Call ``observer`` after each flush, in the recorder's thread."""
        self._observers.append(observer)

    def report(self, writes: QueuedWrites, began: float, now: float) -> None:
        """Report one flush; ``began`` and ``now`` are readings of ``time.perf_counter``."""
        ended, ended_at = self._unreported(writes)
        waited_s = [now - at for at in ended_at]
        result = FlushResult(ended=ended, waited_s=waited_s, took_s=now - began)
        for observe in self._observers:
            try:
                observe(result)
            except Exception as error:  # an observer must not stop the recorder
                log.error("flush observer failed: %s", type(error).__name__)

    def _unreported(self, writes: QueuedWrites) -> tuple[Sequence[Exchange], Sequence[float]]:
        """Return the calls whose end was not reported before, and when they ended."""
        ids = {*map(_ID, writes.ended)} - self._reported - self._reported_before
        self._reported |= ids
        if len(self._reported) >= _REMEMBERED:
            self._reported, self._reported_before = set(), self._reported
        if len(ids) == len(writes.ended):
            return writes.ended, writes.ended_at
        ended, ended_at = [], []
        for exchange, at in zip(writes.ended, writes.ended_at, strict=True):
            if exchange.id in ids:
                ids.remove(exchange.id)
                ended.append(exchange)
                ended_at.append(at)
        return ended, ended_at


# --- recorder ----------------------------------------------------------------------------------


_GROUP = 2000  # waiters of one commit at most, so that none of them waits for a long one


class Recorder:
    """Group commits of one process's calls.

    ``opened``, ``recorded`` and ``flush_starts`` are called in the event loop. The thread does the
    rest.

    Arguments:
        writer: commits batches; called from one thread at a time.
        worker: this process's name in the table of calls in flight.
        spill: where to keep what the writer does not take; None keeps it in memory.
    """

    def __init__(self, writer: Writer, *, worker: str, spill: SpillStore | None = None) -> None:
        self._backlog = Backlog(spill)
        self._writer = SpillingWriter(writer, worker=worker, backlog=self._backlog)
        self._reports = FlushReports()
        self._in_flight: set[str] = set()
        self._openings = DelayedStarts(self._write_opening)
        self._pending = QueuedWrites()  # not queued yet
        self._enqueuing: asyncio.Handle | None = None
        self._queue: SimpleQueue[QueuedWrites | None] = SimpleQueue()
        self._queued = self._taken = 0  # exchanges, over the life of the process
        self._loop: asyncio.AbstractEventLoop  # from `start` on
        self._recording = threading.Thread(target=self._run, name="recorder", daemon=True)

    def add_observer(self, observer: FlushObserver) -> None:
        """Call ``observer`` after each flush, in the recorder's thread.

        It delays no call: those that waited for the flush were released before.
        """
        self._reports.add_observer(observer)

    def start(self) -> None:
        """Start the thread; the futures belong to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._openings.start(self._loop)
        self._recording.start()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Write what is queued and stop; what cannot be written stays in the spill."""
        self.flush_starts()
        self._enqueue()
        self._queue.put(None)
        await asyncio.to_thread(self._join, timeout_s)

    def _join(self, timeout_s: float) -> None:
        self._recording.join(timeout_s)
        self._writer.stop(timeout_s)
        if lost := self._backlog.close():
            log.error("could not be written and lost: %s", plural(lost, "exchange"))

    # in the event loop

    def begin_durably(
        self, exchange_id: str, snapshot: Callable[[], Exchange]
    ) -> asyncio.Future[None]:
        """Record a call in flight; the future is done once it is durable, within milliseconds.

        Call ``flush_starts`` before waiting for it. A call that ends earlier is written once,
        whole, and the future is done with that.
        """
        done = self._loop.create_future()
        self.begin(exchange_id, snapshot, partial(_settle, done))
        return done

    def record_durably(self, exchange: Exchange) -> asyncio.Future[None]:
        """Record a finished call; the future is done once it is durable, or kept for later."""
        done = self._loop.create_future()
        settle = partial(_settle, done)
        noted = self._openings.discard(exchange.id)
        self.record(exchange, settle if noted is None else partial(_wake, [noted, settle]))
        return done

    def begin(self, exchange_id: str, snapshot: Callable[[], Exchange], then: Durable) -> None:
        """Do as `begin_durably` does, and call ``then`` instead of returning a future.

        It is not called if the call ends earlier.
        """
        self._in_flight.add(exchange_id)
        self._openings.add(exchange_id, snapshot, then)

    def record(self, exchange: Exchange, then: Durable) -> None:
        """Do as `record_durably` does, and call ``then`` instead of returning a future."""
        self._in_flight.discard(exchange.id)
        self._openings.discard(exchange.id)
        pending = self._pending
        pending.ended.append(exchange)
        pending.ended_at.append(time.perf_counter())
        pending.waiting.append(then)
        if self._enqueuing is None:
            self._enqueuing = self._loop.call_soon(self._enqueue)

    def flush_starts(self) -> None:
        """Write the starts of calls now that would be written in a few milliseconds."""
        self._openings.write_all()

    def _write_opening(self, exchange: Exchange, then: Durable) -> None:
        self._pending.opened.append(exchange)
        self._pending.waiting.append(then)
        if self._enqueuing is None:
            self._enqueuing = self._loop.call_soon(self._enqueue)

    def _enqueue(self) -> None:
        """Queue what this iteration of the loop brought: waking the thread costs the most."""
        self._enqueuing = None
        writes, self._pending = self._pending, QueuedWrites()
        if writes.waiting:
            self._queued += len(writes.waiting)
            self._queue.put(writes)

    # for verdicts and metrics

    def missing(self, rollout_id: str) -> int:
        """Return how many calls of a rollout were served but are not in the database."""
        return self._backlog.missing(rollout_id)

    @property
    def failing(self) -> bool:
        """True if the database refuses writes at the moment."""
        return self._backlog.active

    @property
    def gaps_counted(self) -> int:
        """Calls that were served and could not be recorded, over the life of the process."""
        return self._backlog.gaps_counted

    @property
    def in_flight(self) -> int:
        """Calls that have begun and not ended."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """Exchanges that are queued or in the backlog."""
        return self._queued - self._taken + len(self._pending.waiting) + len(self._backlog)

    # in the thread

    def _run(self) -> None:
        stopping = False
        while not stopping:
            writes, stopping = self._take()
            began = time.perf_counter()
            if writes.waiting:
                self._writer.write(writes)
                self._release(writes)
                self._reports.report(writes, began, time.perf_counter())
            elif self._backlog.gaps:
                self._writer.write(writes)

    def _take(self) -> tuple[QueuedWrites, bool]:
        """Wait for writes and return all that are queued, and whether to stop after them.

        While gaps are to be written, nothing may be returned: time to try them again.
        """
        queue = self._queue
        try:
            writes = queue.get(timeout=RETRY_S if self._backlog.gaps else None)
        except Empty:
            return QueuedWrites(), False
        stopping = writes is None
        writes = writes or QueuedWrites()
        while not (stopping or queue.empty() or len(writes.waiting) >= _GROUP):
            more = queue.get()  # it is there: nobody else takes from this queue
            if more is None:
                stopping = True
            else:
                writes.extend(more)
        self._taken += len(writes.waiting)
        return writes, stopping

    def _release(self, writes: QueuedWrites) -> None:
        """Call who waited; nothing of their calls, such as a request's body, is held on to here."""
        waiting, writes.waiting = writes.waiting, []
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_wake, waiting)


def _wake(waiting: list[Durable]) -> None:
    for then in waiting:
        then()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
