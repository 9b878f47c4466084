"""Checkpoints go on beside a service, whatever becomes of one."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from proxy.server import background
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable


async def test_they_go_on_after_one_that_failed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "EVERY_S", 0.001)
    made, several, in_loop = 0, asyncio.Event(), asyncio.get_running_loop()
    threads = set[int]()

    def checkpoint() -> None:
        nonlocal made
        made += 1
        threads.add(threading.get_ident())
        if made == 1:
            raise DatabaseUnavailable("database is locked")
        in_loop.call_soon_threadsafe(several.set)

    monkeypatch.setattr(database, "checkpoint", checkpoint)
    running = asyncio.create_task(background.checkpoint_loop(database))
    await asyncio.wait_for(several.wait(), 60)
    assert threading.get_ident() not in threads
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_postgresql_makes_its_own() -> None:
    database = Database("postgresql+psycopg://nobody@/nothing?host=/nowhere")
    await asyncio.wait_for(background.checkpoint_loop(database), 60)
    database.checkpoint()
    database.close()
