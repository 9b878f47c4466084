"""OpenAI's embeddings, images and the like: one JSON body with a list and its counts."""

from __future__ import annotations

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    if isinstance(payload.get("data"), list):
        reading.understood = True
        reading.note_content(payload["data"])
    reading.take_model(payload.get("model"))
    usage.take(reading, usage.OPENAI, payload.get("usage"))
    usage.cost(reading, payload.get("usage"))


LISTS: Dialect = Dialect(name="openai.lists", read=_read, totals=usage.inclusive)
