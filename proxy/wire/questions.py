"""Questions of the proxy's own: the plainest request in each dialect that a model can answer.

A question holds nothing of an agent's. The number in it keeps caches from answering.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

TOKENS = 16
MORE_TOKENS = 512  # of models that refuse so few

_TEXT = "Reply with the word ready."
_ANTHROPIC_VERSION = (b"anthropic-version", b"2023-06-01")  # docs.claude.com/en/api/versioning
_NUMBERED = 12  # digits of a question's number

Body = dict[str, Any]
Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request: ``path`` (raw, after the upstream's prefix), ``query``, headers and body."""

    path: bytes
    query: bytes
    headers: Pairs
    body: bytes


@dataclass(frozen=True, slots=True)
class _Form:
    """A dialect's plainest request, by the name that its API has in `proxy.wire.routes`.

    ``path`` is where it is asked of a provider that has it at its usual place, ``{model}`` in it
    the model's name; None if only an answered call tells the path. ``body`` takes the model, the
    text and the limit in tokens.
    """

    path: str | None
    body: Callable[[str, str, int], Body]
    headers: Pairs


def _messages(text: str) -> list[Body]:
    return [{"role": "user", "content": text}]


def _chat(model: str, text: str, limit: int) -> Body:
    return {"model": model, "messages": _messages(text), "max_tokens": limit}


def _completions(model: str, text: str, limit: int) -> Body:
    return {"model": model, "prompt": text, "max_tokens": limit}


def _responses(model: str, text: str, limit: int) -> Body:
    return {"model": model, "input": text, "max_output_tokens": limit, "store": False}


def _gemini(_model: str, text: str, limit: int) -> Body:
    return {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": {"maxOutputTokens": limit},
    }


def _interactions(model: str, text: str, limit: int) -> Body:
    config = {"max_output_tokens": limit}
    return {"model": model, "input": text, "store": False, "generation_config": config}


def _converse(_model: str, text: str, limit: int) -> Body:
    return {
        "messages": [{"role": "user", "content": [{"text": text}]}],
        "inferenceConfig": {"maxTokens": limit},
    }


def _ollama_chat(model: str, text: str, limit: int) -> Body:
    options = {"num_predict": limit}
    return {"model": model, "messages": _messages(text), "stream": False, "options": options}


def _ollama_generate(model: str, text: str, limit: int) -> Body:
    return {"model": model, "prompt": text, "stream": False, "options": {"num_predict": limit}}


def _cohere_v1(model: str, text: str, limit: int) -> Body:
    return {"model": model, "message": text, "max_tokens": limit}


_JSON: Pairs = [(b"content-type", b"application/json"), (b"accept", b"application/json")]
# Sources: as of the rows of `proxy.wire.routes` with these names.
_FORMS: Mapping[str, _Form] = {
    "openai.chat": _Form("/chat/completions", _chat, _JSON),
    "openai.completions": _Form("/completions", _completions, _JSON),
    "openai.responses": _Form("/responses", _responses, _JSON),
    "anthropic.messages": _Form("/v1/messages", _chat, [*_JSON, _ANTHROPIC_VERSION]),
    "gemini.generateContent": _Form("/v1beta/models/{model}:generateContent", _gemini, _JSON),
    "gemini.interactions": _Form("/v1/interactions", _interactions, _JSON),
    "bedrock.converse": _Form("/model/{model}/converse", _converse, _JSON),
    "ollama.chat": _Form("/api/chat", _ollama_chat, _JSON),
    "ollama.generate": _Form("/api/generate", _ollama_generate, _JSON),
    "cohere.v2.chat": _Form("/v2/chat", _chat, _JSON),
    "cohere.v1.chat": _Form("/v1/chat", _cohere_v1, _JSON),
}
# APIs that stream, and the ones beside them that do not; and realtime sockets, which have none.
_NOT_STREAMED: Mapping[str, str] = {
    "gemini.streamGenerateContent": "gemini.generateContent",
    "bedrock.converse-stream": "bedrock.converse",
    "bedrock.invoke": "bedrock.converse",
    "bedrock.invoke-stream": "bedrock.converse",
}
# Their paths begin behind the base path of an upstream (``/v1`` as a rule).
_BEHIND_BASE = frozenset(("openai.chat", "openai.completions", "openai.responses"))
# APIs whose calls say in their body that they stream. Gemini's others say so in their path; Bedrock
# streams in a framing of its own, and is asked whole.
_STREAMED_BY_BODY = frozenset((
    "openai.chat", "openai.completions", "openai.responses", "anthropic.messages", "ollama.chat",
    "gemini.interactions", "ollama.generate", "cohere.v2.chat", "cohere.v1.chat",
))  # fmt: skip
# The last parts of paths that stream, and what they are in one that does not.
_GEMINI = (":streamGenerateContent", ":generateContent")
_STREAMING = (
    _GEMINI,
    (":streamRawPredict", ":rawPredict"),
    ("/converse-stream", "/converse"),
    ("/invoke-with-response-stream", "/converse"),
    ("/invoke", "/converse"),
)
# The model's name in a path, as `proxy.wire.routes` reads it.
_NAMED = re.compile(r"(?P<before>.*(?:/models/|/deployments/|/model/))(?P<name>.+?)"
                    r"(?P<after>:[a-zA-Z]+|/(?:chat/completions|completions|responses|converse))"
                    r"/?")  # fmt: skip
