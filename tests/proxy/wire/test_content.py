"""What an answer carries beside reasoning: in every dialect, whole, streamed and cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from classifier.records import Ending, Exchange
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import (
    CHAT,
    CHAT_USAGE,
    EVENTS,
    JSON,
    NDJSON,
    RESPONSE_USAGE,
    SSE,
    STREAM_GENERATE,
    block,
    chat,
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
    sse,
    text,
)  # fmt: skip

OLLAMA, COHERE, CONVERSE = "/api/chat", "/v2/chat", "/model/m/converse-stream"
THOUGHT = {"text": "Hmm", "thought": True}
COUNTS = {"promptTokenCount": 3, "thoughtsTokenCount": 40}
REASONED = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hmm"}]}
SAID = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Yes"}]}


def item(kind: str, **of: object) -> dict[str, object]:
    return {"type": f"response.{kind}", **of}


def thinking(index: int, said: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index,
            "delta": {"type": "thinking_delta", "thinking": said}}  # fmt: skip


def cohere(kind: str, **content: object) -> dict[str, object]:
    return {"type": kind, "index": 0, "delta": {"message": {"content": content}}}


# Streams: path, content type, what precedes, thoughts, what a text or a call adds, the end.
STREAMS = {
    "chat": (CHAT, SSE, sse(delta(role="assistant", content=""), done=False),
             [sse(delta(content=None, reasoning_content=word), done=False) for word in "abc"],
             [sse(delta(content="Yes"), done=False)],
             sse(delta("stop"), last(CHAT_USAGE))),
    "chat-details": (CHAT, SSE, b"",
                     [sse(delta(content="", reasoning_details=[{"type": "reasoning.encrypted",
                                                                "data": "x"}]), done=False)],
                     [sse(delta(refusal="I can't"), done=False)],
                     sse(delta("stop"), last(CHAT_USAGE))),
    "mistral": (CHAT, SSE, b"",
                [sse(delta(content=[{"type": "thinking", "thinking": [{"type": "text",
                                                                       "text": "Hmm"}]}]),
                     done=False)] * 2,
                [sse(delta(content=[{"type": "text", "text": "Yes"}]), done=False)],
                sse(delta("stop"), last(CHAT_USAGE))),
    "anthropic": ("/v1/messages", SSE,
                  named({"type": "message_start", "message": {"model": "c", "content": []}},
                        block(0, type="thinking", thinking="")),
                  [named(thinking(0, word)) for word in "abc"],
                  [named(block(1, type="text", text="")), named(text(1, "Yes"))],
                  named({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                         "usage": {"output_tokens": 9}}, {"type": "message_stop"})),
    "anthropic-search": ("/v1/messages", SSE, b"",
                         [named(block(0, type="redacted_thinking", data="x"))],
                         [named(block(1, type="server_tool_use", name="web_search", input={}))],
                         named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                               {"type": "message_stop"})),
    "responses": ("/v1/responses", SSE,
                  named({"type": "response.created",
                         "response": response(None, status="in_progress")}),
                  [named(item("reasoning_summary_text.delta", delta=word)) for word in "abc"]
                  + [named(item("reasoning_text.delta", delta="d")),
                     named(item("output_item.done", item=REASONED))],
                  [named(item("output_text.delta", delta="Yes"))],
                  named(item("completed", response=response(RESPONSE_USAGE)))),
    "gemini": (STREAM_GENERATE, SSE, b"",
               [sse(gemini(COUNTS, THOUGHT, finish=None), done=False)] * 2,
               [sse(gemini(COUNTS, {"text": "Yes"}, finish=None), done=False)],
               sse(gemini(COUNTS), done=False)),
    "cohere": (COHERE, SSE, b"",
               [named(cohere("content-delta", thinking=word)) for word in "abc"],
               [named(cohere("content-delta", text="Yes"))],
               named({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}})),
    "ollama": (OLLAMA, NDJSON, b"",
               [lines({"message": {"content": "", "thinking": word}, "done": False})
                for word in "abc"],
               [lines({"message": {"content": "Yes"}, "done": False})],
               lines({"message": {"content": ""}, "done": True, "done_reason": "stop"})),
    "converse": (CONVERSE, EVENTS, b"",
                 [event("contentBlockDelta",
                        {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": word}}})
                  for word in "abc"],
                 [event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Yes"}})],
                 event("messageStop", {"stopReason": "end_turn"})
                 + event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 9}})),
}  # fmt: skip

# Whole answers: path, one with thoughts only, one with thoughts and a text.
WHOLE = {
    "chat": (CHAT, chat(CHAT_USAGE, content=None, reasoning="Hmm"),
             chat(CHAT_USAGE, reasoning="Hmm")),
    "mistral": (CHAT, chat(CHAT_USAGE, content=[{"type": "thinking", "thinking": []}]),
                chat(CHAT_USAGE, content=[{"type": "thinking", "thinking": []}, "Yes"])),
    "anthropic": ("/v1/messages", message({}, {"type": "thinking", "thinking": "Hmm"}),
                  message({}, {"type": "thinking", "thinking": "Hmm"},
                          {"type": "text", "text": "Yes"})),
    "responses": ("/v1/responses", dump(response(RESPONSE_USAGE, REASONED)),
                  dump(response(RESPONSE_USAGE, REASONED, SAID))),
    "gemini": ("/v1beta/models/g:generateContent", dump(gemini(COUNTS, THOUGHT)),
               dump(gemini(COUNTS, THOUGHT, {"text": "Yes"}))),
    "cohere": (COHERE, dump({"message": {"content": [{"type": "thinking", "thinking": "Hmm"}]},
                             "finish_reason": "COMPLETE"}),
               dump({"message": {"content": [{"type": "thinking", "thinking": "Hmm"},
                                             {"type": "text", "text": "Yes"}]},
                     "finish_reason": "COMPLETE"})),
    "ollama": (OLLAMA, dump({"message": {"content": "", "thinking": "Hmm"}, "done": True}),
               dump({"message": {"content": "Yes", "thinking": "Hmm"}, "done": True})),
    "converse": ("/model/m/converse",
                 dump({"output": {"message": {"content": [
                     {"reasoningContent": {"reasoningText": {"text": "Hmm"}}}]}},
                     "stopReason": "end_turn"}),
                 dump({"output": {"message": {"content": [
                     {"reasoningContent": {"reasoningText": {"text": "Hmm"}}}, {"text": "Yes"}]}},
                     "stopReason": "end_turn"})),
    "invoke": ("/model/m/invoke", message({}, {"type": "thinking", "thinking": "Hmm"}),
               message({}, {"type": "thinking", "thinking": "Hmm"},
                       {"type": "text", "text": "Yes"})),
}  # fmt: skip


def seen(exchange: Exchange) -> tuple[bool | None, bool | None]:
    return exchange.output_seen, exchange.content_seen


def hear(pieces: Sequence[bytes], path: str, type_: str) -> Exchange:
    exchange = observed(pieces, path, type_=type_)
    assert (exchange.cause, exchange.unreadable_reason) == (None, None)
    return exchange


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_thoughts_has_no_content_until_a_text_or_a_call_comes(name: str) -> None:
    path, type_, before, thoughts, content, end = STREAMS[name]
    for more, expected in (([], (True, False)), (content, (True, True))):
        events = [piece for piece in (before, *thoughts, *more, end) if piece]
        whole = hear([b"".join(events)], path, type_)
        assert seen(whole) == expected
        assert hear(events, path, type_) == whole
        body = b"".join(events)
        assert hear([body[i : i + 1] for i in range(len(body))], path, type_) == whole


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_anywhere_has_no_content_that_it_did_not_carry(name: str) -> None:
    path, type_, before, thoughts, content, end = STREAMS[name]
    silent = before + b"".join(thoughts)
    body = silent + b"".join(content) + end
    for place in range(0, len(body), 3):
        cut = observed([body[:place]], path, type_=type_, ending=Ending.CUT_UPSTREAM)
        assert not (cut.content_seen and not cut.output_seen)
        if place <= len(silent):
            assert not cut.content_seen, place


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_of_thoughts_has_no_content(name: str) -> None:
    path, thought, said = WHOLE[name]
    assert seen(hear([thought], path, JSON)) == (True, False)
    assert seen(hear([said], path, JSON)) == (True, True)


def test_a_call_is_content_and_an_answer_of_unknown_shape_has_neither() -> None:
    called = messages({}, block(0, type="tool_use", id="t", name="ls", input={}), end={})
    assert seen(hear([called], "/v1/messages", SSE)) == (True, True)
    assert seen(hear([b'{"generated": "?"}'], "/generate", JSON)) == (None, None)
