"""SQLite's checkpoints, made beside the commits behind which agents wait."""

from __future__ import annotations

import asyncio
import contextlib

from proxy.store.database import Database
from proxy.store.errors import StoreError

EVERY_S = 0.5


async def checkpoint_loop(database: Database) -> None:
    """Make them until cancelled; where one fails, the next tries again, and in the end a commit."""
    while database.is_sqlite:
        await asyncio.sleep(EVERY_S)
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(database.checkpoint)
