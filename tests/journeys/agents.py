"""Agents as people write them: the providers' own SDKs, asked whole or streamed.

Each tells what its SDK made of the answer, so that two ways to one provider can be compared. An SDK
is loaded as it is asked: all of them take 2 CPU s, and whoever imports this needs one or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fakes.answers import Api

if TYPE_CHECKING:
    import openai
    from google import genai

KEY = "sk-journey-000000000000"
PROMPT = "is that zero true?"

_FUNCTION: Any = {
    "name": "look",
    "description": "Look at a number.",
    "parameters": {"type": "object"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an SDK handed its user: the events or the one answer, and the error if any."""

    said: tuple[str, ...]
    error: str | None = None
    status: int | None = None
    message: str | None = None


def ask(api: Api, base: str, *, stream: bool, retries: int = 0) -> Seen:
    """Have one conversation with a provider, or with a proxy that stands before it."""
    said: list[str] = []
    try:
        for event in _ASK[api](base, stream, retries):
            said.append(event.model_dump_json())  # noqa: PERF401  what came before an error counts
    except errors(api) as error:
        return Seen(said=tuple(said), error=_kind(error), status=_status(error), message=str(error))
    except Exception as error:  # a cut comes up as the SDK's HTTP library's own
        return Seen(said=tuple(said), error=_kind(error))
    return Seen(said=tuple(said))


def errors(api: Api) -> tuple[type[Exception], ...]:
    """The errors of an API's own SDK."""
    if api in (Api.CHAT, Api.RESPONSES):
        import openai

        return (openai.OpenAIError,)
    if api is Api.MESSAGES:
        import anthropic

        return (anthropic.AnthropicError,)
    from google.genai import _interactions_errors as interactions_errors
    from google.genai import errors as genai_errors

    return (genai_errors.APIError, interactions_errors.APIError)


def _kind(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _status(error: Exception) -> int | None:
    return getattr(error, "status_code", None) or getattr(error, "code", None)


def _openai(base: str, retries: int) -> openai.OpenAI:
    import openai

    return openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=retries, timeout=60)


def _chat(base: str, stream: bool, retries: int) -> Iterable[Any]:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer: Any = _openai(base, retries).chat.completions.create(
        model="gpt-5",
        messages=[{"role": "user", "content": PROMPT}],
        tools=[{"type": "function", "function": _FUNCTION}],
        **options,
    )
    return answer if stream else [answer]


def _responses(base: str, stream: bool, retries: int) -> Iterable[Any]:
    answer: Any = _openai(base, retries).responses.create(
        model="gpt-5",
        input=PROMPT,
        tools=[{"type": "function", "strict": False, **_FUNCTION}],
        stream=stream,
    )
    return answer if stream else [answer]


def _messages(base: str, stream: bool, retries: int) -> Iterable[Any]:
    import anthropic

    client = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=retries, timeout=60)
    answer: Any = client.messages.create(
        model="claude-sonnet-5",
        max_tokens=100,
        messages=[{"role": "user", "content": PROMPT}],
        tools=[{"name": "look", "input_schema": {"type": "object"}}],
        stream=stream,
    )
    return answer if stream else [answer]


def _gemini(base: str, stream: bool, retries: int) -> Iterable[Any]:
    from google import genai
    from google.genai import types as genai_types

    del retries  # it makes none unless it is told to
    options = genai_types.HttpOptions(base_url=base, timeout=60_000)
    client = genai.Client(api_key=KEY, http_options=options)
    ask = client.models.generate_content_stream if stream else client.models.generate_content
    look = genai_types.FunctionDeclaration(name="look")
    config = genai_types.GenerateContentConfig(
        tools=[genai_types.Tool(function_declarations=[look])]
    )
    answer: Any = ask(model="gemini-3-pro", contents=PROMPT, config=config)
    for part in answer if stream else [answer]:
        # the transport's headers ride along in the object, and may differ by one of ours
        yield part.model_copy(update={"sdk_http_response": None})


def gemini_client(base: str, retries: int = 0) -> genai.Client:
    """Google's client; ``attempts`` count the first request too."""
    from google import genai
    from google.genai import types as genai_types

    options = genai_types.HttpOptions(
        base_url=base,
        timeout=60_000,
        retry_options=genai_types.HttpRetryOptions(attempts=retries + 1, initial_delay=0.01),
    )
    return genai.Client(api_key=KEY, http_options=options)


def _interactions(base: str, stream: bool, retries: int) -> Iterable[Any]:
    client = gemini_client(base, retries)  # it closes its connections as it is freed
    answer: Any = client.interactions.create(
        model="gemini-3-pro",
        input=PROMPT,
        tools=[{"type": "function", **_FUNCTION}],
        stream=stream,
    )
    yield from answer if stream else [answer]


_ASK: Mapping[Api, Callable[[str, bool, int], Iterable[Any]]] = {
    Api.CHAT: _chat,
    Api.RESPONSES: _responses,
    Api.MESSAGES: _messages,
    Api.GEMINI: _gemini,
    Api.INTERACTIONS: _interactions,
}

UPSTREAM: Mapping[Api, str] = {
    Api.CHAT: "openai",
    Api.RESPONSES: "openai",
    Api.MESSAGES: "anthropic",
    Api.GEMINI: "gemini",
    Api.INTERACTIONS: "gemini",
}
