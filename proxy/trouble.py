"""What a provider in trouble answers, in each dialect: errors, broken streams, empty answers.

It answers nobody by itself, and every word in it is made up after the providers' documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.wire.dialect import Payload, part

Pairs = list[tuple[bytes, bytes]]
Body = dict[str, Any]

WORDS = ("Let", " me", " look", " at", " this")
WAIT_S = 2  # what a rate limit asks an agent to wait

_ID = "drill"
_WHEN = 1_790_000_000
_USAGE = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultedRequest:
    """What the agent asked for, as far as an answer has to follow it.

    ``usage``: a stream's usage was asked for. ``framed``: events are server-sent ones, and
    not the members of a JSON array (Gemini without ``alt=sse``).
    """

    model: str
    streamed: bool
    usage: bool = False
    framed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error as it is answered: status, body, and headers beside the content type."""

    status: int
    body: Body
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorScript:
    """How one dialect words its troubles.

    ``errors``: by the fault's kind; ``model`` is put in where the provider names it.
    ``begun``: the events of a stream that has begun to speak. ``breaking``: the event that
    ends it with an error. ``silence``: a whole stream without a word, its terminal event
    included. ``whole``: a body that says a text, ``""`` among them.
    """

    errors: Callable[[str], Mapping[str, ErrorAnswer]]
    begun: Callable[[FaultedRequest], list[bytes]]
    breaking: Callable[[FaultedRequest], bytes]
    silence: Callable[[FaultedRequest], list[bytes]]
    whole: Callable[[FaultedRequest, str], Body]


def _event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def _named(name: str, **payload: object) -> bytes:
    body = json.dumps({"type": name, **payload}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


# --- OpenAI: platform.openai.com/docs/guides/error-codes; openai-python types/chat -----------

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


def _chat_errors(model: str) -> Mapping[str, ErrorAnswer]:
    return _openai_errors(model, unknown_model=404)


def _chat_chunk(asked: FaultedRequest, delta: Body | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {
        "id": f"chatcmpl-{_ID}",
        "object": "chat.completion.chunk",
        "created": _WHEN,
        "model": asked.model,
        "choices": [] if delta is None else [choice],
    }
    if asked.usage:
        chunk["usage"] = _USAGE if delta is None else None
    return _event(chunk)


def _chat_begun(asked: FaultedRequest) -> list[bytes]:
    start = _chat_chunk(asked, {"role": "assistant", "content": ""})
    return [start, *(_chat_chunk(asked, {"content": word}) for word in WORDS)]


def _chat_breaking(asked: FaultedRequest) -> bytes:
    return _event(_chat_errors(asked.model)["stream_error"].body)


def _chat_silence(asked: FaultedRequest) -> list[bytes]:
    return [
        _chat_chunk(asked, {"role": "assistant", "content": ""}),
        _chat_chunk(asked, {}, "stop"),
        *([_chat_chunk(asked, None)] if asked.usage else []),
        b"data: [DONE]\n\n",
    ]


def _chat_whole(asked: FaultedRequest, text: str) -> Body:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": f"chatcmpl-{_ID}",
        "object": "chat.completion",
        "created": _WHEN,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _USAGE,
    }


# --- OpenAI responses: openai-python types/responses; an unknown model is 400 there ----------


def _responses_errors(model: str) -> Mapping[str, ErrorAnswer]:
    return _openai_errors(model, unknown_model=400)


def _response(asked: FaultedRequest, status: str, text: str = "", **more: object) -> Body:
    done = status == "completed"
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1,
    }
    return {
        "id": f"resp_{_ID}",
        "object": "response",
        "created_at": _WHEN,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [_item("completed", text)] if text else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if done else None,
        **more,
    }


