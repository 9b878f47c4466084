"""What an answer says stays as a digest and as the failure that it tells of, in every dialect."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest

from classifier.records import Ending, Exchange
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import (
    NDJSON,
    SSE,
    chat,
    delta,
    dump,
    gemini,
    lines,
    message,
    named,
    response,
    says,
    sse,
    text,
)
from tests.tables import each

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI, STREAMED_GEMINI = (
    f"/v1beta/models/g:{verb}" for verb in ("generateContent", "streamGenerateContent?alt=sse")
)
CONVERSE, OLLAMA, COHERE = "/model/m/converse", "/api/chat", "/v2/chat"
ERROR = "[API ERROR] HTTP 500: Internal Server Error"
TOKENS = {"input_tokens": 9, "output_tokens": 5}


def converse(*content: dict[str, Any]) -> bytes:
    return dump({"stopReason": "end_turn", "output": {"message": {"content": list(content)}}})


def function(arguments: str, id_: str = "a", name: str = "look") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def texts(said: str) -> dict[str, tuple[str, bytes, str]]:
    """Answers that say a text: path, body and content type."""
    start = {"type": "message_start", "message": {"usage": TOKENS}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    stop, end = {"type": "content_block_stop", "index": 0}, {"type": "message_stop"}
    snapshot = {"type": "response.completed", "response": response(TOKENS, says(said))}
    return {
        "chat": (CHAT, chat({}, content=said), ""),
        "chat in parts": (CHAT, chat({}, content=[{"type": "text", "text": said}]), ""),
        "chat, streamed": (CHAT, sse(delta(role="assistant"), delta(content=said),
                                     delta("stop")), SSE),
        "messages": (MESSAGES, message(TOKENS, {"type": "text", "text": said}), ""),
        "messages, streamed": (
            MESSAGES, named(start, block, text(0, said), stop, end), SSE),
        "responses": (RESPONSES, dump(response(TOKENS, says(said))), ""),
        "responses, streamed": (RESPONSES, named(
            {"type": "response.output_text.delta", "delta": said[:2]},
            {"type": "response.output_text.delta", "delta": said[2:]}, snapshot), SSE),
        "gemini": (GEMINI, dump(gemini({}, {"text": said})), ""),
        "gemini, streamed": (STREAMED_GEMINI, b"".join(
            b"data: " + dump(gemini({}, {"text": half})) + b"\n\n"
            for half in (said[:2], said[2:])), SSE),
        "converse": (CONVERSE, converse({"text": said}), ""),
        "ollama": (OLLAMA, dump({"message": {"content": said}, "done": True}), ""),
        "cohere": (COHERE, dump({"message": {"content": [{"type": "text", "text": said}]},
                                 "finish_reason": "COMPLETE"}), ""),
    }  # fmt: skip


def called(arguments: dict[str, Any], id_: str) -> dict[str, tuple[str, bytes, str]]:
    """Answers that call a tool: path, body and content type; ``id_`` is drawn anew each time."""
    written = json.dumps(arguments)
    use = {"type": "tool_use", "id": id_, "name": "look"}
    item = {"type": "function_call", "call_id": id_, "name": "look", "arguments": written}
    return {
        "chat": (CHAT, chat({}, content=None, tool_calls=[function(written, id_)]), ""),
        "chat, streamed": (CHAT, sse(
            delta(tool_calls=[function("", id_) | {"index": 0}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": written}}]),
            delta("tool_calls")), SSE),
        "messages": (MESSAGES, message(TOKENS, use | {"input": arguments}), ""),
        "responses": (RESPONSES, dump(response(TOKENS, item)), ""),
        "responses, streamed": (RESPONSES, named(
            {"type": "response.output_item.added", "item": item | {"arguments": ""}},
            {"type": "response.completed", "response": response(TOKENS, item)}), SSE),
        "gemini": (GEMINI, dump(gemini({}, {"functionCall": {
            "name": "look", "args": arguments}})), ""),
        "converse": (CONVERSE, converse({"toolUse": {
            "toolUseId": id_, "name": "look", "input": arguments}}), ""),
        "ollama": (OLLAMA, dump({"done": True, "message": {"content": "", "tool_calls": [
            {"function": {"name": "look", "arguments": arguments}}]}}), ""),
    }  # fmt: skip


def seen(answer: tuple[str, bytes, str], *, split: bool = False) -> Exchange:
    """An answer as it is captured, in one piece or one piece an event."""
    path, body, type_ = answer
    pieces = [one for one in re.split(rb"(?<=\n\n)", body) if one] if split else [body]
    return observed(pieces, path, type_=type_ or "application/json")


TEXTS, OTHERS = texts("It is in the parser."), texts("It is in the reader.")
CALLS = called({"path": "a.py"}, "call_1")


@each("kind", TEXTS)
def test_equal_texts_have_equal_digests_and_others_have_others(kind: str) -> None:
    one, again, other = seen(TEXTS[kind]), seen(TEXTS[kind]), seen(OTHERS[kind])
    assert one.output_digest is not None
    assert len(one.output_digest) == 32
    assert one.output_digest == again.output_digest != other.output_digest
    assert one.output_reads_as is None


@each("kind", CALLS)
def test_a_tool_call_is_its_name_and_arguments(kind: str) -> None:
    one, again = seen(CALLS[kind]), seen(called({"path": "a.py"}, "call_2")[kind])
    other = seen(called({"path": "b.py"}, "call_1")[kind])
    assert one.tool_calls == 1
    assert one.output_digest is not None
    assert one.output_digest == again.output_digest != other.output_digest


def test_calls_count_with_their_text_or_without() -> None:
    spoken = chat({}, content="I look.", tool_calls=[function("{}")])
    silent = chat({}, content=None, tool_calls=[function("{}")])
    assert seen((CHAT, spoken, "")).output_digest == seen((CHAT, silent, "")).output_digest
    two = chat({}, content=None, tool_calls=[function("{}"), function("{}", "b")])
    assert seen((CHAT, two, "")).output_digest != seen((CHAT, silent, "")).output_digest


@each("kind", TEXTS)
def test_an_error_in_an_answers_place_is_read(kind: str) -> None:
    exchange = seen(texts(ERROR)[kind])
    assert exchange.cause is None
    assert exchange.output_reads_as is Subcategory.PROVIDER_ERROR


def test_an_error_beside_a_tool_call_is_the_models_own() -> None:
    answer = chat({}, content=ERROR, tool_calls=[function("{}")])
    assert seen((CHAT, answer, "")).output_reads_as is None


@pytest.mark.parametrize("word", ["yes", "42", "DONE", "", "a" * 23])
@pytest.mark.parametrize("kind", ["chat", "messages", "responses"])
def test_a_word_has_no_digest(kind: str, word: str) -> None:
    assert seen(texts(word)[kind]).output_digest is None


def test_a_stream_of_which_some_was_skimmed_is_unknown() -> None:
    events = [delta(role="assistant"), *(delta(content=word) for word in ERROR.split(" "))]
    answer = (CHAT, sse(*events, delta("stop")), SSE)
    skimmed = seen(answer, split=True)
    assert (skimmed.content_seen, skimmed.output_digest, skimmed.output_reads_as) == (
        True, None, None,
    )  # fmt: skip
    assert seen(answer).output_reads_as is Subcategory.PROVIDER_ERROR  # nothing of it is skimmed


@each("kind", [kind for kind in TEXTS if "streamed" in kind])
def test_a_short_stream_is_known_event_by_event(kind: str) -> None:
    exchange = seen(TEXTS[kind], split=True)
    assert exchange.output_digest == seen(TEXTS[kind]).output_digest is not None


def test_a_compressed_stream_is_known_too() -> None:
    path, body, type_ = TEXTS["chat, streamed"]
    packed = observed(gzip.compress(body), path, type_=type_, headers={"content-encoding": "gzip"})
    assert packed.output_digest == seen(TEXTS["chat, streamed"]).output_digest is not None


def test_a_long_stream_is_not_held() -> None:
    long = "It is true. " * 3_000
    answer = (STREAMED_GEMINI, b"data: " + dump(gemini({}, {"text": long})) + b"\n\n", SSE)
    exchange = seen(answer)
    assert exchange.output_seen
    assert exchange.output_digest is None


def test_an_answer_in_several_documents_is_unknown() -> None:
    said = [{"message": {"content": word}, "done": False} for word in ("It is ", "true now.")]
    body = lines(*said, {"message": {"content": ""}, "done": True})
    assert observed(body, OLLAMA, type_=NDJSON).output_digest is None
    assert observed(body, OLLAMA).output_digest is None
    listed = dump([gemini({}, {"text": "It is "}), gemini({}, {"text": "true now."})])
    assert observed(listed, GEMINI).output_digest is None


def test_digests_of_two_rollouts_or_services_have_nothing_in_common() -> None:
    def digest(rollout: str, salt: bytes) -> str | None:
        call = Call("x1", rollout, "any", "POST", CHAT.encode(), 1000.0, 100.0)
        observer = CallObserver(call, salt=salt)
        observer.on_request_body(b'{"model": "m"}')
        observer.on_response_head(200, [(b"content-type", b"application/json")], 100.5)
        observer.on_response_body(chat({}, content="It is in the parser."), 101.0)
        return observer.finish(Ending.COMPLETE, 102.0).output_digest

    digests = {digest(rollout, salt) for rollout in ("r1", "r2") for salt in (b"one", b"two")}
    assert None not in digests
    assert len(digests) == 4


def test_failures_and_what_is_no_answer_have_none() -> None:
    failed = observed(dump({"error": {"message": ERROR}}), CHAT, status=500)
    listing = observed(dump({"data": [{"id": ERROR}]}), "/v1/models")
    vectors = observed(dump({"data": [{"embedding": [0.1]}]}), "/v1/embeddings")
    assert [x.output_digest for x in (failed, listing, vectors)] == [None] * 3
    assert [x.output_reads_as for x in (failed, listing, vectors)] == [None] * 3


def test_half_a_character_does_no_harm() -> None:
    body = rb'{"choices": [{"message": {"content": "It is \ud83d so."}, "finish_reason": "stop"}]}'
    exchange = observed(body, CHAT)
    assert exchange.unreadable_reason is None
    assert exchange.output_digest is not None
