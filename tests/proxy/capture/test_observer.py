# ruff: noqa: SLF001
# Private: a fault of ours is put where it is read.
from __future__ import annotations

import gc
import random
import re
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Ending, Exchange, UsageSource
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.wire.dialect import Dialect
from proxy.wire.response import PayloadReader, ResponseReader
from tests.proxy.wire.observing import SALT, call, observed, observing
from tests.proxy.wire.samples import (
    CHAT_USAGE,
    EVENTS,
    MESSAGE_USAGE,
    NDJSON,
    RESPONSE_USAGE,
    SAMPLES,
    SSE,
    STREAM_GENERATE,
    TEXT_DELTA,
    Sample,
    chat,
    chunk,
    delta,
    dump,
    event,
    gemini,
    last,
    lines,
    named,
    response,
    sse,
    text,
)  # fmt: skip
from tests.tables import each

DELTA = sse(delta(content="Yes"), done=False)
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


# -- the terminal event --------------------------------------------------------------------


@each(
    "path, type_, before, terminal",
    [
        ("/v1/chat/completions", SSE, DELTA, b"data: [DONE]\n\n"),
        ("/v1/messages", SSE, named(text(0, "Yes")), named({"type": "message_stop"})),
        ("/v1/responses", SSE, named(TEXT_DELTA),
         named({"type": "response.completed", "response": response(RESPONSE_USAGE)})),
        ("/v1/responses", SSE, named(TEXT_DELTA),
         named({"type": "response.incomplete",
                "response": response(RESPONSE_USAGE, status="incomplete")})),
        ("/v1/responses", SSE, named(TEXT_DELTA),
         named({"type": "response.failed", "response": response(RESPONSE_USAGE, status="failed")})),
        ("/v2/chat", SSE, named({"type": "content-start"}),
         named({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}})),
        ("/api/chat", NDJSON, lines({"message": {"content": "a"}, "done": False}),
         lines({"message": {"content": ""}, "done": True, "done_reason": "stop"})),
        ("/model/m/converse-stream", EVENTS, event("messageStop", {"stopReason": "end_turn"}),
         event("metadata", {"usage": {"inputTokens": 1}})),
        ("/model/m/invoke-with-response-stream", EVENTS, chunk({"outputText": "a"}),
         chunk({"outputText": "", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}})),
    ],
)  # fmt: skip
def test_feed_tells_the_terminal_event_once(
    path: str, type_: str, before: bytes, terminal: bytes
) -> None:
    observer = observing(path, type_=type_)
    assert observer.on_response_body(before, 101.0) is False
    assert observer.on_response_body(terminal[:-1], 101.1) is False
    assert observer.on_response_body(terminal[-1:], 101.2) is True
    assert observer.on_response_body(b"\n", 101.3) is False


def test_gemini_has_no_terminal_event() -> None:
    observer = observing(STREAM_GENERATE, type_=SSE)
    assert (
        observer.on_response_body(
            sse(gemini({"promptTokenCount": 1}, {"text": "a"}), done=False), 101.0
        )
        is False
    )


def test_finishing_twice_tells_what_came_in_between() -> None:
    observer = observing(type_=SSE)
    observer.on_response_body(sse(delta(content="Yes"), delta("stop")), 101.0)
    first = observer.finish(Ending.COMPLETE, 101.5)
    assert first == observer.finish(Ending.COMPLETE, 101.5)
    observer.on_response_body(sse(last(CHAT_USAGE), done=False), 101.7)
    second = observer.finish(Ending.COMPLETE, 102.0)
    assert (first.usage.input_tokens, second.usage.input_tokens) == (None, 12)
    assert second.response_bytes > first.response_bytes


def test_finishing_in_the_middle_of_an_event_disturbs_nothing() -> None:
    sample = next(one for one in SAMPLES if one.name == "stream-tool-calls")
    observer = observing(type_=SSE)
    for place in range(len(sample.body)):
        observer.on_response_body(sample.body[place : place + 1], 101.0)
        observer.finish(Ending.COMPLETE, 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert (exchange.tool_calls, exchange.usage.output_tokens) == (2, 5)


def test_an_unended_last_line_is_told_each_time_and_counted_once() -> None:
    told = {"message": {"tool_calls": [{"function": {"name": "f"}}]}, "done": True}
    observer = observing("/api/chat", type_=NDJSON)
    observer.on_response_body(dump(told), 101.0)
    assert [observer.finish(Ending.COMPLETE, 101.5).tool_calls for _ in range(3)] == [1, 1, 1]


# -- what is wrong with an answer whose status says all is well ----------------------------


@each("method, path", [("HEAD", "/"), ("GET", "/v1/models"), ("POST", "/v1/embeddings")])
def test_only_an_inference_can_be_empty(method: str, path: str) -> None:
    observer = CallObserver(call(path, method=method), salt=SALT)
    observer.on_response_head(200, [], 100.1)
    assert observer.finish(Ending.COMPLETE, 101.0).cause is None


# -- errors inside a 200, and outside ------------------------------------------------------

LIMITED = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}


