"""Work that is done beside the agents' bytes."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from proxy.control import queries
from proxy.control.queries import run_in_thread


async def test_work_is_done_in_another_thread_and_its_answer_comes_back() -> None:
    assert await run_in_thread(threading.get_ident) != threading.get_ident()
    assert await run_in_thread(int, "ff", base=16) == 255


async def test_while_any_work_lasts_the_interpreter_changes_threads_more_often() -> None:
    alone = sys.getswitchinterval()
    goes_on = threading.Event()
    works = [asyncio.create_task(run_in_thread(goes_on.wait, 10)) for _ in range(2)]
    while sys.getswitchinterval() == alone:
        await asyncio.sleep(0.001)
    assert await run_in_thread(sys.getswitchinterval) == sys.getswitchinterval() < alone
    goes_on.set()
    await asyncio.gather(*works)
    assert sys.getswitchinterval() == alone


async def test_work_that_fails_says_so_and_is_over() -> None:
    alone = sys.getswitchinterval()
    with pytest.raises(ValueError, match="invalid literal"):
        await run_in_thread(int, "no number")
    assert sys.getswitchinterval() == alone


async def test_work_is_done_one_after_another_where_it_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two at once would both take the interpreter from the threads that relay."""
    monkeypatch.setattr(queries, "_IN_LINE_S", 60)
    at_work, most = 0, 0

    def work() -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        time.sleep(0.001)  # lets others in, if they may
        at_work -= 1

    await asyncio.gather(*(run_in_thread(work) for _ in range(20)))
    assert most == 1


async def test_work_that_lasts_keeps_nobody_waiting_for_long() -> None:
    goes_on = threading.Event()
    lasting = asyncio.create_task(run_in_thread(goes_on.wait, 60))
    async with asyncio.timeout(50):
        assert await run_in_thread(int, "1") == 1
    assert not lasting.done()
    goes_on.set()
    assert await lasting
