"""Writes finished calls in groups: one thread commits what is queued, wakes the waiters, repeats.

It never fails a call: what cannot be written is kept for later, and counted where it cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from classifier.records import Exchange
from proxy.store.database import AwayError, BadRowError, Batch, Gap

log = logging.getLogger("truezero.recorder")

_GROUP = 2000  # items one commit takes at most, so that no waiter stands behind a long one
_BACKLOG = 50_000  # exchanges kept in memory while the database is away, about 1 kB each
_RETRY_S = 0.5
_REMEMBERED = 10_000  # calls whose end was told; a second one comes within seconds


class Writer(Protocol):
    """The part of the database that the recorder needs."""

    def write(self, batch: Batch, *, worker: str) -> None:
        """Commit, or raise AwayError or BadRowError with nothing written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn of the recorder did, for those who watch.

    ``ended`` are the calls that ended, each told once, although more bytes after a stream's
    terminal event have it written again. ``waited_s`` is how long each of them was held until
    it was durable, ``took_s`` the turn itself, in seconds.
    """

    ended: Sequence[Exchange]
    waited_s: Sequence[float]
    took_s: float


Observer = Callable[[Turn], None]


@dataclass(slots=True)
class _Item:
    exchange: Exchange
    ended: bool
    done: asyncio.Future[None]
    put_at: float


class Recorder:
    """The ledger of one process.

    Arguments:
        writer: where batches go; called from the recorder's own thread only.
        worker: this process's name in the table of calls in flight.
    """

    def __init__(self, writer: Writer, *, worker: str) -> None:
        self._writer = writer
        self._worker = worker
        self._observers: list[Observer] = []
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backlog: deque[Exchange] = deque()
        self._gaps: dict[str, Gap] = {}  # not yet in the database
        self._owed: Counter[str] = Counter()  # rollouts with evidence in the backlog
        self._open: set[str] = set()
        self._told: set[str] = set()
        self._told_before: set[str] = set()
        self.gaps_counted = 0  # over the life of the process
        self.failing = False  # whether the database refuses writes at the moment

    def tell(self, observer: Observer) -> None:
        """Have an observer told of every turn, in the recorder's own thread.

        It holds nobody up: those who waited for a turn were released before.
        """
        self._observers.append(observer)

    def start(self) -> None:
        """Begin to write; the futures belong to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Write what is queued, then end."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, timeout_s)

    # the ledger, as the relay sees it

    def opened(self, exchange: Exchange) -> asyncio.Future[None]:
        """Note a call in flight; done once it is durable."""
        self._open.add(exchange.id)
        return self._put(exchange, ended=False)

    def recorded(self, exchange: Exchange) -> asyncio.Future[None]:
        """Write a finished call; done once it is durable, or known not to be for now."""
        self._open.discard(exchange.id)
        return self._put(exchange, ended=True)

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
        return self._queue.qsize() + len(self._backlog)

    def _put(self, exchange: Exchange, *, ended: bool) -> asyncio.Future[None]:
        assert self._loop is not None, "the recorder has not been started"
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(_Item(exchange, ended, done, time.perf_counter()))
        return done

    # the recorder's own thread

    def _run(self) -> None:
        stopping = False
        while not stopping:
            items, stopping = self._take()
            began = time.perf_counter()
            if self.failing:
                # Kept first, then released: a verdict asked for now must know it is missing.
                self._keep([item.exchange for item in items if item.ended])
                self._release(items)
                self._write_kept()
            else:
                self._commit(items)
                self._release(items)
            if items and self._observers:
                self._tell(items, began, time.perf_counter())

    def _take(self) -> tuple[list[_Item], bool]:
        """What is queued, waiting for the first; an empty list is time to try again."""
        items: list[_Item] = []
        unwritten = self.failing or bool(self._gaps)
        try:
            item = self._queue.get(timeout=_RETRY_S if unwritten else None)
            while item is not None:
                items.append(item)
                if len(items) >= _GROUP:
                    return items, False
                item = self._queue.get_nowait()
        except Empty:
            return items, False
        return items, True

    def _commit(self, items: list[_Item]) -> None:
        batch = Batch(
            opened=[item.exchange for item in items if not item.ended],
            recorded=[item.exchange for item in items if item.ended],
            gaps=dict(self._gaps),
        )
        try:
            self._writer.write(batch, worker=self._worker)
            self._gaps.clear()
        except AwayError as error:
            log.error("the database cannot be written: %s", type(error).__name__)
            self._keep(batch.recorded)
            self.failing = True
        except BadRowError:
            self._singly(batch)

    def _write_kept(self) -> None:
        kept = Batch(recorded=list(self._backlog), gaps=dict(self._gaps))
        try:
            self._writer.write(kept, worker=self._worker)
            self._gaps.clear()
        except AwayError:
            return
        except BadRowError:
            self._singly(kept)
        for exchange in kept.recorded:
            self._backlog.popleft()
            self._owed[exchange.rollout_id] -= 1
        self._owed += Counter()  # drops what came to zero
        self.failing = False
        log.warning("the database is back: what was kept is written")

    def _singly(self, batch: Batch) -> None:
        """Write one by one, so that a row no database would take costs only itself."""
        for opened in batch.opened:
            with contextlib.suppress(*BadRowError):
                self._writer.write(Batch(opened=[opened]), worker=self._worker)
        for recorded in batch.recorded:
            try:
                self._writer.write(Batch(recorded=[recorded]), worker=self._worker)
            except AwayError:
                self._keep([recorded])
                self.failing = True
            except BadRowError as error:
                log.error("an exchange cannot be written: %s", type(error).__name__)
                self._lose(recorded)

    def _keep(self, exchanges: Sequence[Exchange]) -> None:
        for exchange in exchanges:
            if len(self._backlog) < _BACKLOG:
                self._backlog.append(exchange)
                self._owed[exchange.rollout_id] += 1
            else:
                self._lose(exchange)

    def _lose(self, exchange: Exchange) -> None:
        gap = self._gaps.get(exchange.rollout_id, Gap(0, exchange.timing.started_at))
        self._gaps[exchange.rollout_id] = Gap(gap.count + 1, gap.since)
        self.gaps_counted += 1

    def _tell(self, items: list[_Item], began: float, now: float) -> None:
        ended = [item for item in items if item.ended and self._is_news(item.exchange.id)]
        turn = Turn(
            ended=[item.exchange for item in ended],
            waited_s=[now - item.put_at for item in ended],
            took_s=now - began,
        )
        for observe in self._observers:
            try:
                observe(turn)
            except Exception as error:  # watching never hurts writing
                log.error("what happened cannot be told: %s", type(error).__name__)

    def _is_news(self, exchange_id: str) -> bool:
        if exchange_id in self._told or exchange_id in self._told_before:
            return False
        self._told.add(exchange_id)
        if len(self._told) >= _REMEMBERED:
            self._told, self._told_before = set(), self._told
        return True

    def _release(self, items: list[_Item]) -> None:
        if items and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_wake, [item.done for item in items])


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