def test_an_agent_that_leaves_makes_no_provider_failure_unless_nothing_had_come_for_long() -> None:
    def left(at: float) -> bool:
        observer = observing(type_=SSE)
        observer.on_response_body(DELTA, 101.0)
        return observer.finish(Ending.LEFT_BY_AGENT, at).failed

    assert left(130.0) is False
    assert left(162.0) is True


# -- streams, tokens, timing ---------------------------------------------------------------


def test_first_byte_and_first_token_are_told_apart() -> None:
    observer = observing("/v1/messages", type_=SSE)
    observer.on_response_body(
        named({"type": "message_start", "message": {"usage": MESSAGE_USAGE}}), 101.0
    )
    observer.on_response_body(named({"type": "ping"}), 102.0)
    observer.on_response_body(named(text(0, "Yes")), 104.0)
    observer.on_response_body(named(text(0, " and"), {"type": "message_stop"}), 105.0)
    timing = observer.finish(Ending.COMPLETE, 106.0).timing
    assert timing.first_byte_s == pytest.approx(0.5)
    assert timing.first_token_s == pytest.approx(4.0)
    assert timing.duration_s == pytest.approx(6.0)


def test_every_chunk_is_counted_whatever_is_understood() -> None:
    body = sse(*(delta(content="word") for _ in range(50)), delta("stop"))
    assert observed(body, type_=SSE).response_bytes == len(body)


