"""Exchanges on their way from the event loop to the recorder's thread."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

from classifier.records import Exchange

_DELAY_S = 0.005  # a call shorter than this is written once, when it ends; at most twice that


Durable = Callable[[], None]  # called in the event loop once a write is durable


class PendingWrites:
    """Exchanges to write, and who waits for each of them to be durable.

    ``ended_at`` is when each call in ``ended`` ended, by ``time.perf_counter``.
    """

    __slots__ = ("ended", "ended_at", "opened", "waiting")

    def __init__(self) -> None:
        self.opened: list[Exchange] = []
        self.ended: list[Exchange] = []
        self.ended_at: list[float] = []
        self.waiting: list[Durable] = []

    def extend(self, later: PendingWrites) -> None:
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


class DelayedOpenings:
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
