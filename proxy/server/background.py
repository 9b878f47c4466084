"""Background work of a process: closing of rollouts, heartbeat, checkpoints, memory."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from classifier.verdicts import plural
from proxy.recording.backlog import left_behind, recover
from proxy.relay.admission import Access, RolloutRule
from proxy.relay.context import LiveCalls
from proxy.store.closings import Closings, ClosingState
from proxy.store.database import Database
from proxy.store.errors import StoreError

log = logging.getLogger("truezero")

# Set by the first signal; ends streams that would never end by themselves.
LEAVING = threading.Event()

_AMONG_OTHERS_S = 0.2  # how often ended rollouts are looked for: somebody's answer waits for it
_ALONE_S = 1.0  # where nobody does
_WRITTEN_S = 0.2  # how often calls that were not written yet are looked for
_WRITTEN_WITHIN_S = 10.0  # a database that was busy for a moment has taken them long before


class EndedRollouts:
    """Follows the table `closings` in one process.

    Arguments:
        worker: the process's name in the table of workers.
        access: learns which rollouts have ended.
        live: the calls under way here.
        missing: how many of a rollout's calls ended here and are not in the database.
        grace_s: how long a rollout's calls may go on once it has ended, in seconds.
    """

    def __init__(
        self,
        closings: Closings,
        *,
        worker: str,
        access: Access,
        live: LiveCalls,
        missing: Callable[[str], int],
        grace_s: float,
    ) -> None:
        self._closings = closings
        self._worker = worker
        self._access = access
        self._live = live
        self._missing = missing
        self._grace_s = grace_s
        self._closing: dict[str, asyncio.Task[bool]] = {}
        self._seen = 0  # the newest number whose rollouts are closed or being closed
        self._own: set[int] = set()  # numbers that `close` was given before they were seen
        self._said: tuple[int, frozenset[str]] | None = None

    def begin(self) -> None:
        """Take what ended until now as closed: no call began here yet; call it in a thread."""
        try:
            self._seen = self._closings.state().newest
        except StoreError as error:  # what it cannot see now, it goes through later
            log.warning("ended rollouts cannot be read: %s", error.kind)

    async def run(self) -> None:
        """Close what ends anywhere, until cancelled."""
        while True:
            wait_s = _ALONE_S
            try:
                if (await self.close_ended()).workers > 1:
                    wait_s = _AMONG_OTHERS_S
            except StoreError as error:
                log.warning("ended rollouts cannot be read: %s", error.kind)
            await asyncio.sleep(wait_s)

    async def close(self, rollout_id: str, number: int) -> bool:
        """Close the rollout of a number here; from now on its key and secret open nothing.

        Returns:
            Whether all its calls have ended and are in the database.
        """
        if number > self._seen:
            self._own.add(number)
        self._access.ended(rollout_id)
        if self._live.any_of(rollout_id):
            task = asyncio.create_task(self._live.close(rollout_id, self._grace_s))
            self._closing[rollout_id] = task
            if not await asyncio.shield(task):
                return False
        return await self._written(rollout_id, _WRITTEN_WITHIN_S)

    async def close_ended(self) -> ClosingState:
        """Close what has ended since the last time, and confirm what is closed.

        Keys that expire have no number: each process knows when from letting their calls in.

        Raises:
            StoreError: the database is unavailable.
        """
        for rollout_id in self._access.expired():
            self._begin_closing(rollout_id)
        state = await asyncio.to_thread(self._closings.state)
        if state.newest < self._seen:
            self._seen = 0  # another database has taken the place of the one before
        if state.newest > self._seen:
            due = await asyncio.to_thread(self._closings.between, self._seen, state.newest)
            for number, rollout_id in due:
                if number not in self._own:
                    self._begin_closing(rollout_id)
            self._own.difference_update(number for number, _ in due)
            self._seen = state.newest
        await self._confirm()
        return state

    def _begin_closing(self, rollout_id: str) -> None:
        self._access.ended(rollout_id)
        if self._live.any_of(rollout_id) or self._missing(rollout_id):
            self._closing[rollout_id] = asyncio.create_task(self._close_written(rollout_id))

    async def _close_written(self, rollout_id: str) -> bool:
        """Close a rollout; done once its calls are in the database too."""
        while not await self._live.close(rollout_id, self._grace_s):
            log.error("calls of an ended rollout do not end")
        return await self._written(rollout_id, math.inf)

    async def _written(self, rollout_id: str, within_s: float) -> bool:
        """Wait until the database has what ended here; the backlog announces nothing."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while self._missing(rollout_id):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(_WRITTEN_S)
        return True

    async def _confirm(self) -> None:
        for rollout_id, task in tuple(self._closing.items()):
            if task.done():
                del self._closing[rollout_id]
        says = self._seen, frozenset(self._closing)
        if says == self._said:
            return
        confirmed = await asyncio.to_thread(
            self._closings.confirm, self._worker, up_to=says[0], but=says[1]
        )
        self._said = says if confirmed else None  # without a row, a heartbeat makes one


