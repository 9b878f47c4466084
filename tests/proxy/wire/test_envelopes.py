"""Failures inside a 2xx on four wires, alone and midway; and answers that only look like one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Exchange, Kind
from proxy.wire.provider_error import read_error
from tests.answers.table import ENVELOPES
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import JSON, SSE, TEXT_DELTA, delta, dump, gemini, named, sse, text
from tests.tables import each

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"
INTERACTIONS = "/v1/interactions"
STREAM_GEMINI = "/v1beta/models/m:streamGenerateContent"
# Of each wire: its path, its path where that asks for a stream, a stream's beginning with output.
WIRES = {
    "chat": (CHAT, CHAT, sse(delta(content="Yes"), done=False)),
    "responses": (RESPONSES, RESPONSES, named(TEXT_DELTA)),
    "messages": (MESSAGES, MESSAGES, named(
        {"type": "message_start", "message": {"id": "m", "type": "message", "model": "m",
                                              "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        text(0, "Yes"))),
    "gemini": (GEMINI, STREAM_GEMINI,
               sse(gemini({"promptTokenCount": 1}, {"text": "Yes"}, finish=None), done=False)),
    "interactions": (INTERACTIONS, INTERACTIONS, named(
        {"event_type": "interaction.created", "interaction": {"id": "i", "status": "in_progress"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Yes"}})),
}  # fmt: skip


def cause(exchange: Exchange) -> str | None:
    assert exchange.unreadable_reason is None
    return None if exchange.cause is None else exchange.cause.subcategory.value


def assert_fails(exchange: Exchange, expected: str) -> None:
    assert cause(exchange) == expected


def named_event(body: object, name: str = "error") -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), dump(body))


def needs_no_output(name: str) -> bool:
    """Whether the envelope is a code alone, which no answer with an output is failed by."""
    return name.endswith("-alone")


# A sentence alone, which marks no failure by itself: where no model was asked it may say anything,
# and behind an output only FastAPI's key still tells.
_SENTENCE_ALONE = frozenset(("api-gateway", "api-gateway-token", "kong"))
_DETAIL_ALONE = frozenset(("fastapi", "fastapi-object", "fastapi-list"))
# Behind an output an event is parsed for the keys of errors that are usual, which these lack.
_UNUSUAL = frozenset(("failure-reason", "openstack", "problem", "return-code", "aws-json-bare",
                      "lambda-proxied", "http-status"))  # fmt: skip

OBJECTS = [(row.fact, row.body, row.label) for row in ENVELOPES if row.set == "envelopes"]
TEXTS = [(row.fact, row.sent(), row.label) for row in ENVELOPES if row.set == "texts"]
HEALTHY: dict[str, Any] = {row.fact: row.body for row in ENVELOPES if row.cause is None}

WHOLE = [(wire, *row) for wire in WIRES for row in OBJECTS]
IDS: dict[str, Any] = {"ids": lambda case: f"{case[0]}-{case[1]}"}
on_wires = pytest.mark.parametrize("wires", [1, pytest.param(len(WIRES), marks=pytest.mark.slow)])
_PLACES = {name: place for place, (name, *_) in enumerate(OBJECTS)}


def is_on(wire: str, name: str, wires: int) -> bool:
    """Whether an envelope is tried on this wire; where on one, on each wire there are some."""
    return wires > 1 or list(WIRES)[_PLACES[name] % len(WIRES)] == wire


@on_wires
@each("wire, name, body, expected", WHOLE, **IDS)
def test_an_envelope_alone_is_a_failure(
    wire: str, name: str, body: object, expected: str, wires: int
) -> None:
    if not is_on(wire, name, wires):
        return
    path, streamed, _ = WIRES[wire]
    assert_fails(observed(dump(body), path), expected)
    for stream in (sse(body, done=False), named_event(body)):
        assert_fails(observed(stream, streamed, type_=SSE), expected)


@on_wires
@each("wire, name, body, expected", WHOLE, **IDS)
def test_an_envelope_behind_output_is_a_failure(
    wire: str, name: str, body: object, expected: str, wires: int
) -> None:
    if not is_on(wire, name, wires) or needs_no_output(name) or name in _UNUSUAL:
        return
    _, streamed, begun = WIRES[wire]
    # A request that was accepted is rejected no more: what generated fails.
    later = "provider_error" if expected == "rejected_request" else expected
    plain = [] if name in _SENTENCE_ALONE else [sse(body, done=False)]
    for event in (named_event(body), *plain):
        for pieces in ([begun + event], [begun, event]):
            assert_fails(observed(pieces, streamed, type_=SSE), later)


@each("wire, name, body, expected", [(w, *row) for w in WIRES for row in TEXTS], **IDS)
def test_a_text_that_states_a_failure_is_one(
    wire: str, name: str, body: bytes, expected: str
) -> None:
    type_ = JSON if body[:1] in b'[{"' else "text/plain"
    assert_fails(observed(body, WIRES[wire][0], type_=type_), expected)


_CITY = b"Too many requests were counted in the city that year. " * 60


@each("path, body", [
    (CHAT, b"OK"), (CHAT, b"null"), (CHAT, b"[]"), (CHAT, b"200"), (CHAT, b"pong"),
    (CHAT, b"Accepted"), (CHAT, b"true"), (CHAT, _CITY),
    ("/v1/audio/transcriptions", b"Rate limit exceeded, said the speaker."),
    ("/generate", b"Internal Server Error"),
    ("/generate", b'[{"generated_text": "Rate limit exceeded, slow down"}]'),
    ("/hooks/1", b"Too Many Requests"),
    (CHAT, b"<answer><text>Rate limit exceeded</text></answer>"),
    ("/v1/images/generations", b"<svg><title>Error</title><desc>Unauthorized</desc></svg>"),
])  # fmt: skip
def test_a_text_that_states_no_failure_is_none(path: str, body: bytes) -> None:
    found = observed(body, path, type_="text/plain").cause  # if not what such a path answers
    assert found is None or found.rule == "flaw.foreign_body"


@each("name", ["metadata", "debug-echo", "filters", "code-alone-beside-output"])
def test_what_stands_beside_the_output_of_a_stream_is_no_failure(name: str) -> None:
    beside = {key: value for key, value in HEALTHY[name].items() if key != "choices"}
    stream = sse(delta(content="Yes") | beside, beside | {"choices": []}, delta("stop"))
    assert cause(observed(stream, CHAT, type_=SSE)) is None


# -- where no dialect is known -------------------------------------------------------------------


@each("name, body, expected", OBJECTS, ids=lambda case: case[0])
def test_an_envelope_where_no_dialect_is_known_is_a_failure(
    name: str, body: Any, expected: str
) -> None:
    exchange = observed(dump(body), "/serving-endpoints/m/invocations")
    assert exchange.kind is Kind.OTHER
    if needs_no_output(name) or name in _SENTENCE_ALONE | _DETAIL_ALONE:
        assert exchange.cause is None
    else:
        assert_fails(exchange, expected)


# -- whatever a request may say --------------------------------------------------------------------


WORDS = st.sampled_from([
    "error", "errors", "Error", "fault", "success", "status", "code", "message", "detail", "failed",
    "Rate limit exceeded", "errorMessage", "errcode", "header", "body", "invalid_api_key", "ok",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-1, 600) | WORDS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
ECHOES = st.sampled_from(["metadata", "input", "request", "arguments", "messages", "prompt",
                          "instructions", "params", "context", "tools"])  # fmt: skip


@given(st.dictionaries(ECHOES, ANYTHING, max_size=3))
def test_no_echo_of_a_request_fails_an_answer(echo: dict[str, object]) -> None:
    body = dump(HEALTHY["says-json"] | echo)
    assert cause(observed(body, CHAT)) is None
    assert cause(observed(dump({"id": "1", "status": "succeeded"} | echo), "/opaque")) is None


@given(st.dictionaries(WORDS, ANYTHING, max_size=5), st.sampled_from([None, "error", "message"]))
def test_no_envelope_makes_it_raise(body: dict[str, object], event: str | None) -> None:
    for refused in (True, False):
        for answered in (True, False):
            read_error(body, event=event, refused=refused, answered=answered)
            read_error([body], event=event, refused=refused, marked=True)
