"""Exchanges that the database did not take: kept in a spill file or in memory, else counted."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from classifier.records import Exchange
from proxy.recording.ports import SpillStore
from proxy.store.types import CommitBatch, Gap

_IN_MEMORY = 50_000  # exchanges kept in memory if they cannot be spilled, about 1 kB each
BATCH = 500  # exchanges of the backlog in one commit, so that new calls do not wait long for it


class Backlog:
    """What one process still owes the database: exchanges in order, and counts of lost ones.

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
