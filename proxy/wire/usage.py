"""The token counts that each family of APIs states, and how they add up.

Nothing is estimated: an absent count stays None, a stated 0 stays 0. Counts inside one
response are cumulative at every provider, so a later one replaces an earlier one. A count or a
cost that no call can have is unreadable: accepting it would distort the sums of a batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from classifier.records import COST_LIMIT, COUNT_LIMIT
from proxy.wire.dialect import ResponseFacts, count, is_beyond, parts

_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUT_DETAILS = ("completion_tokens_details", "output_tokens_details")


class UsageField(NamedTuple):
    """One field of a reading, and the places that state it, best first."""

    field: str
    places: tuple[str, ...]


class UsageTable:
    """An index from the keys of a usage object to the fields of a reading.

    Arguments:
        places: a field and one place of it each, a better place of the same field behind a
            worse one. A place is written ``key`` or ``key.inner``; what an object inside says
            outranks what stands beside it.
    """

    __slots__ = ("counts", "inside", "keys")

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        counts: list[tuple[str, str]] = []
        inside: dict[str, list[tuple[str, str]]] = {}
        for field, place in places:
            key, _, inner = place.partition(".")
            if inner:
                inside.setdefault(key, []).append((field, inner))
            else:
                counts.append((key, field))
        self.counts = tuple(counts)
        self.inside = tuple((key, UsageTable(fields)) for key, fields in inside.items())
        self.keys = frozenset((*(key for key, _ in counts), *inside))


@lru_cache(maxsize=512)
def _plan(
    table: UsageTable, stated: frozenset[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, UsageTable], ...]]:
    """Select the part of a table for a usage object with these of its keys."""
    return (
        tuple(count for count in table.counts if count[0] in stated),
        tuple(holder for holder in table.inside if holder[0] in stated),
    )


def row(field: str, *places: str) -> UsageField:
    """Make a row; a place is written ``key`` or ``key.inner``, the best comes first."""
    return UsageField(field, places)


def table(*rows: UsageField) -> UsageTable:
    """Make a table of rows."""
    return UsageTable((field, place) for field, places in rows for place in reversed(places))


def _inside(outer: tuple[str, ...], *keys: str) -> tuple[str, ...]:
    return tuple(f"{one}.{key}" for key in keys for one in outer)


# openai-python: types/completion_usage.py, types/responses/response_usage.py,
# types/create_embedding_response.py. prompt_cache_hit_tokens: api-docs.deepseek.com/api/
# create-chat-completion. Top-level cached_tokens and reasoning_tokens: Together,
# Hugging Face router, GitHub Copilot. cache_creation_*: LiteLLM in front of Anthropic.
OPENAI = table(
    row("input_tokens", "prompt_tokens", "input_tokens"),
    row("output_tokens", "completion_tokens", "output_tokens"),
    row("total_tokens", "total_tokens"),
    row(
        "cached_input_tokens",
        *_inside(_DETAILS, "cached_tokens"),
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "cache_read_input_tokens",
    ),
    row(
        "cache_write_tokens",
        *_inside(
            _DETAILS, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"
        ),
    ),
    row("reasoning_tokens", *_inside(_OUT_DETAILS, "reasoning_tokens"), "reasoning_tokens"),
)
# Anthropic's cache field in an OpenAI response: gateways add it to every response, with 0 for
# models without such a count; only more than 0 is a count there.
MOULD = table(row("cache_write_tokens", "cache_creation_input_tokens"))
# anthropic-sdk-python: types/usage.py, types/message_delta_usage.py. input_tokens leaves
# cache reads and writes out; message_delta is cumulative and may repeat the input.
ANTHROPIC = table(
    row("input_tokens", "input_tokens"),
    row("output_tokens", "output_tokens"),
    row("cached_input_tokens", "cache_read_input_tokens"),
    row("cache_write_tokens", "cache_creation_input_tokens"),
    row("reasoning_tokens", "output_tokens_details.thinking_tokens"),
)
# python-genai: types.py GenerateContentResponseUsageMetadata. The prompt includes the
# cached part; thoughts and tool-use prompts stand beside candidates and prompt.
GEMINI = table(
    row("input_tokens", "promptTokenCount"),
    row("output_tokens", "candidatesTokenCount", "responseTokenCount"),
    row("total_tokens", "totalTokenCount"),
    row("cached_input_tokens", "cachedContentTokenCount"),
    row("reasoning_tokens", "thoughtsTokenCount"),
    row("input_beside", "toolUsePromptTokenCount"),
)
# python-genai: _gaos/types/interactions/usage.py. The input includes the cached part; thoughts and
# what tools read stand beside output and input, as total_tokens shows.
INTERACTIONS = table(
    row("input_tokens", "total_input_tokens"),
    row("output_tokens", "total_output_tokens"),
    row("total_tokens", "total_tokens"),
    row("cached_input_tokens", "total_cached_tokens"),
    row("reasoning_tokens", "total_thought_tokens", "total_reasoning_tokens"),
    row("input_beside", "total_tool_use_tokens"),
)
# cohere-python: types/usage.py, types/api_meta.py: numbers are floats; tokens and
# billed_units differ widely, tokens is what the model read and wrote. Embeddings state
# billed_units only.
COHERE = table(
    row("input_tokens", "tokens.input_tokens"),
    row("output_tokens", "tokens.output_tokens"),
    row("cached_input_tokens", "cached_tokens"),
    row("reasoning_tokens", "tokens.reasoning_tokens"),
)
COHERE_BILLED = table(
    row("input_tokens", "billed_units.input_tokens"),
    row("output_tokens", "billed_units.output_tokens"),
)
# ollama: api/types.go Metrics; prompt_eval_count is left out when it is 0.
OLLAMA = table(
    row("input_tokens", "prompt_eval_count"),
    row("output_tokens", "eval_count"),
)
# llama.cpp: tools/server/README.md, timings.
TIMINGS = table(
    row("input_tokens", "prompt_n"),
    row("output_tokens", "predicted_n"),
    row("cached_input_tokens", "cache_n"),
)
# botocore: data/bedrock-runtime/2023-09-30/service-2.json TokenUsage.
CONVERSE = table(
    row("input_tokens", "inputTokens"),
    row("output_tokens", "outputTokens"),
    row("total_tokens", "totalTokens"),
    row("cached_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount"),
    row("cache_write_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
)
# The last chunk of InvokeModelWithResponseStream, of every model family.
INVOCATION_METRICS = table(
    row("input_tokens", "inputTokenCount"),
    row("output_tokens", "outputTokenCount"),
    row("cached_input_tokens", "cacheReadInputTokenCount"),
    row("cache_write_tokens", "cacheWriteInputTokenCount"),
)
# The native bodies of Bedrock's Titan and Llama (docs.aws.amazon.com/bedrock,
# model-parameters-titan-text, model-parameters-meta).
TITAN = table(
    row("input_tokens", "inputTextTokenCount"),
    row("output_tokens", "totalOutputTextTokenCount"),
)
TITAN_RESULT = table(row("output_tokens", "tokenCount"))
LLAMA = table(
    row("input_tokens", "prompt_token_count"),
    row("output_tokens", "generation_token_count"),
)


# anthropic-sdk-python: types/beta/beta_usage.py, ``iterations``: the tokens of these are in none
# of the counts beside them. Those of the others are.
_BESIDE = frozenset(("compaction",))
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUTS = ("output_tokens",)


def iterations(reading: ResponseFacts, usage: Mapping[str, object]) -> None:
    """Take the tokens of Anthropic's iterations that its other counts leave out.

    Gateways that have added them up already state the sum of all iterations.
    """
    each = parts(usage.get("iterations"))
    beside = [one for one in each if one.get("type") in _BESIDE]
    if not beside:
        return
    stated = [(key, usage[key]) for key in (*_INPUTS, *_OUTPUTS) if count(usage.get(key))]
    added_up = stated and all(value == _sum(each, (key,)) for key, value in stated)
    reading.input_beside = 0 if added_up else _sum(beside, _INPUTS)
    reading.output_beside = 0 if added_up else _sum(beside, _OUTPUTS)


def _sum(each: Iterable[Mapping[str, object]], keys: Iterable[str]) -> int:
    return sum(count(one.get(key)) or 0 for one in each for key in keys)


_COUNTS: Final = range(COUNT_LIMIT + 1)


def take(reading: ResponseFacts, table: UsageTable, usage: object) -> None:
    """Replace each count of the reading that the usage object states; a 0 takes none back."""
    if not isinstance(usage, dict):
        return
    counts, inside = _plan(table, table.keys.intersection(usage))
    for key, field in counts:
        value = usage[key]
        # Of whole numbers only: for anything else a range compares each of its numbers.
        if value.__class__ is int and value in _COUNTS:
            setattr(reading, field, value or getattr(reading, field) or 0)
        else:
            take_other(reading, field, value)
    for key, within in inside:
        take(reading, within, usage[key])


def take_other(reading: ResponseFacts, field: str, value: object) -> None:
    """Take a count written as a float or a text; note one that no call can have.

    Gateways end a stream with zeros that nobody counted (envoyproxy/ai-gateway#1631).
    """
    if (number := count(value)) is not None:
        setattr(reading, field, number or getattr(reading, field) or 0)
    elif is_beyond(value, COUNT_LIMIT):
        reading.unreadable |= {field}


COSTS: frozenset[str] = frozenset(("cost", "cost_in_usd_ticks"))  # keys of which any may state one


def cost(reading: ResponseFacts, usage: object) -> None:
    """Take the cost of the call in US dollars where the provider states it.

    OpenRouter: ``cost`` (openrouter.ai/docs/use-cases/usage-accounting). Perplexity:
    ``cost.total_cost``. xAI: ``cost_in_usd_ticks``, 10^10 to the dollar
    (docs.x.ai/developers/cost-tracking).
    """
    if not isinstance(usage, dict) or COSTS.isdisjoint(usage):
        return
    stated = usage.get("cost")
    stated = stated.get("total_cost") if isinstance(stated, dict) else stated
    ticks = usage.get("cost_in_usd_ticks")
    for value, unit in ((stated, 1.0), (ticks, 1e10)):
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float) and 0 <= value <= COST_LIMIT * unit:
            reading.cost_usd = value / unit
        elif is_beyond(value, COST_LIMIT * unit):
            reading.unreadable |= {"cost_usd"}


# Counts of a provider's own tools that it charges for. xAI: docs.x.ai/docs/guides/live-search.
# Perplexity: docs.perplexity.ai, num_search_queries. Anthropic: types/server_tool_usage.py.
TOOLS: frozenset[str] = frozenset(
    ("num_sources_used", "num_server_side_tools_used", "num_search_queries", "server_tool_use")
)
_FREE = frozenset(("web_fetch_requests", "tool_search_requests"))


def tools(reading: ResponseFacts, usage: Mapping[str, object]) -> None:
    """Note that the provider ran tools that it charges for, where a count says so."""
    for key in TOOLS.intersection(usage):
        stated = usage[key]
        counts = (
            [number for name, number in stated.items() if name not in _FREE]
            if isinstance(stated, dict)
            else [stated]
        )
        reading.note_paid_tools(any(map(count, counts)))


# Counts that ride in headers: Bedrock InvokeModel; LiteLLM's pass-through
# (litellm/proxy/pass_through_endpoints/upstream_usage_headers.py).
_HEADERS = {
    b"x-amzn-bedrock-input-token-count": "input_tokens",
    b"x-amzn-bedrock-output-token-count": "output_tokens",
    b"x-amzn-bedrock-cache-read-input-token-count": "cached_input_tokens",
    b"x-amzn-bedrock-cache-write-input-token-count": "cache_write_tokens",
    b"x-litellm-total-tokens": "total_tokens",
    b"x-litellm-response-cost": "cost_usd",
}
HEADERS: frozenset[bytes] = frozenset(_HEADERS)  # of which any may state a count
UNSTATED: Mapping[str, float] = {}


def in_headers(headers: Mapping[bytes, bytes]) -> Mapping[str, float]:
    """Read the counts in a response's headers, by the reading's field; names in lower case."""
    if HEADERS.isdisjoint(headers):
        return UNSTATED
    stated = ((field, _number(headers.get(name))) for name, field in _HEADERS.items())
    return {field: number for field, number in stated if number is not None}


def fill(reading: ResponseFacts, stated: Mapping[str, float]) -> None:
    """Fill from headers what the body left open, each field by itself."""
    for field, number in stated.items():
        if getattr(reading, field) is None and _plausible(field, number):
            setattr(reading, field, number if field == "cost_usd" else count(number))


def plausible(stated: Mapping[str, float]) -> bool:
    """Return True if a call can have each of these counts."""
    return all(_plausible(field, number) for field, number in stated.items())


def _plausible(field: str, number: float) -> bool:
    return number <= (COST_LIMIT if field == "cost_usd" else COUNT_LIMIT)


def readable(reading: ResponseFacts) -> ResponseFacts:
    """Return the reading without the counts and the cost that no call can have."""
    if not reading.unreadable:
        return reading
    reading = copy.copy(reading)
    for field in reading.unreadable:
        setattr(reading, field, None)
    return reading


def _number(value: bytes | None) -> float | None:
    try:
        number = float(value or b"")
    except ValueError:
        return None
    return number if number >= 0 else None  # which NaN is not


def inclusive(reading: ResponseFacts) -> tuple[int | None, int | None]:
    """Add up where the input includes cached tokens and the output includes reasoning.

    Some count reasoning separately: their own total shows it (xAI's
    chat: docs.x.ai/docs/key-information/consumption-and-rate-limits).
    """
    spent, made = reading.input_tokens, reading.output_tokens
    if spent is None:
        spent = reading.input_total
    reasoning, total = reading.reasoning_tokens, reading.total_tokens
    if made is None:
        return spent, reading.output_total
    if reasoning and spent is not None and total == spent + made + reasoning:
        return spent, made + reasoning
    return spent, made


def cache_beside(reading: ResponseFacts) -> tuple[int | None, int | None]:
    """Add up where cache reads and writes are not in the input (Anthropic, Converse)."""
    more = (reading.cached_input_tokens, reading.cache_write_tokens, reading.input_beside)
    return _plus(reading.input_tokens, *more), _plus(reading.output_tokens, reading.output_beside)


def thoughts_beside(reading: ResponseFacts) -> tuple[int | None, int | None]:
    """Add up where thoughts and tool-use prompts are counted separately (Gemini).

    A count of 0 is left out of its JSON, so thoughts without candidates are all output.
    """
    spent = _plus(reading.input_tokens, reading.input_beside)
    made = _plus(reading.output_tokens or 0, reading.reasoning_tokens)
    silent = reading.output_tokens is None and reading.reasoning_tokens is None
    return spent, None if silent else made


def _plus(base: int | None, *more: int | None) -> int | None:
    return None if base is None else base + sum(one or 0 for one in more)
