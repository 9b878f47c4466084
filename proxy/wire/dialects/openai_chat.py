"""OpenAI's chat and legacy completions, and all compatible APIs.

No provider is named: compatible APIs differ by the fields that are present.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, joined, model_name, name, part, parts
from proxy.wire.serving import FIELDS
from proxy.wire.serving import take as take_serving

# Once output was seen: counts, an error, a finish reason, or a tool call's name.
# "message" is how an error field without an error object says it (llama.cpp, vLLM).
_RELEVANT = re.compile(
    rb'"(?=[bdefmntux])'  # at which most quotes fail: half the time of a search
    rb'(?:(?:usage|errors?|error_(?:code|msg|message)|x_groq|timings|base_resp|message|detail)"'
    rb"(?:: ?[^n ]|\s+:)"
    rb'|(?:finish_reason|name)"(?:: ?"[^"]|\s+:))'
)
# The same, and the first text, while there was only reasoning.
_AFTER_REASONING = re.compile(
    _RELEVANT.pattern.replace(b"[bdefmntux]", b"[abcdefmnrtux]")
    + rb'|"(?:content|refusal|text)"\s*:\s*(?:"[^"]|\[)|"audio"'
)
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_THOUGHTS = frozenset(("thinking", "redacted_thinking", "reasoning"))  # parts of a content list
_CALLED = frozenset(("tool_calls", "function_call"))


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    choices = payload.get("choices")
    if isinstance(choices, list):
        reading.understood = True
        for choice in choices:
            if isinstance(choice, dict):
                _choice(reading, choice)
    if reading.model is None:
        reading.model = model_name(payload.get("model"))
    if not FIELDS.isdisjoint(payload):
        take_serving(reading, payload)
    take_usage(reading, payload)


def take_usage(reading: Reading, payload: Payload) -> None:
    """Take the counts from wherever an OpenAI-compatible payload states them."""
    counts = payload.get("usage")
    if isinstance(counts, dict):
        usage.take(reading, usage.OPENAI, counts)
        if "cache_creation_input_tokens" in counts:
            _mould(reading, counts)
        if not usage.COSTS.isdisjoint(counts):
            usage.cost(reading, counts)
    elif "x_groq" in payload:  # console.groq.com/docs: the last chunk of a stream
        usage.take(reading, usage.OPENAI, part(payload["x_groq"]).get("usage"))
    elif "timings" in payload:
        _timings(reading, part(payload["timings"]))


def _choice(reading: Reading, choice: Payload) -> None:
    reading.take_finish_reason(choice.get("finish_reason"))
    delta, message = choice.get("delta"), choice.get("message")  # Perplexity, Writer: both
    if isinstance(delta, dict):
        _message(reading, delta, choice)
    if isinstance(message, dict):
        _message(reading, message, choice)
    if "text" in choice:
        reading.note_content(choice["text"])
    if "usage" in choice:  # Moonshot's streams state it in the choice
        usage.take(reading, usage.OPENAI, choice["usage"])


def _message(reading: Reading, message: Payload, choice: Payload) -> None:
    if not reading.content:
        _note_output(reading, message)
    if not _CALLED.isdisjoint(message):
        _calls(reading, message, choice.get("index"))


def _note_output(reading: Reading, message: Payload) -> None:
    content = message.get("content")
    if content:
        if isinstance(content, str):
            reading.output = reading.content = True
        elif isinstance(content, list):
            _content_parts(reading, content)
    if reading.content:
        return
    reading.note_content(message.get("refusal"))
    if message.get("audio"):
        reading.output = reading.content = True
    for key in _REASONING:
        reading.note_reasoning(message.get(key))


def _content_parts(reading: Reading, content: list[object]) -> None:
    """Note a content list, in which Mistral has its thinking too (docs.mistral.ai, reasoning)."""
    reading.output = True
    thoughts = sum(name(piece.get("type")) in _THOUGHTS for piece in parts(content))
    reading.content |= thoughts < len(content)


def _calls(reading: Reading, message: Payload, choice: object) -> None:
    """Count the calls that start here: only a call's first delta names a function."""
    for place, call in enumerate(parts(message.get("tool_calls"))):
        if part(call.get("function") or call.get("custom")).get("name"):
            reading.add_tool_call(_key(reading, call, choice, place))
    if part(message.get("function_call")).get("name"):  # before tools: one call an answer
        reading.add_tool_call((name(choice), "function_call"))


def _key(reading: Reading, call: Payload, choice: object, place: int) -> object:
    """Return one key per call: servers repeat the name in each delta, or index all calls 0."""
    bare = (name(choice), name(call.get("index", place)))
    own = name(call.get("id"))
    if own is None:
        same = (key for key in reading.calls if isinstance(key, tuple) and key[:2] == bare)
        return next(same, (*bare, None))
    return (*bare, own)


def _mould(reading: Reading, counts: Payload) -> None:
    if reading.cache_write_tokens is None and counts.get("cache_creation_input_tokens"):
        usage.take(reading, usage.MOULD, counts)


def _timings(reading: Reading, timings: Payload) -> None:
    """Take llama.cpp's timings where usage is absent: prompt, cached and predicted tokens.

    tools/server/README.md: the context is ``cache_n + prompt_n + predicted_n``. They are
    parts and no provider's totals, so they fill the normalised ones only.
    """
    read = Reading()
    usage.take(read, usage.TIMINGS, timings)
    if read.unreadable:
        reading.unreadable |= read.unreadable
        return
    if read.input_tokens is not None:
        reading.input_total = read.input_tokens + (read.cached_input_tokens or 0)
    reading.output_total = read.output_tokens


def _text(payload: Payload, event: str | None) -> str:
    for choice in parts(payload.get("choices")):
        if not choice.get("index"):
            message = choice.get("delta") or choice.get("message") or choice
            return joined(part(message).get("content") or choice.get("text"))
    return ""


CHAT: Dialect = Dialect(
    name="openai.chat",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    relevant_reasoning=_AFTER_REASONING,
    done=b"[DONE]",
    shape_keys=frozenset(("choices",)),
    text=_text,
)
