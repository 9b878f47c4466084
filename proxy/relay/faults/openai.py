"""Errors, broken streams and empty answers of OpenAI's Chat Completions and Responses APIs.

After platform.openai.com/docs/guides/error-codes and the types of openai-python: types/chat,
types/responses. An unknown model is a 400 in the Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.relay.faults.script import (
    CREATED_AT,
    DRILL_ID,
    NO_OUTPUT_USAGE,
    WAIT_S,
    WORDS,
    Body,
    ErrorAnswer,
    FaultedRequest,
    data_event,
    named_event,
)

_OPENAI_HEADERS = {"x-request-id": "req_drill"}


_OPENAI_WAIT = {
    "retry-after": str(WAIT_S),
    "retry-after-ms": str(WAIT_S * 1000),
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": f"{WAIT_S}s",
}


def _openai(status: int, message: str, kind: str, code: str | None, **headers: str) -> ErrorAnswer:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return ErrorAnswer(status=status, body={"error": error}, headers={**_OPENAI_HEADERS, **headers})


def _openai_errors(model: str, *, unknown_model: int) -> Mapping[str, ErrorAnswer]:
    return {
        "auth": _openai(
            401, "Incorrect API key provided. You can find your API key in your account.",
            "invalid_request_error", "invalid_api_key",
        ),
        "quota": _openai(
            429, "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota", "insufficient_quota",
        ),
        "model_not_found": _openai(
            unknown_model, f"The model `{model}` does not exist or you do not have access to it.",
            "invalid_request_error", "model_not_found",
        ),
        "rate_limit": _openai(
            429, f"Rate limit reached for requests. Please try again in {WAIT_S}s.",
            "requests", "rate_limit_exceeded", **_OPENAI_WAIT,
        ),
        "overloaded": _openai(
            503, "The server is currently overloaded. Please try again later.",
            "service_unavailable_error", "server_is_overloaded",
        ),
        "stream_error": _openai(
            200, "The server had an error while processing your request.",
            "server_error", "server_error",
        ),
    }  # fmt: skip


def chat_errors(model: str) -> Mapping[str, ErrorAnswer]:
    """Error answers by kind of fault."""
    return _openai_errors(model, unknown_model=404)


def _chat_chunk(request: FaultedRequest, delta: Body | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {
        "id": f"chatcmpl-{DRILL_ID}",
        "object": "chat.completion.chunk",
        "created": CREATED_AT,
        "model": request.model,
        "choices": [] if delta is None else [choice],
    }
    if request.usage:
        chunk["usage"] = NO_OUTPUT_USAGE if delta is None else None
    return data_event(chunk)


def chat_begun(request: FaultedRequest) -> list[bytes]:
    """Return the events of a stream that has begun to answer."""
    start = _chat_chunk(request, {"role": "assistant", "content": ""})
    return [start, *(_chat_chunk(request, {"content": word}) for word in WORDS)]


def chat_breaking(request: FaultedRequest) -> bytes:
    """Return the event that breaks a stream with an error."""
    return data_event(chat_errors(request.model)["stream_error"].body)


def chat_silence(request: FaultedRequest) -> list[bytes]:
    """Return a complete stream without any output."""
    return [
        _chat_chunk(request, {"role": "assistant", "content": ""}),
        _chat_chunk(request, {}, "stop"),
        *([_chat_chunk(request, None)] if request.usage else []),
        b"data: [DONE]\n\n",
    ]


def chat_whole(request: FaultedRequest, text: str) -> Body:
    """Return a complete answer with this text."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": f"chatcmpl-{DRILL_ID}",
        "object": "chat.completion",
        "created": CREATED_AT,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": NO_OUTPUT_USAGE,
    }


def responses_errors(model: str) -> Mapping[str, ErrorAnswer]:
    """Error answers by kind of fault."""
    return _openai_errors(model, unknown_model=400)


def _response(request: FaultedRequest, status: str, text: str = "", **more: object) -> Body:
    done = status == "completed"
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1,
    }
    return {
        "id": f"resp_{DRILL_ID}",
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [_item("completed", text)] if text else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if done else None,
        **more,
    }


def _item(status: str, text: str) -> Body:
    text_part = {"type": "output_text", "text": text, "annotations": []}
    content = [text_part] if text else []
    return {
        "id": f"msg_{DRILL_ID}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _numbered(*events: tuple[str, Body], start: int = 0) -> list[bytes]:
    return [
        named_event(name, sequence_number=number, **payload)
        for number, (name, payload) in enumerate(events, start)
    ]


def responses_begun(request: FaultedRequest) -> list[bytes]:
    """Return the events of a stream that has begun to answer."""
    at = {"item_id": f"msg_{DRILL_ID}", "output_index": 0, "content_index": 0}
    nothing = {"type": "output_text", "text": "", "annotations": []}
    return _numbered(
        ("response.created", {"response": _response(request, "in_progress")}),
        ("response.in_progress", {"response": _response(request, "in_progress")}),
        ("response.output_item.added", {"output_index": 0, "item": _item("in_progress", "")}),
        ("response.content_part.added", {**at, "part": nothing}),
        *(("response.output_text.delta", {**at, "delta": word, "logprobs": []}) for word in WORDS),
    )


def responses_breaking(request: FaultedRequest) -> bytes:
    """Return the event that breaks a stream with an error."""
    error = {"code": "server_error", "message": "The model had an error. Please try again."}
    failed = {"response": _response(request, "failed", error=error)}
    return _numbered(("response.failed", failed), start=4 + len(WORDS))[0]


def responses_silence(request: FaultedRequest) -> list[bytes]:
    """Return a complete stream without any output."""
    return _numbered(
        ("response.created", {"response": _response(request, "in_progress")}),
        ("response.completed", {"response": _response(request, "completed")}),
    )


def responses_whole(request: FaultedRequest, text: str) -> Body:
    """Return a complete answer with this text."""
    return _response(request, "completed", text)
