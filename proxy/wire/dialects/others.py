"""Dialects of Cohere, Ollama and SGLang, and the opaque dialect of unknown formats.

Cohere: chat v1 and v2, embeddings, rerank. Its ``tokens`` and ``billed_units`` count different
things and are never mixed.
"""

from __future__ import annotations

import re
from typing import Final

from proxy.wire import usage
from proxy.wire.dialect import (
    FAILURE,
    Dialect,
    Payload,
    ResponseFacts,
    joined,
    name,
    part,
    parts,
    take_weights,
)

_COHERE_KEYS = (
    rb'"(?=[bdeEfmMst])(?:(?:message-end|stream-end|tool-call-start|tool-calls-generation|error)"|'
    + FAILURE
)
_COHERE_RELEVANT = re.compile(_COHERE_KEYS + rb")")
_COHERE_AFTER_REASONING = re.compile(_COHERE_KEYS + rb'|(?:text|tool_plan)" ?: ?"[^"])')
_COHERE_ENDS = frozenset(("message-end", "stream-end"))
_COHERE_SHAPE = frozenset(("message", "text", "chat_history", "generation_id"))
_NO_COHERE = frozenset(("error", "done"))  # a failure; Ollama's, which has a message too


def _read_cohere(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    kind = payload.get("type") or payload.get("event_type")
    reading.take_id(payload.get("id") or payload.get("generation_id"))  # v1: generation_id
    if isinstance(kind, str) and "-" in kind:  # as all of its events, and no other API's
        _cohere_event(reading, payload, kind)
    elif not (kind or _COHERE_SHAPE.isdisjoint(payload)) and _NO_COHERE.isdisjoint(payload):
        _cohere_body(reading, payload)


def _cohere_event(reading: ResponseFacts, payload: Payload, kind: str) -> None:
    reading.understood = reading.has_part = True
    delta = part(payload.get("delta"))
    message = part(delta.get("message"))
    content = part(message.get("content"))
    for text in (content.get("text"), message.get("tool_plan"), payload.get("text")):
        reading.note_content(text)
    reading.note_reasoning(content.get("thinking"))
    if kind == "tool-call-start":
        reading.add_tool_call(name(payload.get("index")) or len(reading.calls))
    elif kind == "tool-calls-generation":  # v1 states all calls at once
        _cohere_calls(reading, payload)
    elif kind in _COHERE_ENDS:
        reading.ended = True
        reading.take_finish_reason(delta.get("finish_reason") or payload.get("finish_reason"))
        _cohere_usage(reading, delta.get("usage"))
        response = part(payload.get("response"))
        _cohere_usage(reading, response.get("meta"))


def _cohere_body(reading: ResponseFacts, payload: Payload) -> None:
    message = part(payload.get("message"))
    reading.understood = reading.has_part = bool(message) or "text" in payload
    reading.take_finish_reason(payload.get("finish_reason"))
    reading.note_content(payload.get("text"))
    for piece in parts(message.get("content")):
        reading.note_content(piece.get("text"))
        reading.note_reasoning(piece.get("thinking"))
    _cohere_calls(reading, payload)
    _cohere_calls(reading, message)
    _cohere_usage(reading, payload.get("usage") or payload.get("meta"))


def _cohere_calls(reading: ResponseFacts, holder: Payload) -> None:
    for place, _ in enumerate(parts(holder.get("tool_calls"))):
        reading.add_tool_call(place)


def _cohere_usage(reading: ResponseFacts, counts: object) -> None:
    if not isinstance(counts, dict):
        return
    usage.take(reading, usage.COHERE, counts)
    if "tokens" not in counts:
        usage.take(reading, usage.COHERE_BILLED, counts)


def _read_cohere_list(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    reading.take_id(payload.get("id"))
    rows = payload.get("embeddings") or payload.get("results")
    if rows:
        reading.understood = reading.output = reading.content = True
    _cohere_usage(reading, payload.get("meta"))


def _cohere_text(payload: Payload, event: str | None) -> str:
    message = part((part(payload.get("delta")) or payload).get("message"))
    content = message.get("content")
    if isinstance(content, dict):
        content = content.get("text")
    return joined(content or payload.get("text"))


COHERE_CHAT: Dialect = Dialect(
    name="cohere.chat",
    read=_read_cohere,
    totals=usage.inclusive,
    relevant=_COHERE_RELEVANT,
    relevant_reasoning=_COHERE_AFTER_REASONING,
    shape_keys=frozenset(("generation_id", "chat_history", "event_type")),
    text=_cohere_text,
)
COHERE_LISTS: Dialect = Dialect(name="cohere.lists", read=_read_cohere_list, totals=usage.inclusive)


# --- Ollama ------------------------------------------------------------------------------------
# One JSON object, or one a line with the counts on the last.


_OLLAMA_KEYS = rb'"(?=[bcdeEfmMrt])(?:done": ?true|(?:error|tool_calls|done)" ?: ?[^f]|' + FAILURE
_OLLAMA_RELEVANT = re.compile(_OLLAMA_KEYS + rb")")
_OLLAMA_AFTER_REASONING = re.compile(_OLLAMA_KEYS + rb'|(?:response|content)" ?: ?"[^"])')


def _read_ollama(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    if "done" not in payload:
        return
    reading.understood = True
    reading.take_model(payload.get("model"))
    message = part(payload.get("message"))
    reading.has_part |= bool(message) or "response" in payload
    reading.note_items(payload.get("image"), payload.get("logprobs"))
    for holder, text in ((payload, "response"), (message, "content")):
        reading.note_content(holder.get(text))
        reading.note_reasoning(holder.get("thinking"))
    for _ in parts(message.get("tool_calls")):
        reading.add_tool_call(len(reading.calls))
    if payload["done"] is True:
        reading.ended = True
        reading.take_finish_reason(payload.get("done_reason"))
        usage.take(reading, usage.OLLAMA, payload)


def _read_ollama_embedding(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    if payload.get("embeddings") or payload.get("embedding"):
        reading.understood = reading.output = reading.content = True
    reading.take_model(payload.get("model"))
    usage.take(reading, usage.OLLAMA, payload)


def _ollama_text(payload: Payload, event: str | None) -> str:
    return joined(part(payload.get("message")).get("content") or payload.get("response"))


OLLAMA_CHAT: Dialect = Dialect(
    name="ollama.chat",
    read=_read_ollama,
    totals=usage.inclusive,
    relevant=_OLLAMA_RELEVANT,
    relevant_reasoning=_OLLAMA_AFTER_REASONING,
    text=_ollama_text,
)
OLLAMA_EMBED: Dialect = Dialect(
    name="ollama.embed", read=_read_ollama_embedding, totals=usage.inclusive
)


# --- SGLang's own ``/generate`` ----------------------------------------------------------------
# Whole, or as a stream whose events repeat all that came before. Trainers ask it for tokens
# (slime, verl, AReaL). ``meta_info`` has the counts, why it ended and the version of the weights
# (python/sglang/srt/managers/tokenizer_manager.py).


_SGLANG_RELEVANT = re.compile(rb'"finish_reason"\s*:\s*[{"]|"error"')


def _read_sglang(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    meta = payload.get("meta_info")
    if not isinstance(meta, dict):
        return
    another = reading.finish_reason is not None  # one call may have several prompts
    reading.understood = True
    reading.has_part = True
    reading.note_items(payload.get("text"), payload.get("output_ids"))
    reading.note_items(meta.get("output_token_logprobs"))
    ended = meta.get("finish_reason")
    reading.take_finish_reason(part(ended).get("type") or ended)
    take_weights(reading, meta)
    reading.take_id(meta.get("id"))
    usage.take(reading, usage.OPENAI, meta)
    if another:  # whose counts are not added up
        reading.input_tokens = reading.output_tokens = reading.cached_input_tokens = None
        reading.reasoning_tokens = None


SGLANG_GENERATE: Final[Dialect] = Dialect(
    name="sglang.generate",
    read=_read_sglang,
    totals=usage.inclusive,
    relevant=_SGLANG_RELEVANT,
    relevant_reasoning=_SGLANG_RELEVANT,
    cumulative=True,
    done=b"[DONE]",
    shape_keys=frozenset(("meta_info",)),
)


# --- unknown formats ---------------------------------------------------------------------------
# Usage stays absent, output unknown.


def _read_nothing(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    """Read nothing; errors are read from any payload (`payloads`)."""


def _no_totals(reading: ResponseFacts) -> tuple[int | None, int | None]:
    return reading.input_total, reading.output_total


OPAQUE: Dialect = Dialect(name="opaque", read=_read_nothing, totals=_no_totals, known=False)
