"""How a call without a task ends where neither its agent nor its provider ends it."""

from __future__ import annotations

import pytest

from classifier.records import Ending
from tests.proxy.relay.byhand import STREAMED, call_by_hand
from tests.proxy.relay.test_relayed_call import DONE, END, WHOLE, WORD, framed, streaming


async def test_a_rollout_that_ends_lets_an_answer_that_is_being_recorded_through() -> None:
    call = call_by_hand()
    call.says(WHOLE)
    next(iter(call.tasks)).close()
    call.book.commit()
    assert call.to_agent.said().endswith(b"{}")
    assert call.only.ending is Ending.COMPLETE


@pytest.mark.reaches_in
async def test_an_error_of_our_own_is_a_lost_call(caplog: pytest.LogCaptureFixture) -> None:
    call = streaming(call_by_hand(STREAMED))

    def fails(part: bytes) -> bool:
        raise ValueError("secret")

    call.agent.pass_on = fails  # type: ignore[method-assign]
    call.says(framed(WORD))
    assert (call.only.ending, call.to_agent.closed, call.over) == (Ending.LOST, True, True)
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.reaches_in
async def test_a_body_that_breaks_its_length_is_cut_behind_its_record() -> None:
    call = streaming(call_by_hand(STREAMED))

    def shorter() -> None:
        raise RuntimeError

    call.agent.finish = shorter  # type: ignore[method-assign]
    call.says(framed(DONE) + END)
    call.book.commit()
    assert (call.only.ending, call.to_agent.closed, call.over) == (Ending.COMPLETE, True, True)
