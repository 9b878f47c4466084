"""Reports of flushes to observers: each call that ended is reported once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from operator import attrgetter

from classifier.records import Exchange
from proxy.recording.pending import PendingWrites
from proxy.recording.ports import FlushObserver, FlushResult

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

    def report(self, writes: PendingWrites, began: float, now: float) -> None:
        """Report one flush; ``began`` and ``now`` are readings of ``time.perf_counter``."""
        if not self._observers:
            return
        ended, ended_at = self._unreported(writes)
        waited_s = [now - at for at in ended_at]
        result = FlushResult(ended=ended, waited_s=waited_s, took_s=now - began)
        for observe in self._observers:
            try:
                observe(result)
            except Exception as error:  # an observer must not stop the recorder
                log.error("flush observer failed: %s", type(error).__name__)

    def _unreported(self, writes: PendingWrites) -> tuple[Sequence[Exchange], Sequence[float]]:
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
