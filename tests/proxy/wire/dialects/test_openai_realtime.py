"""OpenAI's realtime API, event by event."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.openai import REALTIME


def test_counts_come_with_the_end() -> None:
    reading = ResponseFacts()
    usage = {"input_tokens": 5, "output_tokens": 2,
             "input_token_details": {"cached_tokens": 1}}  # fmt: skip
    done = {"status": "incomplete", "status_details": {"reason": "max_output_tokens"},
            "usage": usage}  # fmt: skip
    REALTIME.read(reading, {"type": "response.done", "response": done}, None)
    assert (reading.input_tokens, reading.output_tokens, reading.cached_input_tokens) == (5, 2, 1)
    assert (reading.ended, reading.finish_reason) == (True, "incomplete:max_output_tokens")


def test_a_call_is_the_same_in_every_event_of_it() -> None:
    reading, item = ResponseFacts(), {"type": "function_call", "call_id": "c1"}
    for kind in ("added", "done"):
        REALTIME.read(reading, {"type": f"response.output_item.{kind}", "item": item}, None)
    assert reading.calls == {"c1"}


def test_events_of_the_session_are_no_answer() -> None:
    reading = ResponseFacts()
    REALTIME.read(reading, {"type": "session.updated", "delta": "a"}, None)
    assert reading == ResponseFacts()


def test_audio_is_output() -> None:
    reading, item = ResponseFacts(), {"type": "message", "content": [{"type": "audio"}]}
    REALTIME.read(reading, {"type": "response.output_item.done", "item": item}, None)
    assert reading.output
