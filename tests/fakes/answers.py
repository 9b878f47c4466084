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

from tests.fakes.provider import Answer, Framing, Request

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream; charset=utf-8"),)

TEXT = ("The", " zero", " is", " true", ".")
INPUT_TOKENS, OUTPUT_TOKENS, CACHED_TOKENS = 31, 5, 8


class Api(StrEnum):
    """The dialects that answers are written in."""

    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    MESSAGES = "anthropic.messages"
    GEMINI = "gemini.generate"
    INTERACTIONS = "gemini.interactions"


class Fault(StrEnum):
    """Ways in which a provider refuses or fails, one for each kind of cause."""

    AUTH = "auth"
    QUOTA = "quota"
    MODEL_NOT_FOUND = "model_not_found"
    RATE_LIMIT = "rate_limit"
    PROVIDER_ERROR = "provider_error"
    REJECTED_REQUEST = "rejected_request"


def whole(payload: object, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """A JSON answer with a content-length."""
    body = json.dumps(payload).encode()
    return Answer(status=status, headers=JSON + headers, body=(body,))


def streamed(*events: bytes) -> Answer:
    """A chunked answer of server-sent events, one chunk each."""
    return Answer(headers=SSE, body=events, framing=Framing.CHUNKED)


def data(payload: object) -> bytes:
    """A server-sent event that has no name."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def named(name: str, payload: Mapping[str, object]) -> bytes:
    """A server-sent event whose name is also its payload's type."""
    body = json.dumps({"type": name, **payload}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


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


# --- OpenAI chat completions (openai-python: types/chat/chat_completion*.py) ---------------

_CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
_CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"zero"}'},
}


def _chat(message: Mapping[str, object], finish: str, model: str, **stated: object) -> Answer:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return whole(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1790000000,
            "model": model,
            "choices": [choice],
            "usage": _CHAT_USAGE,
            **stated,
        },
        200,
        ("x-request-id", "req_chat_1"),
    )


def chat(model: str = "gpt-5", **stated: object) -> Answer:
    """A whole chat completion with text, and what else it states."""
    message = {"role": "assistant", "content": "".join(TEXT), "refusal": None}
    return _chat(message, "stop", model, **stated)


def chat_tools(model: str = "gpt-5") -> Answer:
    """A whole chat completion that asks for one tool call."""
    message = {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]}
    return _chat(message, "tool_calls", model)


def _chat_chunk(model: str, delta: Mapping[str, object], finish: str | None = None) -> bytes:
    return data(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            "usage": None,
        }
    )


def _chat_usage_chunk(model: str) -> bytes:
    return data(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": model,
            "choices": [],
            "usage": _CHAT_USAGE,
        }
    )


def chat_stream(model: str = "gpt-5", *, usage: bool = True) -> Answer:
    """A streamed chat completion; the usage chunk comes only where it was asked for."""
    return streamed(
        _chat_chunk(model, {"role": "assistant", "content": ""}),
        *(_chat_chunk(model, {"content": word}) for word in TEXT),
        _chat_chunk(model, {}, "stop"),
        *([_chat_usage_chunk(model)] if usage else []),
        b"data: [DONE]\n\n",
    )


def chat_tools_stream(model: str = "gpt-5") -> Answer:
    """A streamed chat completion that asks for one tool call, its arguments in two parts."""
    start = {**_CHAT_CALL, "index": 0, "function": {"name": "look", "arguments": ""}}
    return streamed(
        _chat_chunk(model, {"role": "assistant", "content": None, "tool_calls": [start]}),
        *(
            _chat_chunk(model, {"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
            for part in ('{"at":', '"zero"}')
        ),
        _chat_chunk(model, {}, "tool_calls"),
        _chat_usage_chunk(model),
        b"data: [DONE]\n\n",
    )


# --- OpenAI responses (openai-python: types/responses/response*.py) ------------------------

_RESPONSES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_RESPONSES_CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "look",
    "arguments": '{"at":"zero"}',
}


def _response(model: str, status: str, **more: object) -> dict[str, object]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1790000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **more,
    }


def _spoken(status: str = "completed", text: str = "".join(TEXT)) -> dict[str, object]:
    part = {"type": "output_text", "text": text, "annotations": []}
    content = [part] if text else []
    return {
        "id": "msg_1",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _completed(model: str, item: Mapping[str, object]) -> dict[str, object]:
    return _response(model, "completed", output=[item], usage=_RESPONSES_USAGE)


def responses(model: str = "gpt-5") -> Answer:
    """A whole response with text."""
    return whole(_completed(model, _spoken()))


def responses_tools(model: str = "gpt-5") -> Answer:
    """A whole response that asks for one function call."""
    return whole(_completed(model, _RESPONSES_CALL))


def _numbered(*events: tuple[str, Mapping[str, object]]) -> Answer:
    return streamed(
        *(named(name, {"sequence_number": i, **body}) for i, (name, body) in enumerate(events))
    )


def responses_stream(model: str = "gpt-5") -> Answer:
    """A streamed response with text; it ends in ``response.completed``, without [DONE]."""
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    text = "".join(TEXT)
    empty = {"type": "output_text", "text": "", "annotations": []}
    full = {"type": "output_text", "text": text, "annotations": []}
    return _numbered(
        ("response.created", {"response": _response(model, "in_progress")}),
        ("response.in_progress", {"response": _response(model, "in_progress")}),
        ("response.output_item.added", {"output_index": 0, "item": _spoken("in_progress", "")}),
        ("response.content_part.added", {**at, "part": empty}),
        *(("response.output_text.delta", {**at, "delta": word, "logprobs": []}) for word in TEXT),
        ("response.output_text.done", {**at, "text": text, "logprobs": []}),
        ("response.content_part.done", {**at, "part": full}),
        ("response.output_item.done", {"output_index": 0, "item": _spoken()}),
        ("response.completed", {"response": _completed(model, _spoken())}),
    )


def responses_tools_stream(model: str = "gpt-5") -> Answer:
    """A streamed response that asks for one function call."""
    at = {"item_id": "fc_1", "output_index": 0}
    started = {**_RESPONSES_CALL, "status": "in_progress", "arguments": ""}
    arguments = _RESPONSES_CALL["arguments"]
    return _numbered(
        ("response.created", {"response": _response(model, "in_progress")}),
        ("response.output_item.added", {"output_index": 0, "item": started}),
        ("response.function_call_arguments.delta", {**at, "delta": arguments}),
        (
            "response.function_call_arguments.done",
            {**at, "arguments": arguments, "name": "look"},
        ),
        ("response.output_item.done", {"output_index": 0, "item": _RESPONSES_CALL}),
        ("response.completed", {"response": _completed(model, _RESPONSES_CALL)}),
    )


def responses_failed_stream(code: str = "server_error", model: str = "gpt-5") -> Answer:
    """A streamed response that fails inside HTTP 200."""
    error = {"code": code, "message": "The server had an error processing the request."}
    return _numbered(
        ("response.created", {"response": _response(model, "in_progress")}),
        ("response.failed", {"response": _response(model, "failed", error=error)}),
    )


# --- Anthropic messages (anthropic-sdk-python: types/message*.py, raw_*_event.py) ----------

_MESSAGES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": CACHED_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "service_tier": "standard",
}
_TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "zero"}}


