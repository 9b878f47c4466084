"""The wires that agents and references ask by: requests, answers, and errors in a dialect's words.

Written after the providers' published shapes; it holds no recording.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from tests.fakes import replies
from tests.fakes.answers import Api, data, named, streamed, whole
from tests.fakes.provider import Answer, Request
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.situations import requests
from tests.situations.requests import Ask, tool, user

SYSTEM = "You repair programs."
LOOK = tool("look", "Look at a file.", {"at": "its path"})
_LOOKS = ToolCall(id="call_1", name="look", arguments='{"at":"parser.py"}')
_READ = 240  # tokens of a prompt, where it is not the subject


class Dialect(StrEnum):
    """The dialects that are tried; each value is the upstream that speaks it."""

    CHAT = "openai"
    MESSAGES = "anthropic"
    GEMINI = "gemini"
    CONVERSE = "bedrock"


_APIS = {Dialect.CHAT: Api.CHAT, Dialect.MESSAGES: Api.MESSAGES, Dialect.GEMINI: Api.GEMINI}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One inference call as a provider reads it; ``key`` is what it was shown.

    ``path`` is where it came to, unquoted.
    """

    dialect: Dialect
    model: str
    streams: bool
    tools: bool
    limit: int | None
    body: Mapping[str, Any]
    text: str
    headers: Mapping[str, str]
    path: str = ""

    @property
    def key(self) -> str:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or bearer


# --- requests ------------------------------------------------------------------------------


def path(dialect: Dialect, model: str, *, streams: bool) -> str:
    """Where a request goes, behind the upstream's name."""
    return requests.target(dialect.name.lower(), model, streams=streams)


def body(
    dialect: Dialect,
    model: str,
    text: str,
    *,
    streams: bool = False,
    tools: bool = True,
    limit: int | None = None,
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """A request that says this, with the tool that agents have; ``more`` are further members."""
    ask = Ask(
        model=model, system=SYSTEM, messages=(user(text),), tools=(LOOK,) if tools else (),
        limit=limit,
    )  # fmt: skip
    asked = requests.payload(dialect.name.lower(), ask, streams=streams)
    return json.dumps({**asked, **(more or {})}).encode()


def read(request: Request) -> Question | None:
    """Read an inference call as its provider does; None where it is none."""
    if request.method != "POST":
        return None
    called = unquote(request.path)
    end = next((end for end in _ENDS if called.endswith(end)), None)
    if end is None:
        return None
    try:
        asked = json.loads(request.body)
    except ValueError:
        return None
    in_path = called.rpartition(end)[0].rpartition("/")[2]
    return Question(
        dialect=_ENDS[end],
        model=asked.get("model") or in_path,
        streams=bool(asked.get("stream")) or end == _STREAMED,
        tools=bool(asked.get("tools") or asked.get("toolConfig")),
        limit=_limit(asked),
        body=asked,
        text=request.body.decode(errors="replace"),
        headers={name.lower(): value for name, value in request.headers},
        path=called,
    )


_STREAMED = ":streamGenerateContent"
_ENDS = {
    "/chat/completions": Dialect.CHAT,
    "/messages": Dialect.MESSAGES,
    ":generateContent": Dialect.GEMINI,
    _STREAMED: Dialect.GEMINI,
    "/converse": Dialect.CONVERSE,
}


def _limit(asked: Mapping[str, Any]) -> int | None:
    nested = asked.get("generationConfig") or asked.get("inferenceConfig") or {}
    names = ("max_tokens", "max_completion_tokens", "maxOutputTokens", "maxTokens")
    found = [holder[name] for holder in (asked, nested) for name in names if name in holder]
    return min(found, default=None)


# --- answers -------------------------------------------------------------------------------


def answered(question: Question, *, model: str | None = None, text: str = "ready.") -> Answer:
    """Answer a question: agents, which have a tool, by a call of it."""
    if question.tools:
        reply = Reply(model=model or question.model, input_tokens=_READ, output_tokens=12,
                      calls=(_LOOKS,), finish=Finish.CALLS)  # fmt: skip
    else:
        reply = Reply(model=model or question.model, input_tokens=18, output_tokens=3,
                      text=(text,))  # fmt: skip
    return said(question, reply)


def said(question: Question, reply: Reply) -> Answer:
    """A reply as the question's dialect has it."""
    if question.dialect is Dialect.CONVERSE:
        return whole(_converse(reply))
    return replies.answer(_APIS[question.dialect], reply, streams=question.streams)


_STOPS = {
    Finish.STOP: "end_turn", Finish.CALLS: "tool_use", Finish.LENGTH: "max_tokens",
    Finish.ABORT: "abort", Finish.ERROR: "error", Finish.NONE: None,
}  # fmt: skip


def _converse(reply: Reply) -> dict[str, object]:
    content: list[dict[str, object]] = [{"text": piece} for piece in reply.text]
    content += [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.parsed}}
        for call in reply.calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _STOPS[reply.finish],
        "usage": {
            "inputTokens": reply.input_tokens,
            "outputTokens": reply.output_tokens,
            "totalTokens": reply.input_tokens + reply.output_tokens,
        },
        "metrics": {"latencyMs": 12},
    }


