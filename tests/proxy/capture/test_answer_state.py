"""Say of each successful answer what was found in it: read, empty, unread or unseen."""

from __future__ import annotations

import gzip
import json

import pytest

from classifier.logical_calls import cut_short, proven_empty
from classifier.records import AnswerState, Ending, Kind
from proxy.capture.observer import ObserverLimits
from tests.proxy.wire import samples
from tests.proxy.wire.observing import observed, observing
from tests.proxy.wire.samples import (
    SSE,
    chat,
    delta,
    dump,
    message,
    response,
    sse,
)
from tests.tables import each

READ, EMPTY, UNREAD, UNSEEN = AnswerState

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GEMINI, RESPONSES = "/v1beta/models/g:generateContent", "/v1/responses"
CONVERSE = "/model/m/converse"
OLLAMA = "/api/chat"

_SPENT = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


_NONE = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
BARREN = {
    "a chat": (CHAT, chat(_NONE, content="", finish="length")),
    "a message": (MESSAGES, message({"input_tokens": 9, "output_tokens": 0}, stop="max_tokens")),
    "a response": (RESPONSES, dump(response({"input_tokens": 9, "output_tokens": 0},
        status="incomplete") | {"incomplete_details": {"reason": "max_output_tokens"}})),
    "a candidate, whose count of 0 is left out": (GEMINI, dump({"candidates": [
        {"finishReason": "MAX_TOKENS"}], "usageMetadata": {
            "promptTokenCount": 9, "totalTokenCount": 9}})),
    "a converse message": (CONVERSE, dump({"stopReason": "max_tokens", "output": {
        "message": {"content": []}}, "usage": {"inputTokens": 9, "outputTokens": 0}})),
    "an ollama message": (OLLAMA, dump({"message": {"content": ""}, "done": True,
                                        "done_reason": "length", "eval_count": 0})),
}  # fmt: skip
# Where thinking spent all that the request allowed, 16 tokens, and the stop does not say so.
_ALL = {"prompt_tokens": 9, "completion_tokens": 16, "total_tokens": 25}
SPENT: dict[str, tuple[str, dict[str, object], bytes]] = {
    "a chat": (CHAT, {"max_tokens": 16}, chat(_ALL, content=None, reasoning_content="We need")),
    "a chat, in secret": (CHAT, {"max_completion_tokens": 16}, chat(_ALL, content="")),
    "a message": (MESSAGES, {"max_tokens": 16}, message({"input_tokens": 9, "output_tokens": 16},
        {"type": "thinking", "thinking": "Hm"})),
    "a candidate": (GEMINI, {"generationConfig": {"maxOutputTokens": 16}}, dump({
        "candidates": [{"finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 16}})),
}  # fmt: skip


@each("name", BARREN)
def test_a_stop_at_a_limit_that_generated_nothing_is_empty(name: str) -> None:
    path, body = BARREN[name]
    exchange = observed(body, path)
    assert (exchange.cause, exchange.answer_state) == (None, EMPTY)
    assert proven_empty(exchange)
    assert not cut_short(exchange)


@pytest.mark.parametrize("name", SPENT)
@pytest.mark.parametrize("left", [0, 1])
def test_thinking_up_to_the_limit_that_was_asked_for_is_an_answer(name: str, left: int) -> None:
    path, asked, body = SPENT[name]
    if left:
        asked = json.loads(json.dumps(asked).replace("16", "17"))
    exchange = observed(body, path, request=dump({"model": "m", "messages": []} | asked))
    assert exchange.answer_state is (EMPTY if left else READ)
    assert cut_short(exchange) is not bool(left)
    assert proven_empty(exchange) is bool(left)


@each("sample", samples.SAMPLES, ids=lambda sample: sample.name)
def test_every_documented_answer_is_read_or_empty(sample: samples.Sample) -> None:
    exchange = observed(sample.body, sample.path, type_=sample.type, headers=sample.headers)
    if exchange.kind in (Kind.EMBEDDING, Kind.OTHER):
        assert exchange.answer_state is None
    elif exchange.cause is not None:
        assert exchange.answer_state in (None, READ)
    elif exchange.output_seen is None:
        assert exchange.answer_state is UNREAD
    elif exchange.content_seen:
        assert exchange.answer_state is READ
    else:
        assert exchange.answer_state in (READ, EMPTY)


def test_an_answer_over_the_limit_is_unseen_and_a_decoded_one_is_seen() -> None:
    observer = observing(CHAT, limits=ObserverLimits(body_bytes=64))
    observer.on_response_body(chat(_SPENT), 101.0)
    assert observer.finish(Ending.COMPLETE, 102.0).answer_state is UNSEEN
    packed = gzip.compress(json.dumps({"no": "answer"}).encode())
    assert observed(packed, CHAT, headers={"content-encoding": "gzip"}).answer_state is UNREAD


def test_a_stream_that_turns_unreadable_after_its_text_is_read() -> None:
    observer = observing(CHAT, type_=SSE, limits=ObserverLimits(line_bytes=400))
    observer.on_response_body(sse(delta(content="Hi"), done=False), 101.0)
    observer.on_response_body(b"data: " + b"x" * 500, 101.5)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert exchange.unreadable_reason is not None
    assert exchange.answer_state is READ


def test_what_is_no_success_has_no_state() -> None:
    failed = dump({"error": {"message": "Overloaded", "type": "server_error"}})
    opened = observing(CHAT).in_flight()
    assert opened.answer_state is None
    assert observed(failed, CHAT).answer_state is None
    assert observed(failed, CHAT, status=503).answer_state is None
    assert observed(chat(_SPENT), CHAT, status=404).answer_state is None
    assert observed(b"", CHAT).answer_state is None
    assert observed(b"{}", CHAT, status=302).answer_state is UNREAD
    assert observed(b'{"cho', CHAT, ending=Ending.LEFT_BY_AGENT).answer_state is None
    assert observed(b"{}", CHAT, status=201).answer_state is UNREAD
    assert observed(chat(_SPENT), CHAT, status=206).answer_state is READ
