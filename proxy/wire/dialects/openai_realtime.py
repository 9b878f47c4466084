"""OpenAI's realtime API: one response among the events of a WebSocket.

Counts are taken from `response.done` only.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, joined, name, part, parts

# openai-python: types/realtime/realtime_server_event.py
_RELEVANT = re.compile(rb'"(?:response\.(?:done|output_item\.added|output_item\.done)|error)"')
_TEXT_DELTAS = ("response.output_text.delta", "response.text.delta")
_AUDIO = frozenset(("audio", "output_audio"))
# openai-python: types/realtime/realtime_response_usage.py and its two details, which are
# singular here: input_token_details. Cached tokens are among the input's.
_USAGE = usage.table(
    usage.row("input_tokens", "input_tokens"),
    usage.row("output_tokens", "output_tokens"),
    usage.row("total_tokens", "total_tokens"),
    usage.row("cached_input_tokens", "input_token_details.cached_tokens"),
    usage.row("reasoning_tokens", "output_token_details.reasoning_tokens"),
)


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    kind = payload.get("type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        return
    reading.understood = True
    if kind == "response.done":
        _done(reading, part(payload.get("response")))
    elif kind.startswith("response.output_item."):
        _item(reading, part(payload.get("item")))
    elif kind.endswith(".delta"):
        reading.note_content(payload.get("delta"))


def _done(reading: Reading, response: Payload) -> None:
    reading.ended = True
    usage.take(reading, _USAGE, response.get("usage"))
    for item in parts(response.get("output")):
        _item(reading, item)
    status = name(response.get("status"))
    why = name(part(response.get("status_details")).get("reason"))
    reading.take_finish_reason(f"{status}:{why}" if why else status)


def _item(reading: Reading, item: Payload) -> None:
    if item.get("type") == "function_call":
        # added, done and response.done report the same call
        reading.add_tool_call(name(item.get("call_id")) or name(item.get("id")) or "function_call")
    for piece in parts(item.get("content")):
        reading.note_content(piece.get("text") or piece.get("transcript"))
        if piece.get("type") in _AUDIO:
            reading.output = reading.content = True


def _text(payload: Payload, event: str | None) -> str:
    return joined(payload.get("delta")) if payload.get("type") in _TEXT_DELTAS else ""


REALTIME: Dialect = Dialect(
    name="openai.realtime",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    text=_text,
)