# --- errors --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as a provider states it; a dialect's usual names go with its status.

    ``names`` replace them, by dialect: OpenAI's code, Anthropic's type, Google's status, the
    exception of Bedrock. ``inside``: within a 200, as an event where the answer is a stream.
    """

    status: int
    message: str
    names: Mapping[Dialect, str] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()
    inside: bool = False

    def answer(self, question: Question) -> Answer:
        dialect = question.dialect
        name = self.names.get(dialect) or _NAMES[dialect].get(self.status)
        status = 200 if self.inside else self.status
        payload = _PAYLOADS[dialect](self, name)
        if self.inside and question.streams:
            event = named("error", payload) if dialect is Dialect.MESSAGES else data(payload)
            begun = answered(replace(question, tools=False))
            return streamed(*begun.body[:2], event)  # type: ignore[arg-type]
        exception = (("x-amzn-errortype", f"{name}:http://internal.amazon.com/"),)
        more = exception if dialect is Dialect.CONVERSE and name else ()
        return whole(payload, status, *more, *self.headers)


def _openai(problem: Problem, name: str | None) -> dict[str, Any]:
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": name}}


def _anthropic(problem: Problem, name: str | None) -> dict[str, Any]:
    return {"type": "error", "error": {"type": name, "message": problem.message}}


def _google(problem: Problem, name: str | None) -> dict[str, Any]:
    return {"error": {"code": problem.status, "message": problem.message, "status": name}}


def _bedrock(problem: Problem, name: str | None) -> dict[str, Any]:
    inside = {"__type": name} if problem.inside else {}
    return {**inside, "message": problem.message}


_PAYLOADS = {
    Dialect.CHAT: _openai,
    Dialect.MESSAGES: _anthropic,
    Dialect.GEMINI: _google,
    Dialect.CONVERSE: _bedrock,
}
# platform.openai.com/docs/guides/error-codes, docs.claude.com/en/api/errors,
# cloud.google.com/apis/design/errors, botocore bedrock-runtime/2023-09-30/service-2.json.
_NAMES: Mapping[Dialect, Mapping[int, str]] = {
    Dialect.CHAT: {
        401: "invalid_api_key", 403: "access_denied", 404: "model_not_found",
        429: "rate_limit_exceeded", 500: "server_error", 503: "server_is_overloaded",
    },
    Dialect.MESSAGES: {
        400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
        403: "permission_error", 404: "not_found_error", 408: "timeout_error",
        413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 502: "api_error",
        503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
    },
    Dialect.GEMINI: {
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION",
        403: "PERMISSION_DENIED", 404: "NOT_FOUND", 408: "DEADLINE_EXCEEDED",
        413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE",
        503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 529: "UNAVAILABLE",
    },
    Dialect.CONVERSE: {
        400: "ValidationException", 401: "UnrecognizedClientException",
        402: "AccessDeniedException", 403: "AccessDeniedException",
        404: "ResourceNotFoundException", 408: "ModelTimeoutException",
        413: "ValidationException", 424: "ModelErrorException", 429: "ThrottlingException",
        500: "InternalServerException", 502: "ServiceUnavailableException",
        503: "ServiceUnavailableException", 504: "ModelTimeoutException",
        529: "ServiceUnavailableException",
    },
}  # fmt: skip