# --- heartbeat ---------------------------------------------------------------------------------
# Marks the process alive, and picks up what other processes changed or left.


_HEARTBEAT_S = 5.0


class Heartbeat:
    """Writes one process's row in the table of workers, every few seconds.

    Arguments:
        worker: the process's name there.
        access: learns which rollouts are under ``rules`` although their calls prove nothing.
        ended_sessions: receives the sessions that ended in any process.
        spill_place: common beginning of the spill files' paths; None if nothing is spilled.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        access: Access,
        rules: Sequence[RolloutRule],
        ended_sessions: set[str],
        spill_place: Path | None,
    ) -> None:
        self._database = database
        self._worker = worker
        self._access = access
        self._rules = rules
        self._ended_sessions = ended_sessions
        self._spill_place = spill_place

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            await asyncio.to_thread(self.beat)

    def beat(self) -> None:
        """Do all of it once; a failure is logged, and the next beat tries again."""
        try:
            self._database.heartbeat(self._worker, host=socket.gethostname(), now=time.time())
            self._access.watch({each for rule in self._rules for each in rule.watched()})
            self._ended_sessions.update(self._database.deployment.ended_sessions())
            self._recover()
        except Exception as error:  # of any kind: a process that stops beating is taken for dead
            log.warning("heartbeat failed: %s", type(error).__name__)

    def retire(self) -> None:
        """Remove the row, as the process stops.

        Raises:
            StoreError: the database is unavailable.
        """
        self._database.workers.retire(self._worker)

    def _recover(self) -> None:
        """Write what dead processes left in their spill files."""
        for spill in left_behind(self._spill_place) if self._spill_place else ():
            with contextlib.closing(spill):
                created_at = self._database.deployment.created_at()
                count = recover(
                    self._database.calls, spill, worker=self._worker, created_at=created_at
                )
            log.warning(
                "recovered %s from the spill file of a dead process", plural(count, "exchange")
            )


# --- checkpoints of SQLite ---------------------------------------------------------------------
# Made beside the commits, behind which agents wait.


EVERY_S = 0.5


async def checkpoint_loop(database: Database) -> None:
    """Make them until cancelled; where one fails, the next tries again, and in the end a commit."""
    while database.is_sqlite:
        await asyncio.sleep(EVERY_S)
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(database.checkpoint)


# --- tuning of memory and garbage collection ---------------------------------------------------


# malloc.h of glibc: the size from which a block is mapped on its own, and how much free memory the
# heap may end in before it is given back; in bytes.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = (-3, 1 << 20), (-1, 8 << 20)

GC_THRESHOLDS = (50_000, 20, 50)  # fewer, later collections: thousands of streams live long


def tune_process() -> None:
    """Tune a process before the modules of the service are imported.

    Garbage collection is off until the service has started: what a start allocates is kept, and
    searching it takes a seventh of the start.

    The C library keeps some freed memory for the next request. Where its heap happens to end in
    one, each of 100 kB would be given back and mapped again page by page: 12 page faults, and a
    sixth of its CPU.
    """
    _keep_memory()
    gc.disable()


@contextlib.contextmanager
def garbage_collection() -> Iterator[None]:
    """Collect garbage while serving, but not among what lives as long as the process."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()  # tests run several services in one process
        gc.set_threshold(*before)


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(*option)
