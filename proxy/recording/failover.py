"""Writes to a database that may fail: what it does not take goes to a backlog and is retried."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import replace

from classifier.records import Ending, Exchange
from proxy.recording.backlog import BATCH, Backlog, add_gap
from proxy.recording.pending import PendingWrites
from proxy.recording.ports import SpillStore, Writer
from proxy.store.errors import DatabaseUnavailable, RowRejected, StoreError
from proxy.store.types import CommitBatch, Gap

log = logging.getLogger("truezero.recorder")

RETRY_S = 0.5


class FailoverWriter:
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

    def write(self, writes: PendingWrites) -> None:
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
        """Return whether the whole backlog is written, so that new calls are committed again."""
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
