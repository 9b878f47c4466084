"""Cohere's chat, v1 and v2, whole or streamed, its embeddings and its rerank.

``tokens`` and ``billed_units`` count different things and are never mixed.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, joined, name, part, parts

_KEYS = rb'"(?:message-end|stream-end|tool-call-start|tool-calls-generation|error)"'
_RELEVANT = re.compile(_KEYS)
_AFTER_REASONING = re.compile(_KEYS + rb'|"(?:text|tool_plan)" ?: ?"[^"]')
_ENDS = frozenset(("message-end", "stream-end"))
_SHAPE = frozenset(("message", "text", "chat_history", "generation_id"))


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    kind = payload.get("type") or payload.get("event_type")
    if isinstance(kind, str):
        _event(reading, payload, kind)
    elif not _SHAPE.isdisjoint(payload) and "error" not in payload:
        _body(reading, payload)


def _event(reading: Reading, payload: Payload, kind: str) -> None:
    reading.understood = True
    delta = part(payload.get("delta"))
    message = part(delta.get("message"))
    content = part(message.get("content"))
    for text in (content.get("text"), message.get("tool_plan"), payload.get("text")):
        reading.note_content(text)
    reading.note_reasoning(content.get("thinking"))
    if kind == "tool-call-start":
        reading.add_tool_call(name(payload.get("index")) or len(reading.calls))
    elif kind == "tool-calls-generation":  # v1 states all calls at once
        _calls(reading, payload)
    elif kind in _ENDS:
        reading.ended = True
        reading.take_finish_reason(delta.get("finish_reason") or payload.get("finish_reason"))
        _usage(reading, delta.get("usage"))
        response = part(payload.get("response"))
        _usage(reading, response.get("meta"))


def _body(reading: Reading, payload: Payload) -> None:
    message = part(payload.get("message"))
    reading.understood = bool(message) or "text" in payload
    reading.take_finish_reason(payload.get("finish_reason"))
    reading.note_content(payload.get("text"))
    for piece in parts(message.get("content")):
        reading.note_content(piece.get("text"))
        reading.note_reasoning(piece.get("thinking"))
    _calls(reading, payload)
    _calls(reading, message)
    _usage(reading, payload.get("usage") or payload.get("meta"))


def _calls(reading: Reading, holder: Payload) -> None:
    for place, _ in enumerate(parts(holder.get("tool_calls"))):
        reading.add_tool_call(place)


def _usage(reading: Reading, counts: object) -> None:
    if not isinstance(counts, dict):
        return
    usage.take(reading, usage.COHERE, counts)
    if "tokens" not in counts:
        usage.take(reading, usage.COHERE_BILLED, counts)


def _list(reading: Reading, payload: Payload, event: str | None) -> None:
    rows = payload.get("embeddings") or payload.get("results")
    if rows:
        reading.understood = reading.output = reading.content = True
    _usage(reading, payload.get("meta"))


def _text(payload: Payload, event: str | None) -> str:
    message = part((part(payload.get("delta")) or payload).get("message"))
    content = message.get("content")
    if isinstance(content, dict):
        content = content.get("text")
    return joined(content or payload.get("text"))


CHAT: Dialect = Dialect(
    name="cohere.chat",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    relevant_reasoning=_AFTER_REASONING,
    shape_keys=frozenset(("generation_id", "chat_history", "event_type")),
    text=_text,
)
LISTS: Dialect = Dialect(name="cohere.lists", read=_list, totals=usage.inclusive)
