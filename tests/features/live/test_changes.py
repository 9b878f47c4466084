"""What open pages are told: once for all, together, and not one change after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import pairwise
from typing import Any, cast

from proxy.control.queries import Service
from proxy.features.live.changes import ChangeFeed, PageChange, PageScope
from proxy.store import statistics

BATCH = PageScope("b")


class Pulses:
    """A database in which only the pulse is asked for: what ``of`` says of the time."""

    def __init__(self, of: Callable[[float], int]) -> None:
        self.of, self.now, self.looks = of, 0.0, 0
        self.stopping: Callable[[], bool] = lambda: False
        self._waking: list[tuple[float, asyncio.Event]] = []

    async def read(self, query: Callable[..., Any], *args: Any, **asked: Any) -> Any:
        assert (query, args, asked) == (statistics.pulse, (), {"batch": "b", "rollout_id": None})
        self.looks += 1
        await asyncio.sleep(0)
        return (self.of(self.now),)

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._waking.append((self.now + seconds, woken))
        await woken.wait()

    async def turn(self, until: float) -> None:
        """Turn the clock, with a stop wherever somebody wants to be woken."""
        while True:
            for _ in range(20):  # let all go as far as they can
                await asyncio.sleep(0)
            due = min((at for at, _ in self._waking), default=until)
            if due >= until:
                return
            self.now = max(self.now, due)
            for each in [each for each in self._waking if each[0] <= due]:
                self._waking.remove(each)
                each[1].set()


def changes_in(pulses: Pulses) -> ChangeFeed:
    return ChangeFeed(cast(Service, pulses), clock=lambda: pulses.now, sleep=pulses.sleep)


async def told(
    pulses: Pulses, changes: ChangeFeed, *, pages: int, until: float
) -> list[list[tuple[float, PageChange]]]:
    """What so many pages are told until then, and when."""
    heard: list[list[tuple[float, PageChange]]] = [[] for _ in range(pages)]

    async def listen(place: int) -> None:
        async with aclosing(changes.follow(BATCH)) as stream:  # type: ignore[type-var]
            async for change in stream:
                heard[place].append((round(pulses.now, 3), change))

    tasks = [asyncio.create_task(listen(place)) for place in range(pages)]
    await pulses.turn(until)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return heard


async def test_all_pages_are_told_at_once_by_one_look_and_every_third_time_at_most() -> None:
    pulses = Pulses(lambda now: int(now * 200))  # something happens all the time
    heard = await told(pulses, changes_in(pulses), pages=5, until=10)
    assert heard[1:] == heard[:1] * 4
    kinds = [(at, change.kind) for at, change in heard[0]]
    assert kinds == [
        (0, ""), (0.7, "changed"), (2.1, "changed"), (4.2, "changed"), (6.3, "changed"),
        (8.4, "changed"),
    ]  # fmt: skip
    assert pulses.looks == len(kinds), "nor is looked in between"


async def test_pages_that_take_long_are_told_more_rarely_but_within_eleven_seconds() -> None:
    pulses = Pulses(lambda now: int(now * 200))
    changes = changes_in(pulses)

    async def times(took_s: float, until: float) -> list[float]:
        """When a page is told that takes so long each time it is made."""
        heard = []
        async with aclosing(changes.follow(BATCH)) as stream:  # type: ignore[type-var]
            async for change in stream:
                if change.kind:
                    changes.took(took_s)
                    heard.append(round(pulses.now - began, 1))
                if pulses.now >= until:
                    break
        return heard

    for took_s, least, most in ((0.010, 2.1, 2.1), (0.025, 5.6, 6.3), (0.5, 10.5, 10.5)):
        began = pulses.now
        listening = asyncio.create_task(times(took_s, began + 40))
        await pulses.turn(began + 60)
        _, *told_at = await listening  # from when the pages before rested
        apart = [round(b - a, 1) for a, b in pairwise(told_at)]
        assert len(apart) >= 2
        assert least <= min(apart) <= max(apart) <= most, (took_s, apart)


async def test_what_two_pages_take_adds_up() -> None:
    pulses = Pulses(lambda now: int(now * 200))
    changes = changes_in(pulses)
    changes.took(0.015)
    changes.took(0.015)
    (heard,) = await told(pulses, changes, pages=1, until=10)
    assert next(at for at, change in heard if change.kind) == 6.3, "30 ms are half a percent of 6 s"


async def test_however_much_was_made_it_is_over_after_eleven_seconds() -> None:
    pulses = Pulses(lambda now: int(now * 200))
    changes = changes_in(pulses)
    changes.took(100)
    (heard,) = await told(pulses, changes, pages=1, until=20)
    assert [at for at, change in heard if change.kind] == [8.4, 10.5, 12.6, 14.7, 16.8, 18.9]


async def test_a_change_after_a_quiet_time_is_told_by_the_next_look() -> None:
    pulses = Pulses(lambda now: now > 20)
    (heard,) = await told(pulses, changes_in(pulses), pages=1, until=40)
    assert [(at, change.kind) for at, change in heard] == [
        (0, ""), (14, ""), (20.3, "changed"), (35.0, ""),
    ]  # fmt: skip


async def test_a_token_tells_when_its_change_was_seen_to_its_own_process_only() -> None:
    pulses = Pulses(int)
    changes = changes_in(pulses)
    (heard,) = await told(pulses, changes, pages=1, until=3)
    (at, change), *_ = heard[1:]
    seen = changes.announced_at(change.token)
    assert seen is not None
    assert at <= seen < at + 1e-6
    longer = change.token + "0" * 999
    for other in (
        "",
        "-",
        "1",
        change.token + "x",
        longer,
        change.token.partition("-")[0],
        "a" * 999,
    ):
        assert changes.announced_at(other) is None, other
    assert changes_in(pulses).announced_at(change.token) is None


async def test_streams_end_with_the_process() -> None:
    pulses = Pulses(int)
    pulses.stopping = lambda: pulses.looks > 3
    stream = changes_in(pulses).follow(BATCH)
    following = asyncio.create_task(_all(stream))
    await pulses.turn(60)
    assert [change.kind for change in await following] == ["", "changed", "changed"]


async def _all(stream: Any) -> list[PageChange]:
    return [change async for change in stream]
