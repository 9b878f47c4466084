"""Writing of exchanges while the database may fail: queue, retries, backlog and spill file."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol, Self

import orjson

from classifier.codec import CodecError, decode_exchange, encode_exchange
from classifier.declarations import record
from classifier.records import Ending, Exchange
from proxy.store.errors import DatabaseUnavailable, RowRejected, StoreError
from proxy.store.tables import CommitBatch, Gap


class SpillStore(Protocol):
    """Durable storage for exchanges that the database did not take; a kill loses none of them."""

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        """Append exchanges; return False, with nothing written, if that is not possible."""
        ...

    def next(self, most: int) -> list[Exchange]:
        """Return the oldest exchanges not yet taken; the same ones again until ``taken``."""
        ...

    def taken(self) -> None:
        """Mark what ``next`` returned last as written to the database."""
        ...

    def close(self) -> None:
        """Release the storage, and delete it if the database has everything in it."""
        ...


class Writer(Protocol):
    """The part of the database that the recorder needs."""

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        """Commit a batch, or raise DatabaseUnavailable or RowRejected with nothing written."""
        ...


@record
class FlushResult:
    """The calls that one flush of the recorder wrote or kept.

    ``ended`` are the calls that ended. Each is reported once, although a stream that sends bytes
    after its terminal event is written again. ``waited_s`` is, for each of them, the time from
    its end until it was durable; ``took_s`` is the duration of the flush. Both are in seconds.
    """

    ended: Sequence[Exchange]
    waited_s: Sequence[float]
    took_s: float


FlushObserver = Callable[[FlushResult], None]


# --- queue from the event loop to the recorder's thread ----------------------------------------


_DELAY_S = 0.005  # a call shorter than this is written once, when it ends; at most twice that


Durable = Callable[[], None]  # called in the event loop once a write is durable


class QueuedWrites:
    """Exchanges to write, and who waits for each of them to be durable.

    ``ended_at`` is when each call in ``ended`` ended, by ``time.perf_counter``.
    """

    __slots__ = ("ended", "ended_at", "opened", "waiting")

    def __init__(self) -> None:
        self.opened: list[Exchange] = []
        self.ended: list[Exchange] = []
        self.ended_at: list[float] = []
        self.waiting: list[Durable] = []

    def extend(self, later: QueuedWrites) -> None:
        """Append writes that were queued later."""
        self.opened += later.opened
        self.ended += later.ended
        self.ended_at += later.ended_at
        self.waiting += later.waiting

    def exchanges(self) -> list[Exchange]:
        """Return the exchanges, leaving out the opening of each call that ended here too."""
        ended = {exchange.id for exchange in self.ended}
        return [each for each in self.opened if each.id not in ended] + self.ended


# A snapshot of a call that began, who waits for its write, and the round in which it was added.
_Opening = tuple[Callable[[], Exchange], Durable, int]


class DelayedStarts:
    """Openings of calls, held back for milliseconds so that a short call is written only once.

    Arguments:
        write: queues a snapshot of a call in flight, and whom to call once it is durable.
    """

    def __init__(self, write: Callable[[Exchange, Durable], None]) -> None:
        self._write = write
        self._openings: dict[str, _Opening] = {}  # oldest first
        self._round = 0
        self._scheduled = False
        self._loop: AbstractEventLoop  # from `start` on

    def start(self, loop: AbstractEventLoop) -> None:
        """Be timed by a loop."""
        self._loop = loop

    def add(self, exchange_id: str, snapshot: Callable[[], Exchange], then: Durable) -> None:
        """Hold an opening back; ``snapshot`` is called only if it gets written."""
        self._openings[exchange_id] = snapshot, then, self._round
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(_DELAY_S, self.write_older)

    def discard(self, exchange_id: str) -> Durable | None:
        """Drop the opening of a call that ended; return who waits for it if it was held back."""
        opening = self._openings.pop(exchange_id, None)
        return None if opening is None else opening[1]

    def write_older(self) -> None:
        """Write what was added before the last round; schedule the next while any is left."""
        older = [name for name, (_, _, added) in self._openings.items() if added < self._round]
        for name in older:
            self._write_one(self._openings.pop(name))
        self._round += 1
        self._scheduled = bool(self._openings)
        if self._scheduled:
            self._loop.call_later(_DELAY_S, self.write_older)

    def write_all(self) -> None:
        """Write all openings now."""
        openings, self._openings = self._openings, {}
        for opening in openings.values():
            self._write_one(opening)

    def _write_one(self, opening: _Opening) -> None:
        snapshot, then, _ = opening
        self._write(snapshot(), then)


# --- exchanges that the database did not take --------------------------------------------------


_IN_MEMORY = 50_000  # exchanges kept in memory if they cannot be spilled, about 1 kB each
BATCH = 500  # exchanges of the backlog in one commit, so that new calls do not wait long for it


class Backlog:
    """The exchanges that one process still has to write, in order, and counts of lost ones.

    It is active from the first failed commit until all of it is written. All methods may be
    called from the recorder's thread and the retry thread.

    ``gaps``: counts of lost exchanges that are not in the database yet, by rollout; others read it.

    Arguments:
        spill: durable storage for the exchanges; None keeps them in memory.
    """

    def __init__(self, spill: SpillStore | None = None) -> None:
        self.active = False
        self.gaps_counted = 0  # exchanges lost, over the life of the process
        self._spill = spill
        self._lock = threading.Lock()  # guards the fields below, and `active`
        self._spilled = 0
        self._in_memory: deque[Exchange] = deque()  # newer than those in the spill
        self.gaps: dict[str, Gap] = {}
        self._call_counts: Counter[str] = Counter()  # calls kept, by rollout
        self._open_ids: set[str] = set()  # those of them that have not ended

    def __len__(self) -> int:
        return self._spilled + len(self._in_memory)

    def missing(self, rollout_id: str) -> int:
        """Return how many calls of a rollout were served but are not in the database."""
        gap = self.gaps.get(rollout_id)
        return self._call_counts[rollout_id] + (gap.count if gap else 0)

    def activate(self, exchanges: Sequence[Exchange]) -> None:
        """Keep the exchanges of the first commit that failed."""
        with self._lock:
            self.active = True
            self._keep(exchanges)

    def append(self, exchanges: Sequence[Exchange]) -> bool:
        """Keep exchanges behind earlier ones; return False, keeping none, if not active."""
        with self._lock:
            if self.active:
                self._keep(exchanges)
            return self.active

    def next_batch(self) -> CommitBatch | None:
        """Return the oldest exchanges to commit; None if there are none: not active any more."""
        with self._lock:
            group = self._oldest()
            if group or self.gaps:
                return CommitBatch(
                    opened=[exchange for exchange in group if exchange.ending is None],
                    recorded=[exchange for exchange in group if exchange.ending is not None],
                    gaps=dict(self.gaps),
                    late=True,
                )
            self._deactivate()
            return None

    def remove(self, count: int) -> None:
        """Drop the oldest exchanges, which are written; later ones may have come behind them."""
        with self._lock:
            if self._spilled and self._spill is not None:
                self._spill.taken()
                self._spilled -= count
                return
            for _ in range(count):
                self._in_memory.popleft()

    def lose(self, exchanges: Iterable[Exchange]) -> None:
        """Count exchanges that can be neither written nor kept."""
        with self._lock:
            for exchange in exchanges:
                self._lose(exchange)

    def settle(self, written: Mapping[str, Gap]) -> None:
        """Subtract gaps that are written."""
        with self._lock:
            for rollout_id, settled in written.items():
                gap = self.gaps.pop(rollout_id)
                if gap.count > settled.count:
                    self.gaps[rollout_id] = Gap(gap.count - settled.count, gap.since)

    def close(self) -> int:
        """Close the spill file; return how many exchanges are lost with this process's memory."""
        if self._spill is not None:
            self._spill.close()
        return len(self._in_memory)

    # with the lock held

    def _keep(self, exchanges: Sequence[Exchange]) -> None:
        if not exchanges:
            return
        if self._spill is not None and not self._in_memory and self._spill.keep(exchanges):
            self._spilled += len(exchanges)
            for exchange in exchanges:
                self._count(exchange)
            return
        for exchange in exchanges:
            if len(self._in_memory) < _IN_MEMORY:
                self._in_memory.append(exchange)
                self._count(exchange)
            elif exchange.ending is not None:
                self._lose(exchange)

    def _count(self, exchange: Exchange) -> None:
        if exchange.id not in self._open_ids:
            self._call_counts[exchange.rollout_id] += 1
        if exchange.ending is None:
            self._open_ids.add(exchange.id)
        else:
            self._open_ids.discard(exchange.id)

    def _lose(self, exchange: Exchange) -> None:
        add_gap(self.gaps, exchange)
        self.gaps_counted += 1

    def _oldest(self) -> list[Exchange]:
        if self._spilled and self._spill is not None:
            if group := self._spill.next(BATCH):
                return group
            self._spilled = 0
        return list(islice(self._in_memory, BATCH))

    def _deactivate(self) -> None:
        if self._spill is not None:
            self._spill.close()
        self._call_counts.clear()
        self._open_ids.clear()
        self.active = False