def test_a_skimmed_stream_says_what_a_read_one_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortcut for events that tell nothing must lose nothing: compare with none.

    But for what was said: that is known only where all was read.
    """
    streams = [one for one in SAMPLES if one.type == SSE]

    def read() -> list[Exchange]:
        found = [observed(_events(one.body), one.path, type_=SSE) for one in streams]
        return [replace(each, output_digest=None, output_reads_as=None) for each in found]

    skimmed = read()
    monkeypatch.setattr(ResponseReader, "_skimming", lambda _: None)
    monkeypatch.setattr(PayloadReader, "is_worth_parsing", lambda *_: True)
    assert read() == skimmed


def _events(body: bytes) -> list[bytes]:
    """Cut a body into pieces that each end with an event, as providers flush them."""
    return [piece for piece in re.split(rb"(?<=\n\n)", body) if piece]


# -- deafness ------------------------------------------------------------------------------


def test_an_sse_line_of_ten_megabytes_is_survived() -> None:
    observer = observing(type_=SSE)
    observer.on_response_body(b"data: ", 101.0)
    for _ in range(160):
        observer.on_response_body(b"x" * 65_536, 101.0)
    observer.on_response_body(
        b"\n\n" + sse(delta(content="Yes"), delta("stop"), last(CHAT_USAGE)), 102.0
    )
    exchange = observer.finish(Ending.COMPLETE, 103.0)
    assert (exchange.unreadable_reason, exchange.usage.input_tokens) == (None, 12)


@each(
    "body, type_, limits, why",
    [
        (b"data: " + b"x" * 200, SSE, ObserverLimits(line_bytes=100), "SSE event"),
        (b'{"a":"' + b"x" * 200, NDJSON, ObserverLimits(line_bytes=100), "line of JSON"),
        (chat(USAGE), "application/json", ObserverLimits(body_bytes=100), "body is over"),
        (b"\x00" * 40, EVENTS, ObserverLimits(), "sum"),
    ],
)
def test_past_its_budget_the_tap_goes_deaf_says_why_and_goes_on_counting(
    body: bytes, type_: str, limits: ObserverLimits, why: str
) -> None:
    observer = observing(type_=type_, limits=limits)
    assert observer.on_response_body(body, 101.0) is False
    assert observer.on_response_body(b"data: [DONE]\n\n", 102.0) is False
    exchange = observer.finish(Ending.COMPLETE, 103.0)
    assert exchange.unreadable_reason is not None
    assert why in exchange.unreadable_reason
    assert exchange.response_bytes == len(body) + 14
    assert (exchange.cause, exchange.output_seen, exchange.tool_calls) == (None, None, None)


def test_what_was_heard_before_it_went_deaf_is_kept() -> None:
    observer = observing("/v1/messages", type_=SSE, limits=ObserverLimits(line_bytes=500))
    observer.on_response_body(
        named({"type": "message_start", "message": {"usage": MESSAGE_USAGE}}, text(0, "Yes")), 101.0
    )
    observer.on_response_body(b"data: " + b"x" * 600, 102.0)
    exchange = observer.finish(Ending.COMPLETE, 103.0)
    assert exchange.unreadable_reason is not None
    assert (exchange.output_seen, exchange.usage.input_tokens) == (True, 20)
    assert exchange.usage.source is UsageSource.PARTIAL


@pytest.mark.parametrize("where", ["feed", "finish"])
def test_an_unexpected_error_of_ours_makes_it_deaf_and_is_named_without_content(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("prompt text")

    observer = observing(type_=SSE if where == "feed" else "application/json")
    unreadable = Dialect(name="x", read=broken, totals=_no_totals)
    monkeypatch.setattr(observer._response.payloads, "dialect", unreadable)
    assert observer.on_response_body(DELTA if where == "feed" else chat(USAGE), 101.0) is False
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert exchange.unreadable_reason is not None
    assert "KeyError" in exchange.unreadable_reason
    assert "prompt" not in exchange.unreadable_reason


def test_a_failed_call_that_could_not_be_read_is_failed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise KeyError

    observer = observing(status=503)
    observer.on_response_body(dump(LIMITED), 101.0)
    unreadable = Dialect(name="x", read=broken, totals=_no_totals)
    monkeypatch.setattr(observer._response.payloads, "dialect", unreadable)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert exchange.unreadable_reason is not None
    assert exchange.cause is not None
    assert exchange.cause.rule.startswith("status.")


def _no_totals(_: object) -> tuple[None, None]:
    return None, None


# -- nothing raises, nothing is kept -------------------------------------------------------

PATHS = sorted({one.path for one in SAMPLES})
TYPES = [None, "application/json", SSE, NDJSON, EVENTS, "application/stream+json", "text/html"]


@given(
    st.sampled_from(PATHS),
    st.sampled_from(TYPES),
    st.sampled_from([200, 204, 400, 429, 500]),
    st.lists(st.binary(max_size=80), max_size=6),
    st.sampled_from(sorted(Ending)),
    st.sampled_from([None, "gzip", "br", "zstd", "deflate"]),
)
def test_random_bytes_raise_nothing(
    path: str,
    type_: str | None,
    status: int,
    pieces: list[bytes],
    ending: Ending,
    encoding: str | None,
) -> None:
    headers = {"content-encoding": encoding} if encoding else {}
    exchange = observed(pieces, path, type_=type_, status=status, ending=ending, headers=headers)
    assert exchange.response_bytes == sum(map(len, pieces))
    assert exchange.usage.source in (UsageSource.ABSENT, UsageSource.PARTIAL)


def test_samples_with_random_damage_raise_nothing() -> None:
    chance = random.Random(7)
    for sample in SAMPLES:
        for _ in range(10):
            body = bytearray(sample.body)
            for _ in range(chance.randint(1, 4)):
                body[chance.randrange(len(body))] = chance.randrange(256)
            exchange = observed(bytes(body), sample.path, type_=sample.type)
            assert (
                exchange.unreadable_reason is None or "while" not in exchange.unreadable_reason
            ), sample.name


KEYS = [
    "call_id", "finishReason", "content_block", "role", "choices", "usage", "message",
    "delta", "content", "tool_calls", "function", "name", "index", "type", "response",
    "output", "candidates", "parts", "usageMetadata", "error", "finish_reason",
    "prompt_tokens", "tokens", "meta", "done", "bytes", "start", "id", "model", "stop_reason",
    "results", "text", "item",
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(KEYS),
        inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.sampled_from(PATHS), st.sampled_from(["application/json", SSE, NDJSON]), json_values)
def test_any_json_of_the_wrong_types_is_read_without_an_error(
    path: str, type_: str, value: object
) -> None:
    body = dump(value)
    exchange = observed(sse(body) if type_ == SSE else body, path, type_=type_)
    assert exchange.unreadable_reason is None


def test_no_text_of_request_or_answer_is_in_the_exchange() -> None:
    secret = "S3CRET"
    said = sse(delta(content=secret), delta(tool_calls=[{"index": 0, "id": "1", "function": {
        "name": "f", "arguments": secret}}]),
        {"error": {"message": secret, "code": "rate_limit_exceeded"}})  # fmt: skip
    exchange = observed(said, type_=SSE, request=dump({"model": "m", "messages": [secret]}))
    assert exchange.failed
    assert all(secret not in repr(getattr(exchange, field.name)) for field in fields(exchange))


@each("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_call_leaves_nothing_for_the_garbage_collector(sample: Sample) -> None:
    """Each collection would hold every stream up, and half of a call's garbage looks like this."""

    def played() -> None:
        observed(sample.body, sample.path, type_=sample.type, headers=sample.headers)

    played()  # what is cached is cached
    gc.disable()
    gc.freeze()  # what is there already, of this process and its tests, is not looked through
    try:
        played()
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()
