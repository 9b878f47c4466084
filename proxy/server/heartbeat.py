"""Heartbeat of one process: marks it alive, and picks up what other processes changed or left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from pathlib import Path

from classifier.verdicts import plural
from proxy.recording.backlog import left_behind, recover
from proxy.relay.admission import Access
from proxy.store.database import Database

log = logging.getLogger("truezero")

_HEARTBEAT_S = 5.0


class Heartbeat:
    """Writes one process's row in the table of workers, every few seconds.

    Arguments:
        worker: the process's name there.
        access: learns which rollouts have a fault injected.
        ended_sessions: receives the sessions that ended in any process.
        spill_place: common beginning of the spill files' paths; None if nothing is spilled.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        access: Access,
        ended_sessions: set[str],
        spill_place: Path | None,
    ) -> None:
        self._database = database
        self._worker = worker
        self._access = access
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
            self._access.watch(self._database.rollouts.drilled())
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
