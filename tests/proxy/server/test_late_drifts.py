"""The loop that adds drifts to verdicts: in one process at a time, and whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest

from proxy.control.queries import storage_unavailable
from proxy.server.background import late_drifts_loop
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable


def turns(count: int) -> Callable[[float], Awaitable[None]]:
    """Sleep no time so often, then end the loop."""
    left = iter(range(count))

    async def sleep(_s: float) -> None:
        await asyncio.sleep(0)
        if next(left, None) is None:
            raise InterruptedError

    return sleep


async def test_one_process_has_the_turn(tmp_path: object) -> None:
    added: list[str] = []
    url = f"{tmp_path}/t.db"
    with closing(Database(url)) as one, closing(Database(url)) as other:
        one.prepare()
        for name, process in (("one", one), ("other", other), ("one", one)):

            async def add(name: str = name) -> None:
                added.append(name)

            with pytest.raises(InterruptedError):
                await late_drifts_loop(process, add, sleep=turns(3))
    assert added == ["one"]


@pytest.mark.parametrize(
    "error", [storage_unavailable(DatabaseUnavailable("OperationalError")), ZeroDivisionError()]
)
async def test_a_turn_that_fails_ends_no_loop(
    error: Exception, tmp_path: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def add() -> None:
        raise error

    with closing(Database(f"{tmp_path}/t.db")) as database:
        database.prepare()
        with pytest.raises(InterruptedError):
            await late_drifts_loop(database, add, sleep=turns(2))
    (record,) = caplog.records
    assert record.getMessage().startswith("drifts cannot be added to verdicts: ")
