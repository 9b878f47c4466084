"""Ending a rollout's calls in every process, so that nothing that begins later passes."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from proxy.control.queries import Queries
from proxy.store.database import Database
from truezero.printable import plural

log = logging.getLogger("truezero")

_ASK_S = 0.05
_CONFIRMED_WITHIN_S = 20.0  # a worker that lives has said so long before; beyond the calls' grace


class RolloutClosing:
    """Ends the calls and sockets of rollouts that have ended, and waits until all are.

    Arguments:
        worker: this process's name in the table of workers.
        close_here: ends the calls of a rollout, under its number, in this process; whether all
            of them ended.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        database: Database,
        worker: str,
        close_here: Callable[[str, int], Awaitable[bool]],
        wall: Callable[[], float],
    ) -> None:
        self._queries = queries
        self._closings = database.closings
        self._worker = worker
        self._close_here = close_here
        self._wall = wall

    async def close(self, rollout_id: str, number: int) -> int:
        """End a rollout's calls in every living process, under this number in `closings`.

        Returns:
            How many processes did not confirm that they had, 0 as a rule.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        closed_here = await self._close_here(rollout_id, number)
        silent = await self._elsewhere(rollout_id, number)
        if silent or not closed_here:
            log.error(
                "the calls of an ended rollout were not confirmed as closed by %s",
                plural(len(silent) + (not closed_here), "process", "processes"),
            )
        return len(silent) + (not closed_here)

    async def freeze(self, rollout_id: str, number: int) -> None:
        """Close a rollout and store that; a process that did not confirm is a gap."""
        unconfirmed = await self.close(rollout_id, number)
        await self._queries.run(
            self._closings.closed, rollout_id, now=self._wall(), gaps=unconfirmed
        )

    async def _elsewhere(self, rollout_id: str, number: int) -> list[str]:
        """Wait for the other processes; return those that did not confirm in time."""
        host, loop = socket.gethostname(), asyncio.get_running_loop()
        deadline = loop.time() + _CONFIRMED_WITHIN_S
        while True:
            silent = await self._queries.run(
                self._closings.unconfirmed,
                rollout_id,
                number,
                worker=self._worker,
                host=host,
                now=self._wall(),
            )
            if not silent or loop.time() > deadline:
                return silent
            await asyncio.sleep(_ASK_S)
