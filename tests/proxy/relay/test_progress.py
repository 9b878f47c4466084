"""One call's exchange: recorded once, and again only where more came."""

from __future__ import annotations

from classifier.records import Cause, Ending
from classifier.verdicts import Subcategory
from proxy.relay.call import RelayState
from tests.proxy.relay.calls import parts_of_call


async def test_a_call_is_recorded_again_only_with_more_bytes() -> None:
    progress, _, _, book = parts_of_call()
    assert not progress.recorded
    progress.record(Ending.COMPLETE)
    progress.record(Ending.COMPLETE)
    assert len(book.exchanges) == 1
    assert progress.recorded
    progress.received += 1
    progress.record(Ending.COMPLETE)
    assert len(book.exchanges) == 2
    await progress.durable()


async def test_a_known_cause_is_the_exchanges() -> None:
    progress, _, _, book = parts_of_call()
    progress.cause = Cause(subcategory=Subcategory.AUTH, transient=False, rule="proxy.x", code="x")
    progress.record(Ending.NEVER_CONNECTED)
    assert book.only.cause == progress.cause


async def test_a_call_that_is_read_on_ended_when_its_agent_left() -> None:
    progress, _, _, book = parts_of_call()
    assert not progress.left_complete()
    progress.record(Ending.COMPLETE)
    assert book.only.ending is Ending.LEFT_BY_AGENT


async def test_a_call_is_opened_before_anything_of_its_response_is_sent() -> None:
    progress, _, _, book = parts_of_call()
    await progress.opened()  # nothing to wait for
    progress.open("x1")
    await progress.opened()
    assert [exchange.id for exchange in book.opens] == ["x1"]


async def test_an_agent_has_left_in_two_states() -> None:
    progress, _, _, _ = parts_of_call()
    left = []
    for state in RelayState:
        progress.state = state
        if progress.left:
            left.append(state)
    assert left == [RelayState.DRAINING, RelayState.LEFT]
