"""Pages that are open live share what is made for a change, and nobody gets an older page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
from fastapi import Request, Response

from proxy.control.queries import Service, run_in_thread
from proxy.features.live.changes import ChangeFeed
from proxy.features.live.pages import CHANGE_HEADER, LivePages


class Clock(ChangeFeed):
    """Changes whose tokens are the seconds of a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 10.0
        super().__init__(Service.__new__(Service), clock=lambda: self.now)

    def announced_at(self, token: str) -> float | None:
        return float(token) if token else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def made() -> Iterator[int]:
    return count(1)


async def fetch(
    pages: LivePages,
    made: Iterator[int],
    *,
    told: str = "",
    session: str = "",
    path: str = "/p",
    work: Callable[[], Awaitable[None]] | None = None,
) -> str:
    async def make(_: Request) -> Response:
        number = next(made)
        await (work() if work else asyncio.sleep(0))
        if path == "/fails":
            raise OSError(number)
        return Response(f"page {number}")

    headers = [(b"host", b"h"), (CHANGE_HEADER.encode(), told.encode())]
    if session:
        headers.append((b"cookie", f"truezero_session={session}".encode()))
    scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": path, "query_string": b"",
        "headers": headers, "server": ("h", 80),
    }  # fmt: skip
    return bytes((await pages.page(Request(scope), make)).body).decode()


async def test_pages_told_of_the_same_change_share_one_answer(
    clock: Clock, made: Iterator[int]
) -> None:
    pages = LivePages(clock)
    five = [fetch(pages, made, told="9") for _ in range(5)]
    assert await asyncio.gather(*five) == ["page 1"] * 5
    clock.now = 11.0
    assert await fetch(pages, made, told="10") == "page 1", "who was slow"
    assert await fetch(pages, made, told="10.5") == "page 2", "a newer change"
    assert await fetch(pages, made, told="9") == "page 2"


async def test_others_get_one_of_their_own(clock: Clock, made: Iterator[int]) -> None:
    pages = LivePages(clock)
    assert await fetch(pages, made, told="9") == "page 1"
    assert await fetch(pages, made) == "page 2", "a person who opens the page"
    assert await fetch(pages, made, told="9", session="other") == "page 3"
    assert await fetch(pages, made, told="9", path="/q") == "page 4"
    assert await fetch(pages, made, told="9") == "page 1"


async def test_what_failed_is_made_again(clock: Clock, made: Iterator[int]) -> None:
    pages = LivePages(clock)
    for number in (1, 2):
        with pytest.raises(OSError, match=str(number)):
            await fetch(pages, made, told="9", path="/fails")


async def test_one_who_leaves_takes_it_from_nobody(clock: Clock, made: Iterator[int]) -> None:
    pages = LivePages(clock)
    first, second = (asyncio.create_task(fetch(pages, made, told="9")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "page 1"


async def test_few_are_kept(clock: Clock, made: Iterator[int]) -> None:
    pages = LivePages(clock)
    for number in range(17):
        await fetch(pages, made, told="9", path=f"/{number}")
    assert await fetch(pages, made, told="9", path="/1") == "page 2"
    assert await fetch(pages, made, told="9", path="/0") == "page 18"


async def test_what_it_takes_to_make_a_page_anew_is_counted_once(
    clock: Clock, made: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[float] = []
    monkeypatch.setattr(clock, "took", took.append)
    pages = LivePages(clock)

    async def work() -> None:
        await run_in_thread(spend, 0.02)

    together = [fetch(pages, made, told="9", work=work) for _ in range(3)]
    assert await asyncio.gather(*together) == ["page 1"] * 3
    await fetch(pages, made, work=work)
    assert len(took) == 1, "not what a person opens"
    assert took[0] >= 0.02


def spend(cpu_s: float) -> None:
    began = time.thread_time()
    while time.thread_time() < began + cpu_s:
        pass
