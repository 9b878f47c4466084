"""Questions of the proxy's own: the plainest request of each dialect, in the form of a call.

A question holds none of an agent's words. The number that it begins with, and other words in each,
keep caches from answering.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from proxy.asking.ways import GEMINI, NAME, NOT_STREAMED, Way

TOKENS = 16
MORE_TOKENS = 512  # of models that refuse so few

WORD = "ready"
"""The word that a question asks for."""
_TEXT = f"{{number}} Never mind {{words}}. Reply with the word {WORD}."
# Three of them are in each question, against caches that know a text by its meaning.
_WORDS = (
    "copper", "harbours", "lanterns", "winter", "violins", "bridges", "pepper", "granite",
    "saddles", "thunder", "orchards", "needles", "glaciers", "ribbons", "tobacco", "compasses",
    "otters", "chimneys", "velvet", "ladders", "mustard", "pilgrims", "anchors", "beehives",
    "marble", "kites", "rivers", "almonds", "tunnels", "feathers", "sundials", "walnuts",
)  # fmt: skip
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
    the model's name. ``body`` takes the model, the text and the limit in tokens.
    """

    path: str
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
# Their paths begin behind the base path of an upstream (``/v1`` as a rule).
_BEHIND_BASE = frozenset(("openai.chat", "openai.completions", "openai.responses"))
# APIs whose calls say in their body that they stream. Gemini's others say so in their path; Bedrock
# streams in a framing of its own, and is asked whole.
_STREAMED_BY_BODY = frozenset((
    "openai.chat", "openai.completions", "openai.responses", "anthropic.messages", "ollama.chat",
    "gemini.interactions", "ollama.generate", "cohere.v2.chat", "cohere.v1.chat",
))  # fmt: skip
# Vertex's messages carry their version in the body: docs.claude.com/en/api/claude-on-vertex-ai
_VERTEX = (":rawPredict", "vertex-2023-10-16")
# OpenAI's reasoning models refuse ``max_tokens``: platform.openai.com/docs/api-reference/chat
_COMPLETION_LIMIT = "max_completion_tokens"
# A text that a model goes on with, without a chat's form: it owes no word.
_CONTINUED = frozenset(("openai.completions",))


PLAIN: Mapping[str, str] = {**{api: api for api in _FORMS}, **NOT_STREAMED}
"""The API of the plain question, by that of a call."""


def question(
    way: Way,
    *,
    model: str,
    number: int,
    base_path: str = "",
    tokens: int = TOKENS,
    completion_limit: bool = False,
) -> Question:
    """Return a question that asks in this way.

    Arguments:
        way: its ``api`` is one that `PLAIN` has.
        number: of this question alone, up to twelve digits.
        base_path: the upstream's own, put before the path of OpenAI-like APIs.
        tokens: the limit of the answer.
        completion_limit: the limit is written as ``max_completion_tokens``.
    """
    form, streamed = _FORMS[way.api], way.streamed
    body = form.body(model, _text(number), tokens)
    if completion_limit and "max_tokens" in body:
        body[_COMPLETION_LIMIT] = body.pop("max_tokens")
    path = usual_path(way.api, base_path) if way.path is None else way.path
    target_path = path.replace(NAME, quote(model, safe=""))
    if target_path.endswith(_VERTEX[0]):
        del body["model"]
        body["anthropic_version"] = _VERTEX[1]
        streamed = False  # its streams are at another path
    if streamed and way.api in _STREAMED_BY_BODY:
        body["stream"] = True
    query = way.query
    streaming, plain = GEMINI
    if streamed and target_path.endswith(plain):
        target_path = target_path.removesuffix(plain) + streaming
        query = b"&".join(filter(None, (query, b"alt=sse")))
    headers = list(form.headers)
    if way.version is not None and _ANTHROPIC_VERSION in headers:
        headers.remove(_ANTHROPIC_VERSION)
        headers.append((_ANTHROPIC_VERSION[0], way.version))
    headers += [(name.encode(), value) for name, value in way.headers]
    body |= {name: orjson.loads(value) for name, value in way.fields}
    return Question(
        path=target_path.encode("latin-1"),
        query=query,
        headers=headers,
        body=orjson.dumps(body),
    )


def lacks_word(api: str, said: str | None) -> bool:
    """Return True if an answer said something, and not the word that it was asked for.

    Arguments:
        said: its text; None where that is not known, empty where all of it was reasoning.
    """
    return bool(said) and api not in _CONTINUED and WORD not in (said or "").casefold()


def _text(number: int) -> str:
    """Return a question's text: its number, and words that are drawn by it."""
    number %= 10**_NUMBERED
    drawn = random.Random(number).sample(_WORDS, 3)  # noqa: S311
    words = f"{drawn[0]}, {drawn[1]} and {drawn[2]}"
    return _TEXT.format(number=f"{number:0{_NUMBERED}d}", words=words)


# --- paths -------------------------------------------------------------------------------------


def usual_path(api: str, base_path: str) -> str:
    """Return where a provider has an API at its usual place, with `NAME` for the model's name."""
    path = _FORMS[api].path.format(model=NAME)
    return f"{base_path}{path}" if api in _BEHIND_BASE else path