def add_gap(gaps: dict[str, Gap], exchange: Exchange) -> None:
    """Count an exchange that cannot be written in the gap of its rollout."""
    gap = gaps.get(exchange.rollout_id, Gap(0, exchange.timing.started_at))
    gaps[exchange.rollout_id] = Gap(gap.count + 1, gap.since)


# --- writing with retries ----------------------------------------------------------------------


log = logging.getLogger("truezero.recorder")

RETRY_S = 0.5


class SpillingWriter:
    """Commits to the database or, while that fails, to a backlog that a thread works off.

    Arguments:
        writer: commits batches; called from one thread at a time.
        worker: this process's name in the table of calls in flight.
        backlog: keeps what the writer does not take.
    """

    def __init__(self, writer: Writer, *, worker: str, backlog: Backlog) -> None:
        self._writer = writer
        self._worker = worker
        self._backlog = backlog
        self._retrying = threading.Thread()  # alive while the backlog is active
        self._stopping = threading.Event()

    def write(self, writes: QueuedWrites) -> None:
        """Commit the writes, or keep them; returns once they are durable or known not to be."""
        backlog = self._backlog
        if backlog.active and backlog.append(writes.exchanges()):
            return
        gaps = dict(backlog.gaps)
        try:
            self._commit(CommitBatch(opened=writes.opened, recorded=writes.ended, gaps=gaps))
        except Exception as error:  # of any kind: if this thread dies, agents wait forever
            log.error("cannot write to the database: %s", _kind(error))
            backlog.activate(writes.exchanges())
            self._retrying = threading.Thread(target=self._retry, name="backlog", daemon=True)
            self._retrying.start()

    def stop(self, timeout_s: float) -> None:
        """Try the backlog a last time; what cannot be written stays in the spill file."""
        self._stopping.set()
        if self._retrying.ident is not None:
            self._retrying.join(timeout_s)

    def _commit(self, batch: CommitBatch) -> None:
        """Commit a batch; a row that no database would take costs only itself.

        Raises:
            DatabaseUnavailable: not all of it was written; it may be committed again.
        """
        try:
            self._writer.write(batch, worker=self._worker)
        except RowRejected:
            self._backlog.lose(_write_singly(self._writer, batch, worker=self._worker))
            return
        if batch.gaps:
            self._backlog.settle(batch.gaps)

    # the retry thread, alive while the database fails

    def _retry(self) -> None:
        while not self._stopping.wait(RETRY_S):
            if self._emptied():
                return
        self._emptied()

    def _emptied(self) -> bool:
        """Return True once the whole backlog is written, so that new calls are committed again."""
        try:
            self._write_backlog()
        except DatabaseUnavailable:
            return False
        except Exception as error:  # no file can be opened, for one
            log.error("cannot write the backlog: %s", _kind(error))
            return False
        log.warning("database recovered, backlog written")
        return True

    def _write_backlog(self) -> None:
        """Write the backlog, oldest first, and what is appended meanwhile.

        Raises:
            DatabaseUnavailable: not all of it was written; it may be written again.
        """
        while (batch := self._backlog.next_batch()) is not None:
            self._commit(batch)
            self._backlog.remove(len(batch.opened) + len(batch.recorded))


