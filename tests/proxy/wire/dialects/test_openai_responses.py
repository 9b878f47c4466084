"""OpenAI's Responses API, event by event."""

from __future__ import annotations

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.openai import RESPONSES
from tests.proxy.wire.samples import response


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed"])
def test_each_of_the_three_ends_ends_it(kind: str) -> None:
    reading = ResponseFacts()
    event = {"type": f"response.{kind}", "response": response(None, status=kind)}
    RESPONSES.read(reading, event, None)
    assert (reading.ended, reading.finish_reason) == (True, kind)


def test_a_snapshot_in_progress_finishes_nothing() -> None:
    reading = ResponseFacts()
    event = {"type": "response.created", "response": response(None, status="in_progress")}
    RESPONSES.read(reading, event, None)
    assert (reading.finish_reason, reading.ended, reading.understood) == (None, False, True)


def test_a_call_is_the_agent_s_and_a_search_the_provider_s() -> None:
    reading, call = ResponseFacts(), {"type": "function_call", "call_id": "c1"}
    for item in (call, {"type": "web_search_call", "id": "w"}, call):
        RESPONSES.read(reading, {"type": "response.output_item.done", "item": item}, None)
    assert reading.calls == {"c1"}
    assert reading.output


def test_reasoning_may_be_empty_unless_it_is_encrypted() -> None:
    reading, item = ResponseFacts(), {"type": "reasoning", "content": [], "summary": []}
    RESPONSES.read(reading, response(None, item), None)
    assert not reading.output
    RESPONSES.read(reading, response(None, item | {"encrypted_content": "x"}), None)
    assert (reading.output, reading.content) == (True, False)


def test_a_response_in_the_background_is_pending_until_its_status_says_otherwise() -> None:
    reading = ResponseFacts()
    for status, pending in (("queued", True), ("in_progress", True), ("completed", False)):
        RESPONSES.read(reading, response(None, status=status, id="resp_1"), None)
        assert (reading.pending, reading.response_id) == (pending, "resp_1")
    assert reading.finish_reason == "completed"
