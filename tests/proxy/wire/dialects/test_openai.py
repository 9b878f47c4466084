from __future__ import annotations

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.openai import CHAT, LISTS, REALTIME, RESPONSES
from tests.proxy.wire.samples import call, delta, dump, last, response

# --- OpenAI's chat completions, chunk by chunk ----------------------------------------------------


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


# --- OpenAI's Responses API, event by event -------------------------------------------------------


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


# --- OpenAI's realtime API, event by event --------------------------------------------------------


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


# --- OpenAI's embeddings, images and the like -----------------------------------------------------


def test_a_list_is_output_with_its_counts() -> None:
    reading = ResponseFacts()
    counts = {"prompt_tokens": 3, "total_tokens": 3, "cost": 0.5}
    LISTS.read(reading, {"data": [{"embedding": [1]}], "model": "e-1", "usage": counts}, None)
    assert (reading.understood, reading.output, reading.model) == (True, True, "e-1")
    assert (reading.input_tokens, reading.total_tokens, reading.cost_usd) == (3, 3, 0.5)


def test_an_empty_list_is_no_output() -> None:
    reading = ResponseFacts()
    LISTS.read(reading, {"data": []}, None)
    assert (reading.understood, reading.output) == (True, False)
