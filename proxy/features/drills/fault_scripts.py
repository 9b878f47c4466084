"""Scripts of injected faults: error bodies, broken streams and bad answers in each dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from truezero.models import FaultKind


Body = dict[str, Any]
WORDS = ("Let", " me", " look", " at", " this")
WAIT_S = 2  # what a rate limit asks an agent to wait
DRILL_ID = "drill"
CREATED_AT = 1_790_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultedRequest:
    """The parts of an agent's request that an answer has to follow.

    ``usage``: a stream's usage was asked for. ``framed``: events are server-sent ones, and
    not the members of a JSON array (Gemini without ``alt=sse``). ``size``: of its body, in bytes.
    """

    model: str
    streamed: bool
    usage: bool = False
    framed: bool = True
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The content of a complete answer: its words, its finish reason and its token counts."""

    words: tuple[str, ...] = ()
    finish: Literal["stop", "length", "abort", "content_filter"] = "stop"
    input_tokens: int = 1
    output_tokens: int = 0

    @property
    def text(self) -> str:
        """The words put together."""
        return "".join(self.words)

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens


SILENT = Reply()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error as it is answered: status, body, and headers beside the content type."""

    status: int
    body: Body
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedError:
    """An error that came before, in placeholder words; ``wait_s``: what it asked to wait."""

    status: int
    code: str | None
    message: str
    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorScript:
    """The errors and answers of one dialect, in its own words.

    ``errors``: by the fault's kind, for a model that the provider names in them.
    ``begun``: the events of a stream that has begun to answer. ``stream``: a whole stream with a
    reply, its terminal event included. ``whole``: a body with a reply. ``error``: an error's body,
    of its status, its code and its message. ``error_event``: the event of such a body, in a stream.
    ``failed``: the event that ends a stream with an error, where it is another one.
    """

    errors: Callable[[str], Mapping[str, ErrorAnswer]]
    begun: Callable[[FaultedRequest], list[bytes]]
    stream: Callable[[FaultedRequest, Reply], list[bytes]]
    whole: Callable[[FaultedRequest, Reply], Body]
    error: Callable[[ReplayedError], Body]
    error_event: Callable[[FaultedRequest, Body], bytes]
    failed: Callable[[FaultedRequest], bytes] | None = None

    def breaking(self, request: FaultedRequest) -> bytes:
        """Return the event that ends a stream with an error."""
        if self.failed is not None:
            return self.failed(request)
        return self.error_event(request, self.errors(request.model)["stream_error"].body)


def data_event(payload: object) -> bytes:
    """Encode a server-sent event with a JSON payload."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def named_event(name: str, **payload: object) -> bytes:
    """Encode a server-sent event whose name is also the payload's type."""
    body = json.dumps({"type": name, **payload}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


# --- OpenAI: Chat Completions and Responses ----------------------------------------------------
# After platform.openai.com/docs/guides/error-codes and the types of openai-python: types/chat,
# types/responses. An unknown model is a 400 in the Responses API.


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


def _chat_usage(reply: Reply) -> Body:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.total_tokens,
    }


