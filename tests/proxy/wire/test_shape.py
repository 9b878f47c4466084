"""An answer in the shape of another API than was asked ends the clients of real agents."""

from __future__ import annotations

from typing import Any

from classifier.records import AnswerState, Exchange
from classifier.verdicts import Subcategory
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import dump
from tests.tables import each

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
COUNTS = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def _events(*payloads: dict[str, Any], named: bool = False) -> bytes:
    return b"".join(
        (b"event: %s\n" % each["type"].encode() if named else b"") + b"data: %s\n\n" % dump(each)
        for each in payloads
    )


def _choice(kind: str, **choice: Any) -> dict[str, Any]:
    return {"id": "c", "object": kind, "model": "m", "choices": [{"index": 0, **choice}]}


_SAYS = {"role": "assistant", "content": "It is."}
_CHAT = _choice("chat.completion", message=_SAYS, finish_reason="stop") | {"usage": COUNTS}
_CHAT_CALL = _choice(
    "chat.completion", finish_reason="tool_calls",
    message={"role": "assistant", "content": None, "tool_calls": [
        {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
) | {"usage": COUNTS}  # fmt: skip
_CHUNKS = (
    _choice("chat.completion.chunk", delta=_SAYS, finish_reason=None),
    _choice("chat.completion.chunk", delta={}, finish_reason="stop"),
    {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": COUNTS},
)
_TEXT = _choice("text_completion", text="It is.", finish_reason="stop") | {"usage": COUNTS}
_TEXTS = (
    _choice("text_completion", text="It is.", finish_reason=None),
    _choice("text_completion", text="", finish_reason="stop"),
)
_COUNTED = {"input_tokens": 11, "output_tokens": 3}
_MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": _COUNTED,
    "content": [{"type": "text", "text": "It is."}], "stop_reason": "end_turn",
}  # fmt: skip
_BLOCKS = (
    {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It is."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
)
_RESPONSE = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "m", "usage": _COUNTED,
    "output": [{"type": "message", "id": "i", "role": "assistant",
                "content": [{"type": "output_text", "text": "It is."}]}],
}  # fmt: skip
_BEGUN = {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}
_RESPONSES = (
    {"type": "response.created", "response": _BEGUN},
    {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "It is."},
    {"type": "response.completed", "response": _RESPONSE},
)
_CANDIDATE = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "It is."}]},
                    "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3, "totalTokenCount": 14},
}  # fmt: skip
_CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "It is."}]}},
    "stopReason": "end_turn", "usage": {"inputTokens": 11, "outputTokens": 3, "totalTokens": 14},
}  # fmt: skip
_OLLAMA = {
    "model": "m", "message": _SAYS, "done": True, "done_reason": "stop", "prompt_eval_count": 11,
    "eval_count": 3,
}  # fmt: skip
_COHERE = {
    "id": "c", "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "It is."}]},
    "usage": {"tokens": {"input_tokens": 11, "output_tokens": 3}},
}  # fmt: skip
_COHERE_EVENTS = (
    {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"text": ""}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "It is."}}}},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
)
_INTERACTION = {
    "id": "v1_1", "object": "interaction", "status": "completed", "model": "m",
    "steps": [{"type": "model_output", "content": [{"type": "text", "text": "It is."}]}],
    "usage": {"total_input_tokens": 11, "total_output_tokens": 3, "total_tokens": 14},
}  # fmt: skip
_STEPS = (
    {"event_type": "interaction.created",
     "interaction": {**_INTERACTION, "status": "in_progress", "steps": [], "usage": None}},
    {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "It is."}},
    {"event_type": "interaction.completed", "interaction": _INTERACTION},
)  # fmt: skip

