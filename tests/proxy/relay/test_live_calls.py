"""The calls under way: counted, and those of one rollout waited for, then ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from classifier.records import UNATTRIBUTED
from proxy.relay.context import LiveCalls
from proxy.routing.errors import Refusal


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


# --- the count -------------------------------------------------------------------------------


def refused(take: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        take()
    return caught.value


def test_without_a_bound_there_is_always_a_place() -> None:
    live = LiveCalls()
    for _ in range(10_000):
        Call(live)


def test_a_place_that_is_given_back_is_free_again() -> None:
    live = LiveCalls(total=2, per_rollout=2)
    for _ in range(5):
        calls = [Call(live, "a"), Call(live, "a")]
        refused(lambda: Call(live, "a"))
        for call in calls:
            call.leave()


def test_the_bound_in_all_counts_every_rollout() -> None:
    live = LiveCalls(total=2)
    Call(live, "a")
    Call(live, "b")
    assert refused(lambda: Call(live, "c")).code == "too_many_calls"


def test_a_rollout_at_its_bound_leaves_the_others_their_places() -> None:
    live = LiveCalls(per_rollout=1)
    Call(live, "a")
    assert refused(lambda: Call(live, "a")).code == "too_many_calls_of_rollout"
    Call(live, "b")


def test_who_was_refused_holds_no_place() -> None:
    live = LiveCalls(total=2, per_rollout=1)
    first = Call(live, "a")
    for _ in range(3):
        refused(lambda: Call(live, "a"))
    Call(live, "b")
    first.leave()
    Call(live, "a")


def test_rollouts_that_are_over_leave_nothing_behind() -> None:
    live = LiveCalls(per_rollout=3)
    for number in range(1000):
        Call(live, f"r{number}").leave()
    assert not live._by_rollout


async def test_calls_that_name_no_rollout_are_no_rollouts() -> None:
    """A harness without names may have any number of samples."""
    live = LiveCalls(total=3, per_rollout=1)
    calls = [Call(live, UNATTRIBUTED) for _ in range(3)]
    with pytest.raises(Refusal) as refused:
        Call(live, UNATTRIBUTED)
    assert refused.value.code == "too_many_calls"
    for call in calls:
        call.leave()
    assert not live.any_of(UNATTRIBUTED)