def _item(status: str, text: str) -> Body:
    said = {"type": "output_text", "text": text, "annotations": []}
    content = [said] if text else []
    return {
        "id": f"msg_{_ID}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _numbered(*events: tuple[str, Body], start: int = 0) -> list[bytes]:
    return [
        _named(name, sequence_number=number, **payload)
        for number, (name, payload) in enumerate(events, start)
    ]


def _responses_begun(asked: FaultedRequest) -> list[bytes]:
    at = {"item_id": f"msg_{_ID}", "output_index": 0, "content_index": 0}
    nothing = {"type": "output_text", "text": "", "annotations": []}
    return _numbered(
        ("response.created", {"response": _response(asked, "in_progress")}),
        ("response.in_progress", {"response": _response(asked, "in_progress")}),
        ("response.output_item.added", {"output_index": 0, "item": _item("in_progress", "")}),
        ("response.content_part.added", {**at, "part": nothing}),
        *(("response.output_text.delta", {**at, "delta": word, "logprobs": []}) for word in WORDS),
    )


def _responses_breaking(asked: FaultedRequest) -> bytes:
    error = {"code": "server_error", "message": "The model had an error. Please try again."}
    failed = {"response": _response(asked, "failed", error=error)}
    return _numbered(("response.failed", failed), start=4 + len(WORDS))[0]


def _responses_silence(asked: FaultedRequest) -> list[bytes]:
    return _numbered(
        ("response.created", {"response": _response(asked, "in_progress")}),
        ("response.completed", {"response": _response(asked, "completed")}),
    )


def _responses_whole(asked: FaultedRequest, text: str) -> Body:
    return _response(asked, "completed", text)


# --- Anthropic: docs.claude.com/en/api/errors; anthropic-sdk-python types/raw_*_event --------

_ANTHROPIC_HEADERS = {"request-id": "req_drill"}
_ANTHROPIC_WAIT = {
    "retry-after": str(WAIT_S),
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "0",
}


def _anthropic(status: int, kind: str, message: str, **headers: str) -> ErrorAnswer:
    body = {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_drill",
    }
    return ErrorAnswer(status=status, body=body, headers={**_ANTHROPIC_HEADERS, **headers})


def _anthropic_errors(model: str) -> Mapping[str, ErrorAnswer]:
    return {
        "auth": _anthropic(401, "authentication_error", "invalid x-api-key"),
        "quota": _anthropic(
            400, "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. "
            "Please go to Plans & Billing to upgrade or purchase credits.",
        ),
        "model_not_found": _anthropic(404, "not_found_error", f"model: {model}"),
        "rate_limit": _anthropic(
            429, "rate_limit_error",
            "This request would exceed your organization's rate limit of requests per minute.",
            **_ANTHROPIC_WAIT,
        ),
        "overloaded": _anthropic(529, "overloaded_error", "Overloaded"),
        "stream_error": _anthropic(200, "overloaded_error", "Overloaded"),
    }  # fmt: skip


def _message(asked: FaultedRequest, content: list[Body], stop: str | None) -> Body:
    return {
        "id": f"msg_{_ID}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 0},
    }


def _anthropic_begun(asked: FaultedRequest) -> list[bytes]:
    nothing = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": word} for word in WORDS]
    return [
        _named("message_start", message=_message(asked, [], None)),
        _named("content_block_start", index=0, content_block=nothing),
        *(_named("content_block_delta", index=0, delta=delta) for delta in deltas),
    ]


def _anthropic_breaking(asked: FaultedRequest) -> bytes:
    return _named("error", error=_anthropic_errors(asked.model)["stream_error"].body["error"])


def _anthropic_silence(asked: FaultedRequest) -> list[bytes]:
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        _named("message_start", message=_message(asked, [], None)),
        _named("message_delta", delta=ended, usage={"output_tokens": 0}),
        _named("message_stop"),
    ]


def _anthropic_whole(asked: FaultedRequest, text: str) -> Body:
    content = [{"type": "text", "text": text}] if text else []
    return _message(asked, content, "end_turn")


# --- Gemini: ai.google.dev/gemini-api/docs/troubleshooting; google.rpc error details ---------

_GOOGLE = "type.googleapis.com/google.rpc."


def _gemini(code: int, state: str, message: str, *details: Body, status: int = 0) -> ErrorAnswer:
    error: Body = {"code": code, "message": message, "status": state}
    if details:
        error["details"] = list(details)
    return ErrorAnswer(status=status or code, body={"error": error}, headers={})


def _exceeded(quota: str) -> Body:
    metric = "generativelanguage.googleapis.com/generate_content_requests"
    return {
        "@type": f"{_GOOGLE}QuotaFailure",
        "violations": [{"quotaMetric": metric, "quotaId": quota}],
    }