# By API: an answer, whole or streamed, and its content type.
ANSWERS: dict[str, dict[str, tuple[bytes, str]]] = {
    "chat": {
        "whole": (dump(_CHAT), "application/json"),
        "a call": (dump(_CHAT_CALL), "application/json"),
        "a stream": (_events(*_CHUNKS) + b"data: [DONE]\n\n", SSE),
        "a stream named JSON": (_events(*_CHUNKS), "application/json"),
    },
    "completions": {
        "whole": (dump(_TEXT), "application/json"),
        "a stream": (_events(*_TEXTS) + b"data: [DONE]\n\n", SSE),
    },
    "messages": {
        "whole": (dump(_MESSAGE), "application/json"),
        "a stream": (_events(*_BLOCKS, named=True), SSE),
        "a stream after a ping": (_events({"type": "ping"}, *_BLOCKS, named=True), SSE),
    },
    "responses": {
        "whole": (dump(_RESPONSE), "application/json"),
        "a stream": (_events(*_RESPONSES, named=True), SSE),
    },
    "gemini": {
        "whole": (dump(_CANDIDATE), "application/json"),
        "a stream": (_events(_CANDIDATE), SSE),
        "an array": (dump([_CANDIDATE]), "application/json"),
    },
    "converse": {"whole": (dump(_CONVERSE), "application/json")},
    "ollama": {
        "whole": (dump(_OLLAMA), "application/json"),
        "lines": (dump({**_OLLAMA, "done": False}) + b"\n" + dump(_OLLAMA) + b"\n", NDJSON),
    },
    "cohere": {
        "whole": (dump(_COHERE), "application/json"),
        "a stream": (_events(*_COHERE_EVENTS, named=True), SSE),
    },
    "interactions": {
        "whole": (dump(_INTERACTION), "application/json"),
        "a stream": (_events(*_STEPS), SSE),
    },
}
# By API: paths at which its clients ask.
PATHS: dict[str, tuple[str, ...]] = {
    "chat": ("/v1/chat/completions", "/openai/deployments/m/chat/completions"),
    "completions": ("/v1/completions",),
    "messages": (
        "/v1/messages",
        "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
    ),
    "responses": ("/v1/responses", "/openai/v1/responses"),
    "gemini": (
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent",
    ),
    "converse": ("/model/m/converse",),
    "ollama": ("/api/chat",),
    "cohere": ("/v2/chat",),
    "interactions": ("/v1/interactions", "/v1beta/interactions"),
}
# Mistral's /fim/completions answers with chats, and OpenAI's client reads no text of one, but goes
# on: it may be meant so.
_READ_TOO = {("completions", "chat")}
_PAIRS = [
    (f"{theirs}: {how}, at {path}", path, *answer)
    for asked, paths in PATHS.items()
    for theirs, forms in ANSWERS.items()
    if asked != theirs and (asked, theirs) not in _READ_TOO
    for path in paths
    for how, answer in forms.items()
]
_OWN = [
    (f"{own}: {how}, at {path}", path, *answer)
    for own, paths in PATHS.items()
    for path in paths
    for how, answer in ANSWERS[own].items()
]


def _asked(path: str, body: bytes, type_: str) -> Exchange:
    request = dump({"model": "m", "stream": type_ == SSE, "messages": []})
    return observed(body, path, type_=type_, request=request)


@each("name, path, body, type_", _PAIRS, ids=lambda case: case[0])
def test_another_apis_answer_has_the_wrong_shape(
    name: str, path: str, body: bytes, type_: str
) -> None:
    exchange = _asked(path, body, type_)
    assert exchange.cause is not None
    assert (exchange.cause.subcategory, exchange.cause.reason, exchange.cause.transient) == (
        Subcategory.REJECTED_REQUEST, "wrong_shape", False,
    )  # fmt: skip
    assert (exchange.answer_state, exchange.output_seen, exchange.tool_calls) == (None, False, 0)
    assert exchange.finish_reason is None
    assert not exchange.inferred


@each("name, path, body, type_", _OWN, ids=lambda case: case[0])
def test_its_own_answer_is_read_whole_and_streamed_whatever_was_asked_for(
    name: str, path: str, body: bytes, type_: str
) -> None:
    exchange = _asked(path, body, type_)
    assert (exchange.cause, exchange.answer_state) == (None, AnswerState.READ)
