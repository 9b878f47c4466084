"""What providers answer, in each dialect: whole, streamed, and failing in each known way.

Written for these tests after the providers' published shapes; it holds no recording.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import brotli
import zstandard

from tests.fakes.provider import Answer, Request
from tests.fakes.replies import (
    INTERACTION_DONE,
    JSON,
    SSE,
    Api,
    Finish,
    Reply,
    ToolCall,
    answer,
    data,
    interaction_event,
    named,
    response_of,
    streamed,
    whole,
)

__all__ = [
    "JSON", "SSE", "Api", "data", "interaction_event", "named", "streamed", "whole",
]  # fmt: skip

TEXT = ("The", " zero", " is", " true", ".")
INPUT_TOKENS, OUTPUT_TOKENS, CACHED_TOKENS = 31, 5, 8


class Fault(StrEnum):
    """Ways in which a provider refuses or fails, one for each kind of cause."""

    AUTH = "auth"
    QUOTA = "quota"
    MODEL_NOT_FOUND = "model_not_found"
    RATE_LIMIT = "rate_limit"
    PROVIDER_ERROR = "provider_error"
    REJECTED_REQUEST = "rejected_request"


def encoded(answer: Answer, coding: str) -> Answer:
    """The same answer compressed; one chunk where it was streamed."""
    headers = (*answer.headers, ("content-encoding", coding))
    return replace(answer, headers=headers, body=(CODERS[coding](answer.content),))


CODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


# --- OpenAI and Anthropic: a reply with text, or with a tool call, as each of them says it -------

_LOOK = ToolCall(id="call_1", name="look", arguments='{"at":"zero"}')
_SPOKEN = Reply(
    model="", input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, cached_tokens=CACHED_TOKENS,
    says_cache_writes=False, text=TEXT,
)  # fmt: skip
_CALLING = replace(_SPOKEN, text=(), calls=(_LOOK,), finish=Finish.CALLS)
_CHAT_ID = (("x-request-id", "req_chat_1"),)


def chat(model: str = "gpt-5", text: str = "".join(TEXT), **stated: object) -> Answer:
    """A whole chat completion with text, and what else it states."""
    said = replace(_SPOKEN, model=model, text=(text,), extra=stated, headers=_CHAT_ID)
    return answer(Api.CHAT, said, streams=False)


def chat_tools(model: str = "gpt-5", name: str = "look", arguments: str = "") -> Answer:
    """A whole chat completion that asks for one tool call."""
    call = replace(_LOOK, name=name, arguments=arguments or _LOOK.arguments)
    reply = replace(_CALLING, model=model, calls=(call,), headers=_CHAT_ID)
    return answer(Api.CHAT, reply, streams=False)


def chat_stream(model: str = "gpt-5", *, usage: bool = True) -> Answer:
    """A streamed chat completion; the usage chunk comes only where it was asked for."""
    told = answer(Api.CHAT, replace(_SPOKEN, model=model), streams=True)
    return told if usage else replace(told, body=(*told.body[:-2], told.body[-1]))


def responses(model: str = "gpt-5") -> Answer:
    """A whole response with text."""
    return answer(Api.RESPONSES, replace(_SPOKEN, model=model), streams=False)


def responses_stream(model: str = "gpt-5") -> Answer:
    """A streamed response with text; it ends in ``response.completed``, without [DONE]."""
    return answer(Api.RESPONSES, replace(_SPOKEN, model=model), streams=True)


def responses_tools_stream(model: str = "gpt-5") -> Answer:
    """A streamed response that asks for one function call."""
    return answer(Api.RESPONSES, replace(_CALLING, model=model), streams=True)


def responses_failed_stream(code: str = "server_error", model: str = "gpt-5") -> Answer:
    """A streamed response that fails inside HTTP 200."""
    reply = replace(_SPOKEN, model=model)
    error = {"code": code, "message": "The server had an error processing the request."}
    failed = response_of(reply, "failed", error=error)
    return streamed(
        named("response.created", {"response": response_of(reply, "in_progress")}),
        named("response.failed", {"sequence_number": 1, "response": failed}),
    )


def _to_anthropic(reply: Reply, model: str) -> Reply:
    """The same reply, whose cached tokens are not among those of the input."""
    return replace(reply, model=model, input_tokens=INPUT_TOKENS + CACHED_TOKENS)


def messages(model: str = "claude-sonnet-5") -> Answer:
    """A whole message with text."""
    return answer(Api.MESSAGES, _to_anthropic(_SPOKEN, model), streams=False)


def messages_tools(model: str = "claude-sonnet-5") -> Answer:
    """A whole message that asks for one tool."""
    return answer(Api.MESSAGES, _to_anthropic(_CALLING, model), streams=False)


def messages_stream(model: str = "claude-sonnet-5") -> Answer:
    """A streamed message with text; the counts in ``message_delta`` are cumulative."""
    return answer(Api.MESSAGES, _to_anthropic(_SPOKEN, model), streams=True)


def messages_error_stream(kind: str = "overloaded_error") -> Answer:
    """A streamed message that fails inside HTTP 200, after its first words."""
    begun = messages_stream()
    error = {"error": {"type": kind, "message": "Overloaded"}}
    return replace(begun, body=(*begun.body[:5], named("error", error)))


# --- Gemini generateContent (python-genai: genai/types.py) ---------------------------------


def _gemini(
    part: Mapping[str, object], finish: str | None, output: int, model: str
) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"parts": [part], "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS,
            "cachedContentTokenCount": CACHED_TOKENS,
            "candidatesTokenCount": output,
            "totalTokenCount": INPUT_TOKENS + output,
        },
        "modelVersion": model,
        "responseId": "gemini_1",
    }


_FUNCTION_CALL = {"functionCall": {"name": "look", "args": {"at": "zero"}}}


def gemini(model: str = "gemini-3-pro") -> Answer:
    """A whole answer with text."""
    return whole(_gemini({"text": "".join(TEXT)}, "STOP", OUTPUT_TOKENS, model))


def gemini_tools(model: str = "gemini-3-pro") -> Answer:
    """A whole answer that asks for one function call."""
    return whole(_gemini(_FUNCTION_CALL, "STOP", OUTPUT_TOKENS, model))


def _gemini_parts(model: str) -> list[dict[str, object]]:
    last = len(TEXT)
    return [
        _gemini({"text": word}, "STOP" if n == last else None, n, model)
        for n, word in enumerate(TEXT, 1)
    ]


def gemini_stream(model: str = "gemini-3-pro") -> Answer:
    """What ``?alt=sse`` asks for: events whose counts are cumulative, and no terminal event."""
    return streamed(*(data(part).replace(b"\n\n", b"\r\n\r\n") for part in _gemini_parts(model)))


# --- Gemini Interactions (python-genai: genai/_gaos/types/interactions) --------------------

_INTERACTION_USAGE = {
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    "total_input_tokens": INPUT_TOKENS,
    "input_tokens_by_modality": [{"modality": "text", "tokens": INPUT_TOKENS}],
    "total_cached_tokens": CACHED_TOKENS,
    "total_output_tokens": OUTPUT_TOKENS,
    "total_tool_use_tokens": 0,
    "total_thought_tokens": 0,
}


def interaction_body(
    *steps: object, status: str = "completed", model: str = "gemini-3-pro", **more: object
) -> dict[str, object]:
    """An interaction as it is answered, whole; in progress it has no steps and no counts."""
    body: dict[str, object] = {
        "id": "v1_1",
        "status": status,
        "object": "interaction",
        "model": model,
        "created": "2026-11-28T10:00:00Z",
        "updated": "2026-11-28T10:00:01Z",
    }
    if status not in ("in_progress", "queued"):
        body |= {"usage": _INTERACTION_USAGE, "steps": list(steps)}
    return body | more


def said_step(text: str = "".join(TEXT)) -> dict[str, object]:
    """A step in which the model says something."""
    return {"type": "model_output", "content": [{"type": "text", "text": text}]}


def interactions(model: str = "gemini-3-pro") -> Answer:
    """A whole interaction with a text."""
    return whole(interaction_body(said_step(), model=model))


def _interaction_events(model: str, status: str, *steps: bytes) -> Answer:
    begun = {"id": "v1_1", "status": "in_progress", "object": "interaction", "model": model}
    ended = {"id": "v1_1", "status": status, "usage": _INTERACTION_USAGE, "object": "interaction"}
    return streamed(
        interaction_event("interaction.created", interaction=begun),
        interaction_event("interaction.status_update", interaction_id="v1_1", status="in_progress"),
        *steps,
        interaction_event("interaction.completed", interaction=ended),
        INTERACTION_DONE,
    )


def interactions_stream(model: str = "gemini-3-pro") -> Answer:
    """A streamed interaction: a thought without a word, then a text."""
    thought = {"type": "thought_signature", "signature": "c2lnbmF0dXJl"}
    return _interaction_events(
        model,
        "completed",
        interaction_event("step.start", index=0, step={"type": "thought"}),
        interaction_event("step.delta", index=0, delta=thought),
        interaction_event("step.stop", index=0),
        interaction_event("step.start", index=1, step={"type": "model_output"}),
        *(
            interaction_event("step.delta", index=1, delta={"type": "text", "text": word})
            for word in TEXT
        ),
        interaction_event("step.stop", index=1),
    )


# --- Failures ------------------------------------------------------------------------------


def _openai(
    status: int, message: str, kind: str, code: str | None, *headers: tuple[str, str]
) -> Answer:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return whole({"error": error}, status, ("x-request-id", "req_failed_1"), *headers)


# Azure's filter on a request (learn.microsoft.com/azure/foundry/openai/concepts/content-filter).
FILTERED = _openai(
    400,
    "The response was filtered due to the prompt triggering Azure OpenAI's content management "
    "policy. Please modify your prompt and retry.",
    "invalid_request_error",
    "content_filter",
)


def _anthropic(status: int, kind: str, message: str, *headers: tuple[str, str]) -> Answer:
    payload = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return whole(payload, status, ("request-id", "req_1"), *headers)


def _google(status: int, name: str, message: str, *details: Mapping[str, object]) -> Answer:
    error = {"code": status, "message": message, "status": name, "details": list(details)}
    return whole({"error": error}, status)


def interaction_failure(status: int, code: str, message: str) -> Answer:
    """An error of Gemini's Interactions (ai.google.dev/gemini-api/docs/api-errors)."""
    return whole({"error": {"message": message, "code": code}}, status)


