"""Say of each successful answer what was found in it: read, empty, unread or unseen."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from classifier.logical_calls import cut_short, proven_empty
from classifier.records import AnswerState, Ending, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import ObserverLimits
from tests.proxy.wire import samples
from tests.proxy.wire.observing import observed, observing
from tests.proxy.wire.samples import (
    NDJSON,
    SSE,
    block,
    chat,
    chunk,
    delta,
    dump,
    event,
    gemini,
    last,
    lines,
    message,
    messages,
    named,
    response,
    responses,
    says,
    sse,
    text,
)

READ, EMPTY, UNREAD, UNSEEN = AnswerState

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GEMINI, RESPONSES = "/v1beta/models/g:generateContent", "/v1/responses"
CONVERSE, INVOKE = "/model/m/converse", "/model/m/invoke"
OLLAMA, COHERE, SGLANG = "/api/chat", "/v2/chat", "/generate"

_SPENT = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
_THOUGHT = {"input_tokens": 9, "output_tokens": 5}

FOUND = {
    "a text": (CHAT, chat(_SPENT)),
    "a tool call": (CHAT, chat(_SPENT, content=None, tool_calls=[
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}])),
    "a tool call of a kind that is not known": (CHAT, chat(_SPENT, content=None, tool_calls=[
        {"id": "a", "type": "browse"}])),
    "a refusal": (CHAT, chat(_SPENT, content=None, refusal="No.")),
    "a sound": (CHAT, chat(_SPENT, content=None, audio={"id": "a", "data": "UklG"})),
    "a picture": (CHAT, chat(_SPENT, content="", images=[{"image_url": {"url": "data:,"}}])),
    "scores of tokens": ("/v1/completions", dump({"choices": [
        {"text": "", "logprobs": {"tokens": ["a"], "token_logprobs": [-0.1]}}]})),
    "an answer cut at its limit": (CHAT, chat(_SPENT, content="", finish="length")),
    "an answer that a filter stopped": (CHAT, chat(_SPENT, content=None, finish="content_filter")),
    "tokens where no output part is": (CHAT, dump({"model": "m", "usage": _SPENT})),
    "a pause": (MESSAGES, message(_THOUGHT, stop="pause_turn")),
    "a search that the provider runs": (MESSAGES, message(_THOUGHT,
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
    "what a search found": (MESSAGES, message(_THOUGHT,
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})),
    "a completion before messages": ("/v1/complete", dump(
        {"type": "completion", "completion": " Hi", "stop_reason": "stop_sequence"})),
    "a message": (RESPONSES, dump(response(_THOUGHT, says("Hi")))),
    "a picture in a response": (RESPONSES, dump(response(_THOUGHT,
        {"type": "image_generation_call", "id": "i", "result": "iVBO"}))),
    "a conversation made shorter": ("/v1/responses/compact", dump(response(_THOUGHT,
        {"type": "compaction", "id": "c", "encrypted_content": "x"}))),
    "a candidate": (GEMINI, dump(gemini({"candidatesTokenCount": 5}, {"text": "Hi"}))),
    "a picture of a candidate": (GEMINI, dump(gemini(None, {"inlineData": {"data": "iVBO"}}))),
    "a prompt that was blocked": (GEMINI, dump({"promptFeedback": {"blockReason": "SAFETY"}})),
    "a converse message": (CONVERSE, dump({"stopReason": "end_turn", "output": {
        "message": {"content": [{"text": "Hi"}]}}})),
    "a cited text": (CONVERSE, dump({"stopReason": "end_turn", "output": {
        "message": {"content": [{"citationsContent": {"content": [{"text": "Hi"}]}}]}}})),
    "a native answer": (INVOKE, dump({"generation": "Hi", "stop_reason": "stop"})),
    "an ollama message": (OLLAMA, dump({"message": {"content": "Hi"}, "done": True})),
    "a cohere message": (COHERE, dump({"message": {"content": [{"type": "text", "text": "Hi"}]},
                                       "finish_reason": "COMPLETE"})),
    "tokens by number": (SGLANG, dump({"output_ids": [1, 2], "meta_info": {"id": "x"}})),
    "pictures": ("/v1/images/generations", dump({"data": [{"b64_json": "iVBO"}]})),
}  # fmt: skip

HOLLOW = {
    "no text": (CHAT, chat(_SPENT, content="")),
    "null": (CHAT, chat(_SPENT, content=None)),
    "reasoning alone": (CHAT, chat(_SPENT, content=None, reasoning_content="Hm")),
    "no choice": (CHAT, dump({"choices": [], "usage": _SPENT})),
    "no block": (MESSAGES, message(_THOUGHT)),
    "thinking alone": (MESSAGES, message(_THOUGHT, {"type": "thinking", "thinking": "Hm"})),
    "no item": (RESPONSES, dump(response(_THOUGHT))),
    "a response that is not there yet": (RESPONSES, dump(response(None, status="queued"))),
    "a candidate without parts": (GEMINI, dump({"candidates": [{"finishReason": "STOP"}],
                                                "usageMetadata": {"thoughtsTokenCount": 9}})),
    "a prompt blocked for nothing that is named":
        (GEMINI, dump({"promptFeedback": {"blockReason": "OTHER"}})),
    "an empty converse message": (CONVERSE, dump({"stopReason": "end_turn", "output": {
        "message": {"content": []}}, "usage": {"outputTokens": 5}})),
    "an empty native answer": (INVOKE, dump({"generation": "", "stop_reason": "stop",
                                             "generation_token_count": 4})),
    "an empty ollama message": (OLLAMA, dump({"message": {"content": ""}, "done": True,
                                              "done_reason": "stop", "eval_count": 3})),
    "an empty cohere message": (COHERE, dump({"message": {"content": []},
                                              "finish_reason": "COMPLETE"})),
    "no token": (SGLANG, dump({"text": "", "output_ids": [], "meta_info": {
        "finish_reason": {"type": "stop"}, "completion_tokens": 0}})),
    "no picture": ("/v1/images/generations", dump({"data": []})),
}  # fmt: skip

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

FOREIGN = {
    "an object": b"{}",
    "choices that are none": b'{"choices": null}',
    "a name": b'{"id": "x", "object": "chat.completion", "model": "m"}',
    "usage of nothing": b'{"usage": {"prompt_tokens": 9, "completion_tokens": 0}}',
}


@pytest.mark.parametrize("name", FOUND)
def test_output_or_a_stop_that_is_an_answer_is_read(name: str) -> None:
    path, body = FOUND[name]
    assert observed(body, path).answer_state is READ


@pytest.mark.parametrize("name", HOLLOW)
def test_an_output_part_that_holds_nothing_is_empty(name: str) -> None:
    path, body = HOLLOW[name]
    assert observed(body, path).answer_state is EMPTY


@pytest.mark.parametrize("name", BARREN)
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


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, GEMINI, CONVERSE, INVOKE, OLLAMA])
@pytest.mark.parametrize("name", FOREIGN)
def test_what_holds_neither_output_nor_an_error_is_unread(name: str, path: str) -> None:
    exchange = observed(FOREIGN[name], path)
    if "usage" not in name:
        assert exchange.cause is None
    assert exchange.answer_state is UNREAD


NO_OBJECT = {
    "null": b"null",
    "a word": b"OK",
    "a number": b"1",
    "a list": b"[]",
    "a string": b'"The work is done."',
    "an end alone": b"data: [DONE]\n\n",
    "nulls and an end": b"data: null\n\ndata: [DONE]\n\n",
    "another charset": "Schöne Grüße".encode("latin-1"),
    "protobuf": b"\x08\x96\x01\x12\x07testing",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(64),
}


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, GEMINI, CONVERSE, OLLAMA])
@pytest.mark.parametrize("name", NO_OBJECT)
def test_a_body_without_an_object_is_a_failure_of_an_api_that_answers_in_them(
    name: str, path: str
) -> None:
    cause = observed(NO_OBJECT[name], path, type_=None).cause
    assert cause is not None
    assert (cause.subcategory, cause.transient) == (Subcategory.PROVIDER_ERROR, True)
    assert cause.reason in ("foreign_body", "truncated")


@pytest.mark.parametrize("path", [INVOKE, "/v1/complete", "/v1/chat", "/generate", "/predictions"])
@pytest.mark.parametrize("name", NO_OBJECT)
def test_where_any_format_may_come_it_is_none(name: str, path: str) -> None:
    cause = observed(NO_OBJECT[name], path, type_=None).cause
    assert cause is None or (cause.reason == "truncated" and "an end" in name)


@pytest.mark.parametrize("sample", samples.SAMPLES, ids=lambda sample: sample.name)
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


STREAMS = {
    CHAT: (SSE, sse(delta(role="assistant"), delta(content="Hi"), delta("stop"), last(_SPENT)),
           sse(delta(role="assistant"), delta("stop"), last(_SPENT))),
    MESSAGES: (SSE, messages(_THOUGHT, block(0, type="text", text=""), text(0, "Hi"), end=_THOUGHT),
               messages(_THOUGHT, end=_THOUGHT)),
    RESPONSES: (SSE, responses({"type": "response.output_text.delta", "delta": "Hi"},
                               final=response(_THOUGHT)),
                responses(final=response(_THOUGHT))),
    "/v1beta/models/g:streamGenerateContent":
        (SSE, sse(gemini(_SPENT, {"text": "Hi"}), done=False), sse(gemini(_SPENT), done=False)),
    "/model/m/converse-stream": (samples.EVENTS,
        event("contentBlockDelta", {"delta": {"text": "Hi"}, "contentBlockIndex": 0})
        + event("messageStop", {"stopReason": "end_turn"}) + event("metadata", {}),
        event("messageStop", {"stopReason": "end_turn"})
        + event("metadata", {"usage": {"outputTokens": 4}})),
    "/model/m/invoke-with-response-stream": (samples.EVENTS,
        chunk({"generation": "Hi"}) + chunk({"generation": "", "stop_reason": "stop"}),
        chunk({"generation": "", "stop_reason": "stop"})),
    OLLAMA: (NDJSON, lines({"message": {"content": "Hi"}, "done": False}, {"done": True}),
             lines({"message": {"content": ""}, "done": False},
                   {"done": True, "done_reason": "stop", "eval_count": 4})),
    COHERE: (SSE, named({"type": "content-delta", "delta": {"message": {"content": {"text": "x"}}}},
                        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
             named({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}})),
}  # fmt: skip


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_has_the_state_of_what_its_events_hold(path: str) -> None:
    type_, full, hollow = STREAMS[path]
    assert observed(full, path, type_=type_).answer_state is READ
    assert observed(hollow, path, type_=type_).answer_state is EMPTY


def test_events_of_no_known_shape_are_unread() -> None:
    exchange = observed(sse({"tick": 1}, {"tick": 2}), CHAT, type_=SSE)
    assert (exchange.cause, exchange.answer_state) == (None, UNREAD)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\x1f\x9d\x90{", {"content-encoding": "compress"}),
        (b"\xffno gzip at all", {"content-encoding": "gzip"}),
    ],
    ids=[
        "an encoding that is not known",
        "broken gzip",
    ],
)
def test_an_answer_that_cannot_be_looked_at_is_unseen(body: bytes, headers: dict[str, str]) -> None:
    exchange = observed(body, CHAT, headers=headers)
    assert (exchange.cause, exchange.answer_state) == (None, UNSEEN)


@pytest.mark.parametrize("label", ["UTF-8", "aws-chunked", "gzip", "br", "gzip, gzip", "zstd"])
def test_an_answer_whose_encoding_is_stated_falsely_is_read(label: str) -> None:
    stream = sse({"choices": [{"delta": {"content": "four"}}]},
                 {"choices": [{"delta": {}, "finish_reason": "stop"}]})  # fmt: skip
    for body, type_ in ((chat(_SPENT), "application/json"), (stream, SSE)):
        exchange = observed(body, CHAT, type_=type_, headers={"content-encoding": label})
        assert (exchange.cause, exchange.answer_state) == (None, READ)
        assert exchange.unreadable_reason is None
    missing = observed(b'{"error": {"type": "not_found_error", "message": "model: m-9"}}',
                       MESSAGES, status=404, headers={"content-encoding": label})  # fmt: skip
    assert missing.cause is not None
    assert missing.cause.subcategory is Subcategory.MODEL_NOT_FOUND


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_events_that_no_empty_line_divides_are_read_one_by_one(end: bytes) -> None:
    tool = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    told = [delta(role="assistant", content=""), delta(tool_calls=[tool]), delta("tool_calls"),
            last(_SPENT)]  # fmt: skip
    body = b"".join(b"data: " + dump(one) + end for one in told) + b"data: [DONE]" + end * 2
    for pieces in ([body], [body[i : i + 1] for i in range(len(body))]):
        exchange = observed(pieces, CHAT, type_=SSE)
        assert (exchange.cause, exchange.answer_state, exchange.tool_calls) == (None, READ, 1)
        assert exchange.finish_reason == "tool_calls"
        assert exchange.usage.output_tokens == _SPENT["completion_tokens"]
    failing = body.replace(dump(told[2]), b'{"error": {"message": "The engine crashed."}}')
    exchange = observed(failing, CHAT, type_=SSE)
    assert exchange.cause is not None


@pytest.mark.parametrize("between", [b"", b" ", b"\ndata: ", b"event: error\ndata: ", b"data:"])
def test_an_event_that_begins_inside_another_is_read(between: bytes) -> None:
    begun, failed = dump(delta(content="Hi")), {"error": {"code": "insufficient_quota"}}
    exchange = observed(b"data: " + begun + between + dump(failed) + b"\n\n", CHAT, type_=SSE)
    assert exchange.output_seen
    assert exchange.cause is not None
    assert exchange.cause.subcategory is Subcategory.QUOTA


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


def test_what_came_of_a_stream_before_it_broke_is_read() -> None:
    begun = sse(delta(content="Hi"), done=False)
    cut = observed(begun, CHAT, type_=SSE, ending=Ending.CUT_UPSTREAM)
    left = observed(begun, CHAT, type_=SSE, ending=Ending.LEFT_BY_AGENT)
    assert (cut.answer_state, left.answer_state) == (READ, READ)


def test_only_calls_of_which_output_is_expected_have_a_state() -> None:
    counted = observed(b'{"input_tokens": 9}', "/v1/messages/count_tokens")
    vector = observed(dump({"data": [{"embedding": [0.1]}], "usage": _SPENT}), "/v1/embeddings")
    assert (counted.kind, counted.answer_state) == (Kind.PROBE, None)
    assert (vector.kind, vector.answer_state) == (Kind.EMBEDDING, None)


# --- questions at a path that is not read --------------------------------------------------


@pytest.mark.parametrize(
    "path, request_, api",
    [
        ("/v1/answers", {"model": "m", "input": "2+2"}, "unread /v1/answers"),
        ("/v1/answers/7f3a9c21/ask", {"messages": []}, "unread /v1/answers/*/ask"),
        ("/v1/answers", {"model": "m", "query": "2+2", "documents": []}, "opaque"),
        ("/v1/answers", {"batch": []}, "opaque"),
        ("/v1/chat/completions", {"messages": []}, "openai.chat"),
    ],
)
def test_a_question_at_a_path_that_is_not_read_is_told_by_its_api(
    path: str, request_: dict[str, Any], api: str
) -> None:
    said = json.dumps(request_).encode()
    assert observed(b'{"id": 1}', path, request=said).api == api


def test_an_answer_that_is_read_by_its_shape_asked_nothing_unread() -> None:
    answer = b'{"output_text": "It is four.", "usage": {"output_tokens": 4}}'
    exchange = observed(answer, "/v1/answers", request=b'{"model": "m", "input": "2+2"}')
    assert (exchange.kind, exchange.api) == (Kind.INFERENCE, "opaque")


@pytest.mark.parametrize(
    "status, why, gives",
    [
        (400, "The input is longer than the maximum context length", Subcategory.REJECTED_REQUEST),
        (503, "Out of memory while decoding", Subcategory.PROVIDER_ERROR),
    ],
)
def test_an_engine_that_says_why_it_aborted_is_believed(
    status: int, why: str, gives: Subcategory
) -> None:
    reason = {"type": "abort", "message": why, "status_code": status, "err_type": "E"}
    body = {"text": "", "meta_info": {"id": "r1", "finish_reason": reason, "completion_tokens": 0}}
    told = observed(dump(body), "/generate").cause
    assert told is not None
    assert told.subcategory is gives