def _message(
    model: str, content: list[object], stop: str | None, **more: object
) -> Mapping[str, object]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _MESSAGES_USAGE,
        **more,
    }


def messages(model: str = "claude-sonnet-5") -> Answer:
    """A whole message with text."""
    return whole(_message(model, [{"type": "text", "text": "".join(TEXT)}], "end_turn"))


def messages_tools(model: str = "claude-sonnet-5") -> Answer:
    """A whole message that asks for one tool."""
    return whole(_message(model, [_TOOL_USE], "tool_use"))


def _messages_stream(
    model: str, block: Mapping[str, object], deltas: list[Mapping[str, object]], stop: str
) -> Answer:
    opened = _message(model, [], None, usage={**_MESSAGES_USAGE, "output_tokens": 1})
    ended = {"stop_reason": stop, "stop_sequence": None}
    return streamed(
        named("message_start", {"message": opened}),
        named("content_block_start", {"index": 0, "content_block": block}),
        named("ping", {}),
        *(named("content_block_delta", {"index": 0, "delta": delta}) for delta in deltas),
        named("content_block_stop", {"index": 0}),
        named("message_delta", {"delta": ended, "usage": {"output_tokens": OUTPUT_TOKENS}}),
        named("message_stop", {}),
    )


def messages_stream(model: str = "claude-sonnet-5") -> Answer:
    """A streamed message with text; the counts in ``message_delta`` are cumulative."""
    deltas: list[Mapping[str, object]] = [{"type": "text_delta", "text": word} for word in TEXT]
    return _messages_stream(model, {"type": "text", "text": ""}, deltas, "end_turn")


def messages_tools_stream(model: str = "claude-sonnet-5") -> Answer:
    """A streamed message that asks for one tool, its input in two parts."""
    deltas: list[Mapping[str, object]] = [
        {"type": "input_json_delta", "partial_json": part} for part in ('{"at":', '"zero"}')
    ]
    return _messages_stream(model, {**_TOOL_USE, "input": {}}, deltas, "tool_use")


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


def gemini_tools_stream(model: str = "gemini-3-pro") -> Answer:
    """A streamed answer that asks for one function call."""
    return streamed(data(_gemini(_FUNCTION_CALL, "STOP", OUTPUT_TOKENS, model)))


def gemini_array(model: str = "gemini-3-pro") -> Answer:
    """What a stream is without ``alt=sse``: one JSON array, element by element."""
    parts = [json.dumps(part, indent=1).encode() for part in _gemini_parts(model)]
    body = (b"[" + parts[0], *(b",\r\n" + part for part in parts[1:]), b"]")
    return Answer(headers=JSON, body=body, framing=Framing.CHUNKED)


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
_LOOK_STEP = {"type": "function_call", "id": "fc_1", "name": "look"}


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


def interactions_tools(model: str = "gemini-3-pro") -> Answer:
    """A whole interaction that asks for one function call."""
    step = {**_LOOK_STEP, "arguments": {"at": "zero"}}
    return whole(interaction_body(step, status="requires_action", model=model))


def interaction_event(name: str, **payload: object) -> bytes:
    """A server-sent event whose payload names it in ``event_type``."""
    body = json.dumps({**payload, "event_type": name}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


INTERACTION_DONE = b"event: done\ndata: [DONE]\n\n"


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


def interactions_tools_stream(model: str = "gemini-3-pro") -> Answer:
    """A streamed interaction that asks for one function call."""
    return _interaction_events(
        model,
        "requires_action",
        interaction_event("step.start", index=0, step={**_LOOK_STEP, "arguments": {}}),
        *(
            interaction_event(
                "step.delta", index=0, delta={"type": "arguments_delta", "arguments": piece}
            )
            for piece in ('{"at":', '"zero"}')
        ),
        interaction_event("step.stop", index=0),
    )


def interactions_error_stream(code: str, message: str, *, begun: int = 6) -> Answer:
    """A stream that breaks with an error after so many events."""
    broken = interaction_event("error", error={"code": code, "message": message})
    return streamed(*interactions_stream().body[:begun], broken)  # type: ignore[arg-type]


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