_OPENAI_FAILURES: Mapping[Fault, Answer] = {
    Fault.AUTH: _openai(
        401, "Incorrect API key provided: sk-none.", "invalid_request_error", "invalid_api_key"
    ),
    Fault.QUOTA: _openai(
        429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"
    ),
    Fault.MODEL_NOT_FOUND: _openai(
        404, "The model `gpt-none` does not exist.", "invalid_request_error", "model_not_found"
    ),
    Fault.RATE_LIMIT: _openai(
        429,
        "Rate limit reached for requests per min.",
        "requests",
        "rate_limit_exceeded",
        ("retry-after", "1"),
    ),
    Fault.PROVIDER_ERROR: _openai(
        503, "The engine is overloaded.", "service_unavailable_error", "server_is_overloaded"
    ),
    Fault.REJECTED_REQUEST: _openai(
        400, "Invalid type for 'messages'.", "invalid_request_error", None
    ),
}

FAILURES: Mapping[Api, Mapping[Fault, Answer]] = {
    Api.CHAT: _OPENAI_FAILURES,
    Api.RESPONSES: {
        **_OPENAI_FAILURES,
        # the Responses API answers an unknown model with 400, chat with 404
        Fault.MODEL_NOT_FOUND: _openai(
            400,
            "The requested model 'gpt-none' does not exist.",
            "invalid_request_error",
            "model_not_found",
        ),
    },
    Api.MESSAGES: {
        Fault.AUTH: _anthropic(401, "authentication_error", "invalid x-api-key"),
        Fault.QUOTA: _anthropic(
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
        ),
        Fault.MODEL_NOT_FOUND: _anthropic(404, "not_found_error", "model: claude-none"),
        Fault.RATE_LIMIT: _anthropic(
            429, "rate_limit_error", "Too many requests this minute.", ("retry-after", "1")
        ),
        Fault.PROVIDER_ERROR: _anthropic(529, "overloaded_error", "Overloaded"),
        Fault.REJECTED_REQUEST: _anthropic(
            400, "invalid_request_error", "messages: at least one message is required"
        ),
    },
    Api.GEMINI: {
        Fault.AUTH: _google(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
        ),
        Fault.QUOTA: _google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
        Fault.MODEL_NOT_FOUND: _google(
            404, "NOT_FOUND", "models/gemini-none is not found for API version v1beta."
        ),
        Fault.RATE_LIMIT: _google(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota.",
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
        ),
        Fault.PROVIDER_ERROR: _google(503, "UNAVAILABLE", "The model is overloaded."),
        Fault.REJECTED_REQUEST: _google(
            400, "INVALID_ARGUMENT", "Invalid value at 'contents[0].role'."
        ),
    },
    Api.INTERACTIONS: {
        Fault.AUTH: interaction_failure(
            401, "authentication", "API key not valid. Please pass a valid API key."
        ),
        Fault.QUOTA: interaction_failure(
            429, "quota_exceeded", "You have exceeded your daily quota."
        ),
        Fault.MODEL_NOT_FOUND: interaction_failure(
            404, "model_not_found", "Model 'gemini-none' was not found."
        ),
        Fault.RATE_LIMIT: interaction_failure(
            429, "rate_limit_exceeded", "Too many requests this minute."
        ),
        Fault.PROVIDER_ERROR: interaction_failure(
            503, "service_unavailable", "The service is temporarily overloaded."
        ),
        Fault.REJECTED_REQUEST: interaction_failure(
            400, "invalid_request", "The value 'x' is not supported for 'type' at 'tools[0]'."
        ),
    },
}

