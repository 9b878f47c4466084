"""How each provider lets a key and its models be checked without an inference call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedProvider:
    """How to check a provider's key and models without an inference call.

    ``keys``: environment variables its clients read the key from. ``header``: header that
    carries the key. ``list``: path that only a valid key can read. ``one``: path of a model
    by name. ``ask``: path and body of the smallest inference call.
    """

    keys: tuple[str, ...]
    header: str = "authorization"
    extra: Mapping[str, str] = field(default_factory=dict)
    list: str = "/models"
    one: str | None = "/models/{model}"
    ask: Callable[[str], tuple[str, dict[str, Any]]] = lambda model: (
        "/chat/completions",
        {"model": model, "messages": [{"role": "user", "content": "Say ok."}]},
    )


def _ask_anthropic(model: str) -> tuple[str, dict[str, Any]]:
    message = {"role": "user", "content": "Say ok."}
    return "/v1/messages", {"model": model, "max_tokens": 16, "messages": [message]}


def _ask_gemini(model: str) -> tuple[str, dict[str, Any]]:
    body = {"contents": [{"role": "user", "parts": [{"text": "Say ok."}]}]}
    return f"/v1beta/models/{quote(model, safe='')}:generateContent", body


# Providers that differ from OpenAI. docs.claude.com/en/api/models-list, ai.google.dev/api/models;
# OpenRouter's list of models is public, so the key is checked at /key
# (openrouter.ai/docs/api-reference/limits).
_PROVIDERS: Mapping[str, ProbedProvider] = {
    "openai": ProbedProvider(keys=("OPENAI_API_KEY",)),
    "anthropic": ProbedProvider(
        keys=("ANTHROPIC_API_KEY",),
        header="x-api-key",
        extra={"anthropic-version": "2023-06-01"},
        list="/v1/models?limit=1000",
        one="/v1/models/{model}",
        ask=_ask_anthropic,
    ),
    "gemini": ProbedProvider(
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        header="x-goog-api-key",
        list="/v1beta/models?pageSize=1000",
        one="/v1beta/models/{model}",
        ask=_ask_gemini,
    ),
    "openrouter": ProbedProvider(keys=("OPENROUTER_API_KEY",), list="/key", one=None),
}


def provider_of(upstream: str) -> ProbedProvider:
    """Return an upstream's own row, or the defaults of an OpenAI-compatible provider."""
    variable = f"{upstream.upper().replace('-', '_').replace('.', '_')}_API_KEY"
    return _PROVIDERS.get(upstream) or ProbedProvider(keys=(variable,))
