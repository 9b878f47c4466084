"""OpenAI's chat completions, chunk by chunk."""

from __future__ import annotations

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.openai import CHAT
from tests.proxy.wire.samples import call, delta, dump, last


def read(*payloads: dict[str, object]) -> ResponseFacts:
    reading = ResponseFacts()
    for payload in payloads:
        CHAT.read(reading, payload, None)
    return reading


def test_a_call_is_counted_once_though_its_name_is_repeated() -> None:
    assert len(read(*(delta(tool_calls=[call(0, "f", "{")]) for _ in range(3))).calls) == 1
    assert len(read(delta(tool_calls=[call(0, "f", "{"), call(1, "g", "{")])).calls) == 2


def test_a_delta_without_a_name_begins_no_call() -> None:
    assert not read(delta(tool_calls=[call(0, None, "}")])).calls


def test_groq_states_usage_in_its_own_field() -> None:
    reading = read({"choices": [], "x_groq": {"usage": {"prompt_tokens": 3}}})
    assert (reading.input_tokens, reading.understood) == (3, True)


def test_timings_fill_the_totals_only() -> None:
    reading = read({"choices": [], "timings": {"prompt_n": 2, "cache_n": 5, "predicted_n": 3}})
    assert (reading.input_tokens, reading.output_tokens) == (None, None)
    assert CHAT.totals(reading) == (7, 3)


@pytest.mark.parametrize(
    ("payload", "relevant"),
    [
        (delta(content='say "usage": 1'), False),
        (delta(content="a"), False),
        (delta("stop"), True),
        (last({"prompt_tokens": 1}), True),
        ({"error": {"message": "m"}}, True),
        (delta(tool_calls=[call(0, "f", "{")]), True),
    ],
)
def test_events_that_state_nothing_need_no_parsing(
    payload: dict[str, object], relevant: bool
) -> None:
    assert CHAT.relevant is not None
    assert bool(CHAT.relevant.search(dump(payload))) is relevant


def test_a_content_part_of_no_known_type_is_content() -> None:
    kinds: tuple[object, ...] = (None, "text", ["thinking"], {})
    for kind in kinds:
        reading = ResponseFacts()
        CHAT.read(reading, {"choices": [{"message": {"content": [{"type": kind}]}}]}, None)
        assert (reading.output, reading.content) == (True, True)
