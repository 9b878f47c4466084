"""Anthropic's Messages API, event by event."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.anthropic import MESSAGES


def test_later_counts_replace_earlier_ones_field_by_field() -> None:
    reading = ResponseFacts()
    start = {"input_tokens": 20, "output_tokens": 1, "cache_read_input_tokens": 7}
    MESSAGES.read(reading, {"type": "message_start", "message": {"usage": start}}, None)
    MESSAGES.read(reading, {"type": "message_delta", "usage": {"output_tokens": 0}}, None)
    counts = (reading.input_tokens, reading.output_tokens, reading.cached_input_tokens)
    assert counts == (20, 0, 7)
    assert MESSAGES.totals(reading) == (27, 0)


def test_a_call_is_counted_once_and_a_served_one_is_output_only() -> None:
    reading = ResponseFacts()
    for kind, index in (("server_tool_use", 0), ("tool_use", 1), ("tool_use", 1)):
        start = {"type": "content_block_start", "index": index, "content_block": {"type": kind}}
        MESSAGES.read(reading, start, None)
    assert reading.calls == {1}
    assert reading.output


def test_an_event_without_a_type_goes_by_its_name() -> None:
    reading = ResponseFacts()
    MESSAGES.read(reading, {}, "message_stop")
    assert reading.ended
    assert reading.understood
