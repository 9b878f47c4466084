"""Where each family of APIs writes its token counts, and how they add up.

It estimates nothing: an absent count stays None, a stated 0 stays 0. Counts inside one
answer are cumulative at every provider, so a later one replaces an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.wire.dialect import Payload, Reading, count, part

Path = tuple[str, ...]
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUT_DETAILS = ("completion_tokens_details", "output_tokens_details")


@dataclass(frozen=True, slots=True)
class Count:
    """One field of a reading, and the places that state it, best first."""

    field: str
    places: tuple[Path, ...]


Table = tuple[Count, ...]


def _inside(outer: tuple[str, ...], *keys: str) -> tuple[Path, ...]:
    return tuple((one, key) for key in keys for one in outer)


# openai-python: types/completion_usage.py, types/responses/response_usage.py,
# types/create_embedding_response.py. prompt_cache_hit_tokens: api-docs.deepseek.com/api/
# create-chat-completion. Top-level cached_tokens and reasoning_tokens: Together,
# Hugging Face router, GitHub Copilot. cache_creation_*: LiteLLM in front of Anthropic.
OPENAI: Table = (
    Count("input_tokens", (("prompt_tokens",), ("input_tokens",))),
    Count("output_tokens", (("completion_tokens",), ("output_tokens",))),
    Count("total_tokens", (("total_tokens",),)),
    Count(
        "cached_input_tokens",
        (
            *_inside(_DETAILS, "cached_tokens"),
            ("prompt_cache_hit_tokens",),
            ("cached_tokens",),
            ("cache_read_input_tokens",),
        ),
    ),
    Count(
        "cache_write_tokens",
        _inside(
            _DETAILS, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"
        ),
    ),
    Count("reasoning_tokens", (*_inside(_OUT_DETAILS, "reasoning_tokens"), ("reasoning_tokens",))),
)
# anthropic-sdk-python: types/usage.py, types/message_delta_usage.py. input_tokens leaves
# cache reads and writes out; message_delta is cumulative and may repeat the input.
ANTHROPIC: Table = (
    Count("input_tokens", (("input_tokens",),)),
    Count("output_tokens", (("output_tokens",),)),
    Count("cached_input_tokens", (("cache_read_input_tokens",),)),
    Count("cache_write_tokens", (("cache_creation_input_tokens",),)),
    Count("reasoning_tokens", (("output_tokens_details", "thinking_tokens"),)),
)
# python-genai: types.py GenerateContentResponseUsageMetadata. The prompt includes the
# cached part; thoughts and tool-use prompts stand beside candidates and prompt.
GEMINI: Table = (
    Count("input_tokens", (("promptTokenCount",),)),
    Count("output_tokens", (("candidatesTokenCount",), ("responseTokenCount",))),
    Count("total_tokens", (("totalTokenCount",),)),
    Count("cached_input_tokens", (("cachedContentTokenCount",),)),
    Count("reasoning_tokens", (("thoughtsTokenCount",),)),
    Count("input_beside", (("toolUsePromptTokenCount",),)),
)
# cohere-python: types/usage.py, types/api_meta.py: numbers are floats; tokens and
# billed_units differ widely, tokens is what the model read and wrote. Embeddings state
# billed_units only.
COHERE: Table = (
    Count("input_tokens", (("tokens", "input_tokens"),)),
    Count("output_tokens", (("tokens", "output_tokens"),)),
    Count("cached_input_tokens", (("cached_tokens",),)),
    Count("reasoning_tokens", (("tokens", "reasoning_tokens"),)),
)
COHERE_BILLED: Table = (
    Count("input_tokens", (("billed_units", "input_tokens"),)),
    Count("output_tokens", (("billed_units", "output_tokens"),)),
)
# ollama: api/types.go Metrics; prompt_eval_count is left out when it is 0.
OLLAMA: Table = (
    Count("input_tokens", (("prompt_eval_count",),)),
    Count("output_tokens", (("eval_count",),)),
)
# botocore: data/bedrock-runtime/2023-09-30/service-2.json TokenUsage.
CONVERSE: Table = (
    Count("input_tokens", (("inputTokens",),)),
    Count("output_tokens", (("outputTokens",),)),
    Count("total_tokens", (("totalTokens",),)),
    Count("cached_input_tokens", (("cacheReadInputTokens",), ("cacheReadInputTokenCount",))),
    Count("cache_write_tokens", (("cacheWriteInputTokens",), ("cacheWriteInputTokenCount",))),
)
# The last chunk of InvokeModelWithResponseStream, of every model family.
INVOCATION_METRICS: Table = (
    Count("input_tokens", (("inputTokenCount",),)),
    Count("output_tokens", (("outputTokenCount",),)),
    Count("cached_input_tokens", (("cacheReadInputTokenCount",),)),
    Count("cache_write_tokens", (("cacheWriteInputTokenCount",),)),
)
# The native bodies of Bedrock's Titan and Llama (docs.aws.amazon.com/bedrock,
# model-parameters-titan-text, model-parameters-meta).
TITAN: Table = (
    Count("input_tokens", (("inputTextTokenCount",),)),
    Count("output_tokens", (("totalOutputTextTokenCount",),)),
)
LLAMA: Table = (
    Count("input_tokens", (("prompt_token_count",),)),
    Count("output_tokens", (("generation_token_count",),)),
)


def take(reading: Reading, table: Table, usage: object) -> None:
    """Replace each count of the reading that the usage object states."""
    if not isinstance(usage, dict):
        return
    for row in table:
        for place in row.places:
            value = count(_at(usage, place))
            if value is not None:
                setattr(reading, row.field, value)
                break


def _at(usage: Payload, place: Path) -> object:
    value = usage.get(place[0])
    return value if len(place) == 1 else part(value).get(place[1])


def inclusive(reading: Reading) -> tuple[int | None, int | None]:
    """Totals where the provider's input includes cached tokens and its output reasoning.

    Some count reasoning beside: then their own total says so, and it is believed (xAI's
    chat leaves it out of completion_tokens: docs.x.ai/docs/guides/reasoning).
    """
    spent, made = _or(reading.input_tokens, reading.input_total), reading.output_tokens
    reasoning, total = reading.reasoning_tokens, reading.total_tokens
    if made is None:
        return spent, reading.output_total
    if reasoning and spent is not None and total == spent + made + reasoning:
        return spent, made + reasoning
    return spent, made


def cache_beside(reading: Reading) -> tuple[int | None, int | None]:
    """Totals where cache reads and writes stand beside the input (Anthropic, Converse)."""
    cached = (reading.cached_input_tokens, reading.cache_write_tokens)
    return _plus(reading.input_tokens, *cached), reading.output_tokens


def thoughts_beside(reading: Reading) -> tuple[int | None, int | None]:
    """Totals where thoughts and tool-use prompts stand beside (Gemini).

    A count of 0 is left out of its JSON, so thoughts without candidates are all output.
    """
    spent = _plus(reading.input_tokens, reading.input_beside)
    made = _plus(reading.output_tokens or 0, reading.reasoning_tokens)
    silent = reading.output_tokens is None and reading.reasoning_tokens is None
    return spent, None if silent else made


def _plus(base: int | None, *more: int | None) -> int | None:
    return None if base is None else base + sum(one or 0 for one in more)


def _or(first: int | None, second: int | None) -> int | None:
    return second if first is None else first