def _chat_chunk(
    request: FaultedRequest, delta: Body, finish: str | None = None, usage: Body | None = None
) -> bytes:
    """Encode a chunk; the one that states the usage has no choices."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {
        "id": f"chatcmpl-{DRILL_ID}",
        "object": "chat.completion.chunk",
        "created": CREATED_AT,
        "model": request.model,
        "choices": [choice] if usage is None else [],
    }
    if request.usage:
        chunk["usage"] = usage
    return data_event(chunk)


def _chat_begun(request: FaultedRequest, words: Sequence[str] = WORDS) -> list[bytes]:
    start = _chat_chunk(request, {"role": "assistant", "content": ""})
    return [start, *(_chat_chunk(request, {"content": word}) for word in words)]


def _chat_stream(request: FaultedRequest, reply: Reply) -> list[bytes]:
    return [
        *_chat_begun(request, reply.words),
        _chat_chunk(request, {}, reply.finish),
        *([_chat_chunk(request, {}, usage=_chat_usage(reply))] if request.usage else []),
        b"data: [DONE]\n\n",
    ]


def _chat_whole(request: FaultedRequest, reply: Reply) -> Body:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    return {
        "id": f"chatcmpl-{DRILL_ID}",
        "object": "chat.completion",
        "created": CREATED_AT,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": _chat_usage(reply),
    }


# Why an incomplete response is; the types know no "abort", gateways pass the engine's word on.
_INCOMPLETE = {
    "length": "max_output_tokens",
    "abort": "abort",
    "content_filter": "content_filter",
}


def _response(request: FaultedRequest, status: str, **more: object) -> Body:
    return {
        "id": f"resp_{DRILL_ID}",
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **more,
    }


def _ended(request: FaultedRequest, reply: Reply) -> Body:
    why = _INCOMPLETE.get(reply.finish)
    status = "incomplete" if why else "completed"
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.total_tokens,
    }
    return _response(
        request,
        status,
        incomplete_details={"reason": why} if why else None,
        output=[_item(status, reply.text)] if reply.words else [],
        usage=usage,
    )


def _text_part(text: str) -> Body:
    return {"type": "output_text", "text": text, "annotations": []}


def _item(status: str, text: str) -> Body:
    content = [_text_part(text)] if text else []
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


_AT = {"item_id": f"msg_{DRILL_ID}", "output_index": 0, "content_index": 0}


def _responses_begun(request: FaultedRequest, words: Sequence[str] = WORDS) -> list[bytes]:
    begun = {"response": _response(request, "in_progress")}
    spoken: list[tuple[str, Body]] = [
        ("response.output_item.added", {"output_index": 0, "item": _item("in_progress", "")}),
        ("response.content_part.added", {**_AT, "part": _text_part("")}),
        *(("response.output_text.delta", {**_AT, "delta": word, "logprobs": []}) for word in words),
    ]
    return _numbered(
        ("response.created", begun),
        ("response.in_progress", begun),
        *(spoken if words else ()),
    )


def _responses_failed(request: FaultedRequest) -> bytes:
    error = {"code": "server_error", "message": "The model had an error. Please try again."}
    failed = {"response": _response(request, "failed", error=error)}
    return _numbered(("response.failed", failed), start=4 + len(WORDS))[0]


def _responses_stream(request: FaultedRequest, reply: Reply) -> list[bytes]:
    ended = _ended(request, reply)
    done: list[tuple[str, Body]] = [
        ("response.output_text.done", {**_AT, "text": reply.text, "logprobs": []}),
        ("response.content_part.done", {**_AT, "part": _text_part(reply.text)}),
        *(
            ("response.output_item.done", {"output_index": 0, "item": item})
            for item in ended["output"]
        ),
    ]
    begun = _responses_begun(request, reply.words)
    end = (f"response.{ended['status']}", {"response": ended})
    return [*begun, *_numbered(*(done if reply.words else ()), end, start=len(begun))]


def _openai_error(error: ReplayedError) -> Body:
    named = {"message": error.message, "type": error.code, "param": None, "code": error.code}
    return {"error": named}


def _chat_error_event(_request: FaultedRequest, body: Body) -> bytes:
    return data_event(body)


def _responses_error_event(_request: FaultedRequest, body: Body) -> bytes:
    error = body["error"]
    return named_event("error", code=error["code"], message=error["message"], param=error["param"])


# --- Anthropic: Messages -----------------------------------------------------------------------
# After docs.claude.com/en/api/errors and the types of anthropic-sdk-python: types/raw_*_event.


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


# A server's own end of generation has no name here: gateways pass the engine's word on.
_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "abort": "abort",
    "content_filter": "refusal",
}
_BEGUN = Reply(words=WORDS)


def _message(
    request: FaultedRequest, content: list[Body], stop: str | None, usage: Mapping[str, int]
) -> Body:
    return {
        "id": f"msg_{DRILL_ID}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _anthropic_begun(request: FaultedRequest, reply: Reply = _BEGUN) -> list[bytes]:
    usage = {"input_tokens": reply.input_tokens, "output_tokens": 0}
    start = named_event("message_start", message=_message(request, [], None, usage))
    if not reply.words:
        return [start]
    nothing = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": word} for word in reply.words]
    return [
        start,
        named_event("content_block_start", index=0, content_block=nothing),
        *(named_event("content_block_delta", index=0, delta=delta) for delta in deltas),
    ]


def _anthropic_stream(request: FaultedRequest, reply: Reply) -> list[bytes]:
    ended = {"stop_reason": _STOPS[reply.finish], "stop_sequence": None}
    return [
        *_anthropic_begun(request, reply),
        *([named_event("content_block_stop", index=0)] if reply.words else []),
        named_event("message_delta", delta=ended, usage={"output_tokens": reply.output_tokens}),
        named_event("message_stop"),
    ]


def _anthropic_whole(request: FaultedRequest, reply: Reply) -> Body:
    content = [{"type": "text", "text": reply.text}] if reply.words else []
    usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
    return _message(request, content, _STOPS[reply.finish], usage)


def _anthropic_error(error: ReplayedError) -> Body:
    named = {"type": error.code or "error", "message": error.message}
    return {"type": "error", "error": named, "request_id": "req_drill"}


def _anthropic_error_event(_request: FaultedRequest, body: Body) -> bytes:
    return named_event("error", error=body["error"])


# --- Gemini ------------------------------------------------------------------------------------
# After ai.google.dev/gemini-api/docs/troubleshooting and the error details of google.rpc.


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


# No model of Google's is stopped so: a gateway before vLLM or SGLang passes the engine's word on.
_FINISHES = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "abort": "ABORT",
    "content_filter": "SAFETY",
}


def _candidate(
    request: FaultedRequest, text: str, reply: Reply, *, ends: bool, output_tokens: int
) -> Body:
    candidate: Body = {
        "content": {"parts": [{"text": text}] if text else [], "role": "model"},
        "index": 0,
    }
    if ends:
        candidate["finishReason"] = _FINISHES[reply.finish]
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": reply.input_tokens,
            "candidatesTokenCount": output_tokens,
            "totalTokenCount": reply.input_tokens + output_tokens,
        },
        "modelVersion": request.model,
        "responseId": DRILL_ID,
    }


def _gemini_framed(
    request: FaultedRequest, bodies: Sequence[Body], *, begins: bool, ends: bool
) -> list[bytes]:
    """Events, or the members of one JSON array that opens and closes with them."""
    if request.framed:
        return [b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in bodies]
    texts = [json.dumps(body).encode() for body in bodies]
    pieces = [(b"[" if begins and not n else b",\r\n") + text for n, text in enumerate(texts)]
    return [*pieces, b"]"] if ends else pieces


def _gemini_begun(request: FaultedRequest) -> list[bytes]:
    bodies = [_candidate(request, word, _BEGUN, ends=False, output_tokens=0) for word in WORDS]
    return _gemini_framed(request, bodies, begins=True, ends=False)


def _gemini_stream(request: FaultedRequest, reply: Reply) -> list[bytes]:
    """Return a complete stream, whose counts are cumulative."""
    *words, last = reply.words or ("",)
    bodies = [
        _candidate(request, word, reply, ends=False, output_tokens=min(n, reply.output_tokens))
        for n, word in enumerate(words, 1)
    ]
    end = _candidate(request, last, reply, ends=True, output_tokens=reply.output_tokens)
    return _gemini_framed(request, [*bodies, end], begins=True, ends=True)


def _gemini_whole(request: FaultedRequest, reply: Reply) -> Body:
    return _candidate(request, reply.text, reply, ends=True, output_tokens=reply.output_tokens)


def _gemini_error(error: ReplayedError) -> Body:
    named: Body = {"code": error.status, "message": error.message, "status": error.code or ""}
    if error.wait_s is not None:
        named["details"] = [{"@type": f"{_GOOGLE}RetryInfo", "retryDelay": f"{error.wait_s:g}s"}]
    return {"error": named}


def _gemini_error_event(request: FaultedRequest, body: Body) -> bytes:
    return b"".join(_gemini_framed(request, [body], begins=False, ends=True))


# --- Gemini: Interactions ----------------------------------------------------------------------
# After ai.google.dev/gemini-api/docs/api-errors and the types of python-genai: _gaos/types/
# interactions.


def _refused(status: int, code: str, message: str) -> ErrorAnswer:
    body = {"error": {"code": code, "message": message}}
    return ErrorAnswer(status=status, body=body, headers={})


def _interactions_errors(model: str) -> Mapping[str, ErrorAnswer]:
    busy = "The service is temporarily overloaded. Please try again later."
    limit = "You have exceeded the per-minute request limit."
    wait = {"retry-after": str(WAIT_S)}
    return {
        "auth": _refused(401, "authentication", "API key not valid. Please pass a valid API key."),
        "quota": _refused(429, "quota_exceeded", "You have exceeded your daily quota."),
        "model_not_found": _refused(404, "model_not_found", f"The model {model} was not found."),
        "rate_limit": replace(_refused(429, "rate_limit_exceeded", limit), headers=wait),
        "overloaded": _refused(503, "service_unavailable", busy),
        "stream_error": _refused(200, "service_unavailable", busy),
    }


# A status of its own stands for each ending; gateways pass an engine's word on.
_STATUSES = {"stop": "completed", "length": "incomplete", "abort": "abort"}


def _interaction(request: FaultedRequest, status: str, **more: object) -> Body:
    return {
        "id": f"v1_{DRILL_ID}",
        "object": "interaction",
        "status": status,
        "model": request.model,
        **more,
    }


def _interaction_ended(request: FaultedRequest, reply: Reply) -> Body:
    usage = {
        "total_input_tokens": reply.input_tokens,
        "total_cached_tokens": 0,
        "total_output_tokens": reply.output_tokens,
        "total_thought_tokens": 0,
        "total_tokens": reply.total_tokens,
    }
    status = _STATUSES.get(reply.finish)
    if status is None:  # a filter's
        error = {"code": "safety", "message": "The request was blocked."}
        return _interaction(request, "failed", errors=[error], usage=usage)
    return _interaction(request, status, usage=usage)


def _interaction_event(kind: str, **payload: object) -> bytes:
    body = json.dumps({**payload, "event_type": kind}).encode()
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def _interactions_begun(request: FaultedRequest, words: Sequence[str] = WORDS) -> list[bytes]:
    created = {"interaction": _interaction(request, "in_progress")}
    spoken = [
        _interaction_event("step.start", index=0, step={"type": "model_output"}),
        *(
            _interaction_event("step.delta", index=0, delta={"type": "text", "text": word})
            for word in words
        ),
    ]
    return [_interaction_event("interaction.created", **created), *(spoken if words else ())]


def _interactions_stream(request: FaultedRequest, reply: Reply) -> list[bytes]:
    return [
        *_interactions_begun(request, reply.words),
        *([_interaction_event("step.stop", index=0)] if reply.words else ()),
        _interaction_event("interaction.completed", interaction=_interaction_ended(request, reply)),
        b"event: done\ndata: [DONE]\n\n",
    ]


def _interactions_whole(request: FaultedRequest, reply: Reply) -> Body:
    content = [{"type": "text", "text": reply.text}]
    steps = [{"type": "model_output", "content": content}] if reply.words else []
    return {**_interaction_ended(request, reply), "steps": steps}


def _interactions_error(error: ReplayedError) -> Body:
    return {"error": {"code": error.code or "", "message": error.message}}


def _interactions_error_event(_request: FaultedRequest, body: Body) -> bytes:
    return _interaction_event("error", error=body["error"])


# --- scripts by API ----------------------------------------------------------------------------
# All texts are invented, after the providers' documentation.


CHAT = ErrorScript(
    errors=partial(_openai_errors, unknown_model=404),
    begun=_chat_begun,
    stream=_chat_stream,
    whole=_chat_whole,
    error=_openai_error,
    error_event=_chat_error_event,
)
GEMINI = ErrorScript(
    errors=_gemini_errors,
    begun=_gemini_begun,
    stream=_gemini_stream,
    whole=_gemini_whole,
    error=_gemini_error,
    error_event=_gemini_error_event,
)
SCRIPTS: Mapping[str, ErrorScript] = {
    "openai.chat": CHAT,
    "openai.responses": ErrorScript(
        errors=partial(_openai_errors, unknown_model=400),
        begun=_responses_begun,
        stream=_responses_stream,
        whole=_ended,
        error=_openai_error,
        error_event=_responses_error_event,
        failed=_responses_failed,
    ),
    "anthropic.messages": ErrorScript(
        errors=_anthropic_errors,
        begun=_anthropic_begun,
        stream=_anthropic_stream,
        whole=_anthropic_whole,
        error=_anthropic_error,
        error_event=_anthropic_error_event,
    ),
    "gemini.generateContent": GEMINI,
    "gemini.streamGenerateContent": GEMINI,
    "gemini.interactions": ErrorScript(
        errors=_interactions_errors,
        begun=_interactions_begun,
        stream=_interactions_stream,
        whole=_interactions_whole,
        error=_interactions_error,
        error_event=_interactions_error_event,
    ),
}


def script_for(api: str) -> ErrorScript:
    """Return an API's error script; one that is not listed is answered as OpenAI's chat."""
    return SCRIPTS.get(api, CHAT)


# --- complete answers that spoil the measurement -----------------------------------------------
# No status tells them from good ones; only counts, finish reason, model or time do.


WINDOW_TOKENS = 512  # all that is read of a prompt; Ollama's own default is 4,096
SUBSTITUTE_MODEL = "substitute-model"
# More than a probe or a question of multiple choice has, which end at a limit as they should.
CUT_WORDS = (*WORDS, *(f" {word.strip()}" for word in WORDS * 7))
_BYTES_PER_TOKEN = 4  # of English text and JSON, about
_TRUNCATED_BYTES_PER_TOKEN = 32  # no tokenizer packs so much: a short prompt is truncated too

Spoilt = tuple[FaultedRequest, Reply]


def _good(request: FaultedRequest) -> Reply:
    read = max(1, request.size // _BYTES_PER_TOKEN)
    return Reply(words=WORDS, input_tokens=read, output_tokens=len(WORDS))


def _truncate_prompt(request: FaultedRequest) -> Spoilt:
    read = max(1, min(WINDOW_TOKENS, request.size // _TRUNCATED_BYTES_PER_TOKEN))
    return request, replace(_good(request), input_tokens=read)


def _cut_output(request: FaultedRequest) -> Spoilt:
    cut = replace(_good(request), words=CUT_WORDS, output_tokens=len(CUT_WORDS))
    return request, replace(cut, finish="length")


def _swap_model(request: FaultedRequest) -> Spoilt:
    return replace(request, model=SUBSTITUTE_MODEL), _good(request)


def _abort(request: FaultedRequest) -> Spoilt:
    return request, replace(_good(request), finish="abort")


def _answer(request: FaultedRequest) -> Spoilt:
    return request, _good(request)


INVALID_ANSWERS: Mapping[FaultKind, Callable[[FaultedRequest], Spoilt]] = {
    "truncate_prompt": _truncate_prompt,
    "cut_output": _cut_output,
    "swap_model": _swap_model,
    "abort": _abort,
    "slow": _answer,  # late
}
"""The request as it is answered, and the reply, by kind of fault."""


# --- errors that came before, played again ------------------------------------------------------
# An exchange holds no message. These say no more than its cause does, in plain English.


NOTHING_SAID = "As recorded."
_MESSAGES: Mapping[str, str] = {
    "auth": "Incorrect API key provided.",
    "quota": "Your credit balance is too low.",
    "model_not_found": "The model does not exist.",
    "rate_limit": "Rate limit reached for requests.",
    "provider_error": "The server closed the connection while processing your request.",
    "rejected_request": "Invalid value in the request.",
}
_FINER_MESSAGES: Mapping[tuple[str, str], str] = {
    ("provider_error", "bad_response"): "The upstream's response could not be parsed.",
    ("provider_error", "overloaded"): "The model is overloaded. Please try again later.",
    ("provider_error", "timeout"): "The request timed out.",
    ("provider_error", "loading"): "The model is loading.",
    ("quota", "daily"): "You have reached your daily limit.",
    ("quota", "spend_limit"): "You have reached your spending limit.",
    ("rejected_request", "content_filter"): "The prompt was blocked by the content filter.",
    ("rejected_request", "context_length"): "The prompt exceeds the maximum context length.",
    ("rejected_request", "too_large"): "The request is too large.",
    ("rejected_request", "unsupported"): "This parameter is not supported.",
    ("auth", "region"): "Your country or region is not supported.",
    ("auth", "no_access"): "You do not have access to this model.",
}


def replayed_message(subcategory: str, reason: str | None) -> str:
    """Return placeholder words for an error of a cause."""
    return _FINER_MESSAGES.get((subcategory, reason or ""), _MESSAGES[subcategory])
