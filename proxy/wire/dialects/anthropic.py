"""Anthropic's Messages API, whole or as a stream of named events.

Counts of a stream are not added up: ``message_delta`` is cumulative and may repeat
``message_start``; field by field the later value counts, unless it is 0.
"""

from __future__ import annotations

import re

from proxy.wire import dialect, usage
from proxy.wire.dialect import FAILURE, Dialect, Payload, ResponseFacts, joined, part, parts

# A ping is no content, though nothing is to be read in it. Nor is there in the end of a block, but
# skimmed it would leave the text of a short stream unknown (`proxy.capture.answer_content`).
_KEYS = (
    rb"message_start|message_delta|message_stop|content_block_stop|error|tool_use|ping"
    rb"|server_tool_use"
)
_RELEVANT = re.compile(rb'"(?=[bcdeEfmMpst])(?:(?:' + _KEYS + rb')"|' + FAILURE + rb")")
# Behind thinking: a text block and its deltas, and what the provider runs by itself.
_AFTER_REASONING = re.compile(
    rb'"(?=[bcdeEfmMpst])(?:(?:'
    + _KEYS
    + rb'|text|text_delta|completion|mcp_tool_use)"|'
    + FAILURE
    + rb")"
)
# All other blocks are output, but no call that the agent was asked to make: server_tool_use,
# mcp_tool_use, and the results of both.
_SPOKEN = (None, "text", "thinking", "redacted_thinking")
# Tools that cost no more than the tokens they read: platform.claude.com, about-claude/pricing.
_FREE = ("web_fetch", "tool_search_tool_regex", "tool_search_tool_bm25")
# Of a content block or its delta; "data" is redacted thinking.
_TEXTS = ("text", "partial_json")
_REASONING = ("thinking", "data")
_KINDS = frozenset(("message", "message_start", "content_block_start", "content_block_delta",
                    "content_block_stop", "message_delta", "message_stop", "ping",
                    "completion"))  # fmt: skip


def _read(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    kind = payload.get("type")
    if not isinstance(kind, str):
        kind = event
    if kind in _KINDS:
        reading.understood = True
    match kind:
        case "message":
            _message(reading, payload)
        case "message_start":
            _message(reading, part(payload.get("message")))
        case "content_block_start":
            _block(reading, part(payload.get("content_block")), payload.get("index"))
        case "content_block_delta":
            _texts(reading, part(payload.get("delta")))
        case "message_delta":
            reading.take_finish_reason(part(payload.get("delta")).get("stop_reason"))
            counts = part(payload.get("usage"))
            if counts.get("output_tokens") == 0 and not reading.output:
                reading.output_tokens = None  # `message_start` counts one before the first word
            _take_usage(reading, counts)
        case "message_stop":
            reading.ended = True
        case "completion":  # /v1/complete, the API before messages
            reading.has_part |= "completion" in payload
            _texts(reading, {"text": payload.get("completion")})
            reading.take_finish_reason(payload.get("stop_reason"))
            reading.take_model(payload.get("model"))
            reading.take_id(payload.get("id"))
        case _:
            pass


def _message(reading: ResponseFacts, message: Payload) -> None:
    reading.take_model(message.get("model"))
    reading.take_id(message.get("id"))
    reading.take_finish_reason(message.get("stop_reason"))
    counts = message.get("usage")
    _take_usage(reading, counts)
    # anthropic-sdk-python: types/usage.py, where inference ran; "not_available" without that
    if isinstance(counts, dict) and counts.get("inference_geo") != "not_available":
        dialect.take_provider(reading, counts.get("inference_geo"))
    reading.has_part |= isinstance(message.get("content"), list)
    for place, block in enumerate(parts(message.get("content"))):
        _block(reading, block, place)


def _take_usage(reading: ResponseFacts, counts: object) -> None:
    usage.take(reading, usage.ANTHROPIC, counts)
    if not isinstance(counts, dict):
        return
    if counts.get("iterations"):
        usage.iterations(reading, counts)
    dialect.take_tier(reading, counts.get("service_tier"), counts.get("speed"))
    if counts.get("server_tool_use"):
        usage.tools(reading, counts)


def _block(reading: ResponseFacts, block: Payload, place: object) -> None:
    if block.get("type") == "tool_use":
        reading.add_tool_call(place if isinstance(place, int) else len(reading.calls))
    elif block and block.get("type") not in _SPOKEN:
        reading.output = reading.content = True
        if block.get("type") == "server_tool_use":
            reading.note_paid_tools(block.get("name") not in _FREE)
    _texts(reading, block)


def _texts(reading: ResponseFacts, block: Payload) -> None:
    for key in _TEXTS:
        reading.note_content(block.get(key))
    for key in _REASONING:
        reading.note_reasoning(block.get(key))


def _text(payload: Payload, event: str | None) -> str:
    for key in ("delta", "content_block"):
        if key in payload:
            return joined(part(payload[key]).get("text"))
    return joined(payload.get("content") or payload.get("completion"))


MESSAGES: Dialect = Dialect(
    name="anthropic.messages",
    read=_read,
    totals=usage.cache_beside,
    relevant=_RELEVANT,
    relevant_reasoning=_AFTER_REASONING,
    shape_keys=frozenset(("stop_reason",)),
    text=_text,
)
