"""Store which rollouts had calls refused because too many calls were in flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from classifier.records import RESERVED, LimitReached
from proxy.clock import epoch_s
from proxy.store.errors import StoreError

log = logging.getLogger("truezero")

_APART_S = 0.1  # two writes
_AGAIN_S = 1.0  # until the database is tried again


class TurnedAway:
    """Stores the last refused call of each rollout, off the event loop.

    Arguments:
        write: stores them, in a thread; raises StoreError.
    """

    def __init__(self, write: Callable[[Mapping[str, LimitReached]], None]) -> None:
        self._write = write
        self._noted: dict[str, LimitReached] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, rollout_id: str, *, own: int, most: int, in_flight: int, callers: int) -> None:
        """Note that a call was refused, with the calls in flight at that time.

        Arguments:
            own: calls of its rollout.
            most: calls that the service allows.
            in_flight: calls of all rollouts.
            callers: rollouts that had any.
        """
        if rollout_id in RESERVED:
            return
        self._noted[rollout_id] = LimitReached(
            scope="service",
            limit="calls",
            most=float(most),
            spent=float(in_flight),
            own=float(own),
            callers=callers,
            at=epoch_s(),
        )
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._noted:
            noted, self._noted = self._noted, {}
            try:
                await asyncio.to_thread(self._write, noted)
                await asyncio.sleep(_APART_S)
            except StoreError as error:
                log.warning("calls that were turned away cannot be noted: %s", error.kind)
                self._noted = noted | self._noted
                await asyncio.sleep(_AGAIN_S)
        self._writing = None

    async def stop(self) -> None:
        """Wait until what was noted is stored, as the process stops."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=2 * _AGAIN_S)