def recover(
    writer: Writer, spill: SpillStore, *, worker: str, created_at: float | None = None
) -> int:
    """Write the spill of a dead process; its calls without an end are lost.

    Arguments:
        created_at: when the database was made, in epoch seconds. A rollout with calls from before
            may have had others, which were in the database that this one replaces: a gap.

    Returns:
        The number of exchanges taken from the spill.

    Raises:
        DatabaseUnavailable: the database does not take them now; the spill keeps the rest.
    """
    count = 0
    while group := spill.next(BATCH):
        ended = [each if each.ending else replace(each, ending=Ending.LOST) for each in group]
        batch = CommitBatch(recorded=ended, late=True)
        try:
            writer.write(batch, worker=worker)
        except RowRejected:
            _write_gaps(writer, _write_singly(writer, batch, worker=worker), worker=worker)
        spill.taken()
        count += len(group)
        if created_at is not None:
            older = {each.rollout_id: each for each in group if each.timing.started_at < created_at}
            _write_gaps(writer, list(older.values()), worker=worker)
    return count


def _write_singly(writer: Writer, batch: CommitBatch, *, worker: str) -> list[Exchange]:
    """Commit each exchange on its own; return the ended ones that no database would take."""
    singles = [CommitBatch(opened=[each]) for each in batch.opened]
    singles += [CommitBatch(recorded=[each], late=batch.late) for each in batch.recorded]
    rejected: list[Exchange] = []
    for single in singles:
        try:
            writer.write(single, worker=worker)
        except RowRejected as error:
            log.error("cannot write an exchange: %s", error.kind)
            rejected += single.recorded
    return rejected


