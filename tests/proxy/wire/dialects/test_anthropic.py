"""Anthropic's Messages API, event by event."""

from __future__ import annotations

from typing import Any

import pytest

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


def _iteration(kind: str, spent: int, made: int, cached: int = 0) -> dict[str, object]:
    return {
        "type": kind, "input_tokens": spent, "output_tokens": made,
        "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0,
    }  # fmt: skip


_MESSAGE = _iteration("message", 23_000, 1_000, cached=500)
_COMPACTION = _iteration("compaction", 180_000, 3_500, cached=60)
_STATED = {"input_tokens": 23_000, "output_tokens": 1_000, "cache_read_input_tokens": 500}


@pytest.mark.parametrize(
    ("usage", "totals"),
    [
        pytest.param(_STATED | {"iterations": [_COMPACTION, _MESSAGE]}, (203_560, 4_500),
                     id="a compaction is in none of the other counts"),
        pytest.param(_STATED | {"iterations": [_COMPACTION, _COMPACTION, _MESSAGE]},
                     (383_620, 8_000), id="two compactions"),
        pytest.param(_STATED | {"iterations": [_MESSAGE]}, (23_500, 1_000), id="a message is"),
        pytest.param(_STATED | {"iterations": [_iteration("fallback_message", 23_000, 1_000, 500)]},
                     (23_500, 1_000), id="so is a fallback's"),
        pytest.param(_STATED | {"iterations": None}, (23_500, 1_000), id="null"),
        pytest.param(_STATED | {"iterations": []}, (23_500, 1_000), id="none"),
        pytest.param({"input_tokens": 203_000, "output_tokens": 4_500,
                      "cache_read_input_tokens": 560, "iterations": [_COMPACTION, _MESSAGE]},
                     (203_560, 4_500), id="a gateway that added them up"),
        pytest.param({"input_tokens": 0, "output_tokens": 0, "iterations": [_COMPACTION]},
                     (180_060, 3_500), id="a pause after the compaction"),
        pytest.param(_STATED | {"iterations": [{"type": "compaction", "input_tokens": "x"}, 7]},
                     (23_500, 1_000), id="no counts"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True])
def test_totals_count_a_compaction_once(
    usage: dict[str, Any], totals: tuple[int, int], streamed: bool
) -> None:
    reading = ResponseFacts()
    if streamed:
        first = min(9, usage["input_tokens"])  # a zero that follows takes nothing back
        start = {"input_tokens": first, "output_tokens": 1, "iterations": None}
        MESSAGES.read(reading, {"type": "message_start", "message": {"usage": start}}, None)
        MESSAGES.read(reading, {"type": "message_delta", "delta": {}, "usage": usage}, None)
        MESSAGES.read(reading, {"type": "message_delta", "delta": {}, "usage": usage}, None)
    else:
        MESSAGES.read(reading, {"type": "message", "usage": usage}, None)
    assert MESSAGES.totals(reading) == totals
    assert reading.input_tokens == usage["input_tokens"]  # the provider's own, nothing added


def test_a_last_event_that_states_the_output_alone_counts_a_compaction_once() -> None:
    reading = ResponseFacts()
    MESSAGES.read(reading, {"type": "message_start", "message": {"usage": _STATED}}, None)
    last = {"output_tokens": 1_000, "iterations": [_COMPACTION, _MESSAGE]}
    MESSAGES.read(reading, {"type": "message_delta", "delta": {}, "usage": last}, None)
    assert MESSAGES.totals(reading) == (203_560, 4_500)


def test_a_zero_at_the_end_leaves_the_input_and_is_the_output_where_none_came() -> None:
    for output, words in ((0, []), (3, [{"type": "text", "text": "Hi"}])):
        reading = ResponseFacts()
        start = {"usage": {"input_tokens": 15, "output_tokens": 1}, "content": words}
        MESSAGES.read(reading, {"type": "message_start", "message": start}, None)
        last = {"input_tokens": 0, "output_tokens": output}
        MESSAGES.read(reading, {"type": "message_delta", "delta": {}, "usage": last}, None)
        assert (reading.input_tokens, reading.output_tokens) == (15, output)