HTML_PAGE = Answer(
    headers=(("content-type", "text/html"),),
    body=(b"<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>",),
)
BAD_GATEWAY = Answer(
    status=502,
    headers=(("content-type", "text/html"), ("server", "gateway")),
    body=(b"<html><head><title>502 Bad Gateway</title></head></html>",),
)
EMPTY_BODY = Answer(body=())


# --- A provider in good health -------------------------------------------------------------

HEALTHY: Mapping[tuple[Api, bool], Callable[[str], Answer]] = {
    (Api.CHAT, False): chat,
    (Api.CHAT, True): chat_stream,
    (Api.RESPONSES, False): responses,
    (Api.RESPONSES, True): responses_stream,
    (Api.MESSAGES, False): messages,
    (Api.MESSAGES, True): messages_stream,
    (Api.GEMINI, False): gemini,
    (Api.GEMINI, True): gemini_stream,
    (Api.INTERACTIONS, False): interactions,
    (Api.INTERACTIONS, True): interactions_stream,
}

_ENDPOINTS = {
    "/chat/completions": Api.CHAT,
    "/responses": Api.RESPONSES,
    "/messages": Api.MESSAGES,
    ":generateContent": Api.GEMINI,
    ":streamGenerateContent": Api.GEMINI,
    "/interactions": Api.INTERACTIONS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an inference call asks for."""

    api: Api
    model: str
    streams: bool


def asked_by(request: Request) -> Asked | None:
    """Read an inference call; None where it is none."""
    api = next((api for end, api in _ENDPOINTS.items() if request.path.endswith(end)), None)
    if api is None:
        return None
    asked = json.loads(request.body or b"{}")
    in_path = request.path.rpartition("/")[2].partition(":")[0]
    return Asked(
        api=api,
        model=asked.get("model") or in_path,
        streams=bool(asked.get("stream")) or request.path.endswith(":streamGenerateContent"),
    )


def healthy(request: Request) -> Answer:
    """Answer any inference call as it asks to be answered, and 404 to the rest."""
    asked = asked_by(request)
    if asked is None:
        return whole({"error": {"message": "no such route"}}, 404)
    answer = HEALTHY[asked.api, asked.streams](asked.model)
    return obeying(answer) if b"Reply with the word ready." in request.body else answer


def obeying(answer: Answer) -> Answer:
    """The same, with the word in it that a question of the proxy's own asks for."""
    parts = [part for part in answer.body if isinstance(part, bytes)]
    told = (b"is true", b"is ready"), (b'" true"', b'" ready"')  # whole, and as a piece
    for said, asked in told:
        parts = [part.replace(said, asked) for part in parts]
    return replace(answer, body=tuple(parts))