def _write_gaps(writer: Writer, lost: list[Exchange], *, worker: str) -> None:
    gaps: dict[str, Gap] = {}
    for exchange in lost:
        add_gap(gaps, exchange)
    for rollout_id, gap in gaps.items():
        with contextlib.suppress(RowRejected):  # it was the rollout's id that was rejected
            writer.write(CommitBatch(gaps={rollout_id: gap}), worker=worker)


def _kind(error: Exception) -> str:
    return error.kind if isinstance(error, StoreError) else type(error).__name__


# --- spill file of one process -----------------------------------------------------------------
# One JSON line per exchange.


LIMIT_BYTES = 1 << 30  # about a million exchanges

_SUFFIX = ".spill"


class SpillFile:
    """Exchanges that wait for the database, oldest first; without any there is no file.

    The file is locked as long as its process lives, so that another process can tell
    which files dead processes left behind.

    Arguments:
        path: of the file.
        limit_bytes: maximum size of the file.
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: int | None = None
        self._size = 0
        self._taken = 0  # offset up to which the database has everything
        self._returned = 0  # offset up to which `next` has returned exchanges

    @classmethod
    def of(cls, place: Path, worker: str) -> Self:
        """Return the spill file of one worker; all paths of a database begin with ``place``."""
        return cls(place.with_name(f"{place.name}.{worker}{_SUFFIX}"))

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        """Append exchanges; return False, with nothing written, if that is not possible."""
        try:
            lines = b"".join(orjson.dumps(encode_exchange(each)) + b"\n" for each in exchanges)
            if self._size + len(lines) > self._limit_bytes:
                return False
            if self._file is None:
                self._file = _new(self._path)
            self._append(self._file, lines)
        except (OSError, orjson.JSONEncodeError):
            return False
        self._size += len(lines)
        return True

    def _append(self, file: int, lines: bytes) -> None:
        try:
            if os.pwrite(file, lines, self._size) == len(lines):
                return
        except OSError:
            os.ftruncate(file, self._size)
            raise
        os.ftruncate(file, self._size)
        raise OSError("short write")

    def next(self, most: int) -> list[Exchange]:
        """Return the oldest exchanges not yet taken; the same ones again until ``taken``."""
        exchanges: list[Exchange] = []
        at = self._taken
        if self._file is None:
            return exchanges
        with os.fdopen(os.dup(self._file), "rb") as lines:
            lines.seek(at)
            while len(exchanges) < most and (line := lines.readline()):
                at += len(line)  # skips a partial line too, left by a process that died writing it
                with contextlib.suppress(orjson.JSONDecodeError, CodecError):
                    exchanges.append(decode_exchange(orjson.loads(line)))
        self._returned = at
        return exchanges

    def taken(self) -> None:
        """Mark what ``next`` returned last as written to the database."""
        self._taken = self._returned

    def close(self) -> None:
        """Close the file, and delete it if the database has everything in it."""
        if self._file is None:
            return
        if self._taken >= self._size:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._file)
        self._file = None
        self._size = self._taken = self._returned = 0

    def _take_over(self) -> bool:
        """Open and lock the file of a dead process; return False if its process is alive."""
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                return False
            self._file = file
            self._size = os.fstat(file).st_size
            return True
        return False


def left_behind(place: Path) -> Iterator[SpillFile]:
    """Yield the spill files of dead processes; the caller reads and closes each."""
    for path in sorted(place.parent.glob(f"{_escaped(place.name)}.*{_SUFFIX}")):
        spill = SpillFile(path)
        if spill._take_over():
            yield spill


def _new(path: Path) -> int:
    """Create a locked empty file; it is renamed last, so that it never appears unlocked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unlocked = path.with_name(path.name + ".new")
    file = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(path)
    except OSError:
        os.close(file)
        raise
    return file


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
