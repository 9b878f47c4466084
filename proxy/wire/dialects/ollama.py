"""Ollama's own API: one JSON object, or one a line with the counts on the last."""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, joined, part, parts

_KEYS = rb'"done": ?true|"(?:error|tool_calls|done)" ?: ?[^f]'
_RELEVANT = re.compile(_KEYS)
_AFTER_REASONING = re.compile(_KEYS + rb'|"(?:response|content)" ?: ?"[^"]')


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    if "done" not in payload:
        return
    reading.understood = True
    reading.take_model(payload.get("model"))
    message = part(payload.get("message"))
    for holder, text in ((payload, "response"), (message, "content")):
        reading.note_content(holder.get(text))
        reading.note_reasoning(holder.get("thinking"))
    for _ in parts(message.get("tool_calls")):
        reading.add_tool_call(len(reading.calls))
    if payload["done"] is True:
        reading.ended = True
        reading.take_finish_reason(payload.get("done_reason"))
        usage.take(reading, usage.OLLAMA, payload)


def _embed(reading: Reading, payload: Payload, event: str | None) -> None:
    if payload.get("embeddings") or payload.get("embedding"):
        reading.understood = reading.output = reading.content = True
    reading.take_model(payload.get("model"))
    usage.take(reading, usage.OLLAMA, payload)


def _text(payload: Payload, event: str | None) -> str:
    return joined(part(payload.get("message")).get("content") or payload.get("response"))


CHAT: Dialect = Dialect(
    name="ollama.chat",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    relevant_reasoning=_AFTER_REASONING,
    text=_text,
)
EMBED: Dialect = Dialect(name="ollama.embed", read=_embed, totals=usage.inclusive)
