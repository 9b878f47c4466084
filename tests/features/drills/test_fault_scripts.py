from __future__ import annotations

import json

import pytest

from proxy.features.drills.fault_scripts import (
    INVALID_ANSWERS,
    SCRIPTS,
    SILENT,
    SUBSTITUTE_MODEL,
    WAIT_S,
    WINDOW_TOKENS,
    FaultedRequest,
    data_event,
    named_event,
)

# --------------------------------------------------------------------------------------------------
# Spoilt answers: few tokens of a long prompt, always as many, and another model than asked


def request(size: int) -> FaultedRequest:
    return FaultedRequest(model="m", streamed=False, size=size)


def test_growing_prompts_are_read_to_the_same_length() -> None:
    read = [
        INVALID_ANSWERS["truncate_prompt"](request(size))[1].input_tokens
        for size in (40_000, 41_000, 60_000)
    ]
    assert read == [WINDOW_TOKENS] * 3


@pytest.mark.parametrize("size", [200, 2_000, 16_000])
def test_a_short_prompt_is_truncated_too(size: int) -> None:
    _, reply = INVALID_ANSWERS["truncate_prompt"](request(size))
    assert 0 < reply.input_tokens * 12 < size, "less than a token for 12 bytes"


def test_one_fact_is_spoilt_by_each_fault() -> None:
    asked = request(4_000)
    good = INVALID_ANSWERS["slow"](asked)
    assert good[0] is asked
    assert good[1].input_tokens == 1_000
    answered = {kind: spoil(asked) for kind, spoil in INVALID_ANSWERS.items()}
    assert {kind for kind, (made, _) in answered.items() if made.model == SUBSTITUTE_MODEL} == {
        "swap_model"
    }
    assert {kind: reply.finish for kind, (_, reply) in answered.items()} == {
        "truncate_prompt": "stop", "cut_output": "length", "swap_model": "stop", "abort": "abort",
        "slow": "stop",
    }  # fmt: skip


# --- OpenAI's failures: statuses, terminal events, and usage only where it was asked for ----------


def test_an_unknown_model_is_404_in_chat_and_400_in_responses() -> None:
    apis = ("openai.chat", "openai.responses")
    statuses = [SCRIPTS[api].errors("m")["model_not_found"].status for api in apis]
    assert statuses == [404, 400]


@pytest.mark.parametrize("usage", [True, False])
def test_a_silent_chat_stream_is_complete(usage: bool) -> None:
    request = FaultedRequest(model="m", streamed=True, usage=usage)
    *events, done = SCRIPTS["openai.chat"].stream(request, SILENT)
    assert done == b"data: [DONE]\n\n"
    payloads = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert any(payload.get("usage") for payload in payloads) is usage


def test_a_silent_responses_stream_ends_with_completed() -> None:
    request = FaultedRequest(model="m", streamed=True)
    assert (
        SCRIPTS["openai.responses"]
        .stream(request, SILENT)[-1]
        .startswith(b"event: response.completed\n")
    )
    assert SCRIPTS["openai.responses"].breaking(request).startswith(b"event: response.failed\n")


# --- Gemini's failures: how long to wait is in the body, and a stream may be a JSON array ---------


def test_a_rate_limit_says_in_its_details_how_long_to_wait() -> None:
    details = SCRIPTS["gemini.generateContent"].errors("m")["rate_limit"].body["error"]["details"]
    assert {"retryDelay": f"{WAIT_S}s"}.items() <= details[-1].items()


def test_a_stream_without_sse_is_a_json_array() -> None:
    request = FaultedRequest(model="m", streamed=True, framed=False)
    assert isinstance(
        json.loads(b"".join(SCRIPTS["gemini.generateContent"].stream(request, SILENT))), list
    )


def test_a_stream_with_sse_is_made_of_data_events() -> None:
    request = FaultedRequest(model="m", streamed=True)
    assert all(
        event.startswith(b"data: ") for event in SCRIPTS["gemini.generateContent"].begun(request)
    )


# --- Anthropic's failures: an overload of its own, and streams with named events ------------------

REQUEST = FaultedRequest(model="m", streamed=True)


def test_an_overload_has_anthropics_own_status() -> None:
    error = SCRIPTS["anthropic.messages"].errors("m")["overloaded"]
    assert error.status == 529
    assert error.body["error"]["type"] == "overloaded_error"


def test_a_silent_stream_stops_its_message() -> None:
    events = SCRIPTS["anthropic.messages"].stream(REQUEST, SILENT)
    assert events[0].startswith(b"event: message_start\n")
    assert events[-1].startswith(b"event: message_stop\n")


def test_a_stream_breaks_with_an_error_event() -> None:
    assert SCRIPTS["anthropic.messages"].breaking(REQUEST).startswith(b"event: error\n")


# --- Server-sent events as the scripts write them -------------------------------------------------


def test_an_event_is_a_line_of_data() -> None:
    assert data_event({"a": 1}) == b'data: {"a": 1}\n\n'


def test_a_named_events_payload_has_its_name_as_its_type() -> None:
    assert named_event("ping", n=1) == b'event: ping\ndata: {"type": "ping", "n": 1}\n\n'
