"""The calls under way of one rollout: waited for, then ended."""

from __future__ import annotations

import asyncio

from proxy.relay.live_calls import LiveCalls


class Call:
    """A call that leaves when it is closed, unless it is stubborn."""

    def __init__(self, live: LiveCalls, rollout: str = "r", *, stubborn: bool = False) -> None:
        self.live, self.rollout, self.stubborn, self.closed = live, rollout, stubborn, 0
        live.enter(rollout, self)

    def close(self) -> None:
        self.closed += 1
        if not self.stubborn:
            self.leave()

    def leave(self) -> None:
        self.live.leave(self.rollout, self)


async def test_calls_that_end_by_themselves_are_waited_for_and_not_closed() -> None:
    live = LiveCalls()
    one, two, other = Call(live), Call(live), Call(live, "other")
    closing = asyncio.create_task(live.close("r", 3600.0))
    for call in (one, two):
        await asyncio.sleep(0)
        assert not closing.done()
        call.leave()
    assert await closing
    assert (one.closed, two.closed, other.closed) == (0, 0, 0)
    assert [live.any_of(name) for name in ("r", "other")] == [False, True]


async def test_calls_that_go_on_are_closed() -> None:
    live = LiveCalls()
    one, two, other = Call(live), Call(live), Call(live, "other")
    assert await live.close("r", 0.0)
    assert (one.closed, two.closed, other.closed) == (1, 1, 0)


async def test_a_call_that_began_later_goes_on() -> None:
    live = LiveCalls()
    before = Call(live, stubborn=True)
    closing = asyncio.create_task(live.close("r", 0.0))
    await asyncio.sleep(0)
    later = Call(live)
    while not before.closed:
        await asyncio.sleep(0)
    before.leave()
    assert await closing
    assert later.closed == 0


async def test_two_who_close_one_rollout_wait_for_the_same_calls() -> None:
    live = LiveCalls()
    call = Call(live)
    closings = [asyncio.create_task(live.close("r", 3600.0)) for _ in range(2)]
    await asyncio.sleep(0)
    call.leave()
    assert await asyncio.gather(*closings) == [True, True]


async def test_nothing_to_close_is_closed() -> None:
    assert await LiveCalls().close("r", 3600.0)
