"""Database queries of the control plane, run in threads beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from proxy.control.threads import run_in_thread
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.store.database import Database
from proxy.store.errors import StoreError

PAGE = 1000  # rows read at once

P = ParamSpec("P")
T = TypeVar("T")


class Queries:
    """Runs queries in threads, so that a slow one delays no agent's bytes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query, or work that makes several.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        try:
            return await run_in_thread(query, *args, **kwargs)
        except StoreError as error:
            raise Refusal(
                503,
                "storage_unavailable",
                f"database unavailable ({error.kind})",
                RETRY_SOON,
            ) from error

    async def read(self, query: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a query of `proxy.store.statistics`, which takes a connection.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        return await self.run(self._database.read, query, *args, **kwargs)


def unknown_rollout(rollout_id: str) -> Refusal:
    """Refuse a rollout that was neither registered nor seen in a call."""
    return Refusal(404, "unknown_rollout", f"rollout {rollout_id!r} does not exist")


def unknown_batch(batch: str) -> Refusal:
    """Refuse a batch without rollouts."""
    return Refusal(404, "unknown_batch", f"batch {batch!r} does not exist")
