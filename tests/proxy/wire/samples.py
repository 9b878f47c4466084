"""Healthy answers with the usage that they state, and builders for more.

They are those of ``tests/answers/healthy.jsonl``, and four of frames, which are no text:
``samples.jsonl`` has the headers and the payload of each frame of AWS' event stream.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import tables

JSON = "application/json"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
EVENTS = "application/vnd.amazon.eventstream"

Counts = tuple[int | None, ...]  # input, output, cached, cache write, reasoning, total
NOTHING: Counts = (None,) * 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer: ``counts`` as the provider states them, ``totals`` normalised.

    ``content``: whether it holds more than reasoning; None where it does as ``output`` says.
    """

    name: str
    fact: str
    source: str
    path: str
    body: bytes
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    counts: Counts = NOTHING
    totals: tuple[int | None, int | None] = (None, None)
    model: str | None = None
    finish: str | None = None
    calls: int = 0
    output: bool = True
    content: bool | None = None
    cost: float | None = None
    usage_from: str = "provider"
    unread: str | None = None


# -- builders ------------------------------------------------------------------------------


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sse(*events: object, done: bool = True, end: bytes = b"\n") -> bytes:
    """Events as OpenAI writes them: data only, and [DONE]."""
    lines = [b"data: " + (e if isinstance(e, bytes) else dump(e)) + end * 2 for e in events]
    return b"".join(lines) + (b"data: [DONE]" + end * 2 if done else b"")


def named(*events: Mapping[str, Any]) -> bytes:
    """Events as Anthropic, the Responses API and Interactions write them: named by their type."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (str(e.get("type") or e["event_type"]).encode(), dump(e))
        for e in events
    )


def lines(*documents: object) -> bytes:
    return b"".join(dump(one) + b"\n" for one in documents)


def frame(payload: object, **headers: str) -> bytes:
    """One AWS event stream message; header names as ``event_type`` for ``:event-type``."""
    raw = payload if isinstance(payload, bytes) else dump(payload)
    head = b""
    for key, value in headers.items():
        name = b":" + key.replace("_", "-").encode()
        head += bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    prelude = struct.pack(">II", 16 + len(head) + len(raw), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + raw
    return message + struct.pack(">I", zlib.crc32(message))


def event(kind: str, payload: object) -> bytes:
    return frame(payload, event_type=kind, content_type=JSON, message_type="event")


def chunk(native: object) -> bytes:
    """Make a chunk of InvokeModelWithResponseStream."""
    return event("chunk", {"bytes": base64.b64encode(dump(native)).decode()})


def chat(usage: object, *, finish: str | None = "stop", **message: object) -> bytes:
    told = {"role": "assistant", "content": "Yes."} | message
    return dump(
        {
            "id": "c1",
            "object": "chat.completion",
            "model": "m-1",
            "choices": [{"index": 0, "message": told, "finish_reason": finish}],
            "usage": usage,
        }
    )


def delta(finish: str | None = None, **told: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": told, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def last(usage: object, **more: object) -> dict[str, Any]:
    return {"id": "c1", "model": "m-1", "choices": [], "usage": usage} | more


def call(index: int, name: str | None, arguments: str, id_: str | None = "t") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": f"{id_}{index}"} if id_ else {})


def message(usage: object, *content: object, stop: str | None = "end_turn") -> bytes:
    return dump(
        {
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": list(content),
            "stop_reason": stop,
            "usage": usage,
        }
    )


def messages(
    start: object, *middle: Mapping[str, Any], end: object, stop: str = "end_turn"
) -> bytes:
    return named(
        {"type": "message_start", "message": {"type": "message", "model": "claude-x",
                                              "content": [], "stop_reason": None, "usage": start}},
        *middle,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": end},
        {"type": "message_stop"},
    )  # fmt: skip


def block(index: int, **content: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def text(index: int, said: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": said}}  # fmt: skip


def response(
    usage: object, *output: object, status: str = "completed", **more: object
) -> dict[str, Any]:
    return {"object": "response", "model": "m-2", "status": status, "error": None,
            "output": list(output), "usage": usage} | more  # fmt: skip


def says(said: str) -> dict[str, Any]:
    return {"type": "message", "id": "m", "content": [{"type": "output_text", "text": said}]}


def responses(
    *middle: Mapping[str, Any], final: Mapping[str, Any], kind: str = "completed"
) -> bytes:
    return named(
        {"type": "response.created", "response": response(None, status="in_progress")},
        *middle,
        {"type": f"response.{kind}", "response": final},
    )


def gemini(usage: object, *parts: object, finish: str | int | None = "STOP") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-y"}


CHAT = "/v1/chat/completions"
CHAT_USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
RESPONSE_USAGE = {"input_tokens": 30, "output_tokens": 8, "total_tokens": 38,
                  "input_tokens_details": {"cached_tokens": 16},
                  "output_tokens_details": {"reasoning_tokens": 4}}  # fmt: skip
MESSAGE_USAGE = {"input_tokens": 20, "cache_creation_input_tokens": 100,
                 "cache_read_input_tokens": 3000, "output_tokens": 40}  # fmt: skip
TEXT_DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes"}
GENERATE = "/v1beta/models/gemini-y:generateContent"
STREAM_GENERATE = "/v1beta/models/gemini-y:streamGenerateContent"
INVOKE = "/model/meta.llama-x/invoke"


# -- samples -------------------------------------------------------------------------------


def _healthy(row: dict[str, Any]) -> Sample:
    body, headers = row.pop("body"), row.pop("headers", {})
    del row["status"], row["cause"]
    return _sample(
        row | {"path": row.pop("url"), "type": headers.pop("content-type", JSON)},
        headers=headers,
        body=body.encode() if isinstance(body, str) else dump(body),
    )


def _framed(row: dict[str, Any]) -> Sample:
    frames = row.pop("body")["frames"]
    return _sample(row, body=b"".join(frame(payload, **headers) for headers, payload in frames))


def _sample(row: dict[str, Any], **more: Any) -> Sample:
    row |= {name: tuple(row[name]) for name in ("counts", "totals") if name in row}
    return Sample(**row, **more)


_HERE = Path(__file__)
SAMPLES = (
    *map(_healthy, tables.lines(_HERE.parents[2] / "answers" / "healthy.jsonl")),
    *map(_framed, tables.lines(_HERE.with_suffix(".jsonl"))),
)