_OVER = "You exceeded your current quota, please check your plan and billing details."
_BAD_KEY = {
    "@type": f"{_GOOGLE}ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
    "metadata": {"service": "generativelanguage.googleapis.com"},
}
_RETRY = {"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{WAIT_S}s"}
_PER_DAY = "GenerateRequestsPerDayPerProjectPerModel"
_PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"


def _gemini_errors(model: str) -> Mapping[str, ErrorAnswer]:
    busy = "The model is overloaded. Please try again later."
    return {
        "auth": _gemini(
            400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", _BAD_KEY
        ),
        "quota": _gemini(429, "RESOURCE_EXHAUSTED", _OVER, _exceeded(_PER_DAY)),
        "model_not_found": _gemini(
            404, "NOT_FOUND",
            f"models/{model} is not found for API version v1beta, or is not supported for "
            "generateContent.",
        ),
        "rate_limit": _gemini(429, "RESOURCE_EXHAUSTED", _OVER, _exceeded(_PER_MINUTE), _RETRY),
        "overloaded": _gemini(503, "UNAVAILABLE", busy),
        "stream_error": _gemini(503, "UNAVAILABLE", busy, status=200),
    }  # fmt: skip


def _candidate(asked: FaultedRequest, text: str, finish: str | None) -> Body:
    candidate: Body = {
        "content": {"parts": [{"text": text}] if text else [], "role": "model"},
        "index": 0,
    }
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1},
        "modelVersion": asked.model,
        "responseId": _ID,
    }


def _gemini_framed(
    asked: FaultedRequest, bodies: Sequence[Body], *, begins: bool, ends: bool
) -> list[bytes]:
    """Events, or the members of one JSON array that opens and closes with them."""
    if asked.framed:
        return [b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in bodies]
    texts = [json.dumps(body).encode() for body in bodies]
    pieces = [(b"[" if begins and not n else b",\r\n") + text for n, text in enumerate(texts)]
    return [*pieces, b"]"] if ends else pieces


def _gemini_begun(asked: FaultedRequest) -> list[bytes]:
    bodies = [_candidate(asked, word, None) for word in WORDS]
    return _gemini_framed(asked, bodies, begins=True, ends=False)


def _gemini_breaking(asked: FaultedRequest) -> bytes:
    body = _gemini_errors(asked.model)["stream_error"].body
    return b"".join(_gemini_framed(asked, [body], begins=False, ends=True))


def _gemini_silence(asked: FaultedRequest) -> list[bytes]:
    return _gemini_framed(asked, [_candidate(asked, "", "STOP")], begins=True, ends=True)


def _gemini_whole(asked: FaultedRequest, text: str) -> Body:
    return _candidate(asked, text, "STOP")


# --- who speaks how -------------------------------------------------------------------------

CHAT = ErrorScript(
    errors=_chat_errors,
    begun=_chat_begun,
    breaking=_chat_breaking,
    silence=_chat_silence,
    whole=_chat_whole,
)
VOICES: Mapping[str, ErrorScript] = {
    "openai.chat": CHAT,
    "openai.responses": ErrorScript(
        errors=_responses_errors,
        begun=_responses_begun,
        breaking=_responses_breaking,
        silence=_responses_silence,
        whole=_responses_whole,
    ),
    "anthropic.messages": ErrorScript(
        errors=_anthropic_errors,
        begun=_anthropic_begun,
        breaking=_anthropic_breaking,
        silence=_anthropic_silence,
        whole=_anthropic_whole,
    ),
    "gemini.generateContent": (
        _GEMINI := ErrorScript(
            errors=_gemini_errors,
            begun=_gemini_begun,
            breaking=_gemini_breaking,
            silence=_gemini_silence,
            whole=_gemini_whole,
        )
    ),
    "gemini.streamGenerateContent": _GEMINI,
}


def voice(api: str) -> ErrorScript:
    """How an API words its troubles; one that is not listed is answered as OpenAI's chat."""
    return VOICES.get(api, CHAT)


def wants_usage(body: Payload) -> bool:
    """Whether a chat request asks for its stream's usage."""
    return part(body.get("stream_options")).get("include_usage") is True