# Parameters of a query that a question keeps: the version, and what names the deployment's API.
_KEPT_QUERY = re.compile(rb"(?:^|&)(api-version=[\w.-]{1,40})", re.IGNORECASE)
# Vertex's messages carry their version in the body: docs.claude.com/en/api/claude-on-vertex-ai
_VERTEX = (":rawPredict", "vertex-2023-10-16")
# OpenAI's reasoning models refuse ``max_tokens``: platform.openai.com/docs/api-reference/chat
_COMPLETION_LIMIT = "max_completion_tokens"


def api_asked(api: str) -> str | None:
    """Return the API by which a call's API is asked about; None if there is no plain one.

    Arguments:
        api: as an exchange has it.
    """
    api = _NOT_STREAMED.get(api, api)
    return api if api in _FORMS else None


def question(
    api: str,
    *,
    model: str,
    number: int,
    base_path: str = "",
    path: bytes | None = None,
    query: bytes = b"",
    version: bytes | None = None,
    tokens: int = TOKENS,
    completion_limit: bool = False,
    streamed: bool = False,
) -> Question:
    """Return a question in a dialect.

    Arguments:
        api: one that `api_asked` returned.
        number: of this question alone, up to twelve digits.
        base_path: the upstream's own, put before the path of OpenAI-like APIs.
        path: of a call that was answered, raw; None takes the dialect's usual one.
        query: that call's, of which the API's version is kept.
        version: that call's ``anthropic-version``.
        tokens: the limit of the answer.
        completion_limit: the limit is written as ``max_completion_tokens``.
        streamed: the answer is asked for in parts, where the dialect has them.
    """
    form = _FORMS[api]
    text = f"{_TEXT} ({number % 10**_NUMBERED:0{_NUMBERED}d})"
    body = form.body(model, text, tokens)
    if completion_limit and "max_tokens" in body:
        body[_COMPLETION_LIMIT] = body.pop("max_tokens")
    if path is None:
        named = (form.path or "").format(model=quote(model, safe=""))
        target_path = f"{base_path}{named}" if api in _BEHIND_BASE else named
    else:
        target_path = _asked_path(path.decode("latin-1"), model)
    if target_path.endswith(_VERTEX[0]):
        del body["model"]
        body["anthropic_version"] = _VERTEX[1]
        streamed = False  # its streams are at another path
    query_kept = _KEPT_QUERY.search(query)
    asked_query = query_kept[1] if query_kept else b""
    if streamed and api in _STREAMED_BY_BODY:
        body["stream"] = True
    streaming, plain = _GEMINI
    if streamed and target_path.endswith(plain):
        target_path = target_path.removesuffix(plain) + streaming
        asked_query = b"&".join(filter(None, (asked_query, b"alt=sse")))
    headers = form.headers
    if version is not None and _ANTHROPIC_VERSION in headers:
        headers = [pair for pair in headers if pair != _ANTHROPIC_VERSION]
        headers.append((_ANTHROPIC_VERSION[0], version))
    return Question(
        path=target_path.encode("latin-1"),
        query=asked_query,
        headers=headers,
        body=orjson.dumps(body),
    )


def _asked_path(path: str, model: str) -> str:
    """Return the path of an answered call as it is asked: not streamed, with the model's name."""
    for streaming, plain in _STREAMING:
        if path.endswith(streaming):
            path = path.removesuffix(streaming) + plain
            break
    named = _NAMED.fullmatch(path)
    if named is None:
        return path
    return f"{named['before']}{quote(model, safe='')}{named['after']}"
