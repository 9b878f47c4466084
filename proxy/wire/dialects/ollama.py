"""Ollama's own API: one JSON object, or one a line with the counts on the last.

It takes no durations: they are nanoseconds of the server's own clock.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, part, parts

_TELLING = re.compile(rb'"done": ?true|"(?:error|tool_calls|done)" ?: ?[^f]')


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    if "done" not in payload:
        return
    reading.understood = True
    reading.named(payload.get("model"))
    message = part(payload.get("message"))
    for text in (payload.get("response"), payload.get("thinking"), message.get("content"),
                 message.get("thinking")):  # fmt: skip
        reading.said(text)
    for _ in parts(message.get("tool_calls")):
        reading.call(len(reading.calls))
    if payload["done"] is True:
        reading.ended = True
        reading.finished(payload.get("done_reason"))
        usage.take(reading, usage.OLLAMA, payload)


def _embed(reading: Reading, payload: Payload, event: str | None) -> None:
    if payload.get("embeddings") or payload.get("embedding"):
        reading.understood = reading.output = True
    reading.named(payload.get("model"))
    usage.take(reading, usage.OLLAMA, payload)


CHAT = Dialect(name="ollama.chat", read=_read, totals=usage.inclusive, telling=_TELLING)
EMBED = Dialect(name="ollama.embed", read=_embed, totals=usage.inclusive)
