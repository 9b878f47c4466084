"""Gemini's generateContent and its streams (SSE or one JSON array), and its embeddings.

Gemini has no terminal event: a finish reason ends a response.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import FAILURE, Dialect, Payload, ResponseFacts, joined, name, part, parts

_RELEVANT = re.compile(
    rb'"(?=[bdeEfmMp])(?:(?:finishReason|functionCall|error|promptFeedback)"|' + FAILURE + rb")"
)
_OUTPUTS = ("text", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall")
_UNSPECIFIED = (0, "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")


def _read(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    inner = payload.get("response")  # Code Assist wraps each answer (gemini-cli)
    payload = inner if isinstance(inner, dict) else payload
    if "candidates" in payload or "usageMetadata" in payload or "promptFeedback" in payload:
        reading.understood = True
        reading.has_part |= "candidates" in payload or "promptFeedback" in payload
    reading.take_model(payload.get("modelVersion"))
    reading.take_id(payload.get("responseId"))
    usage.take(reading, usage.GEMINI, payload.get("usageMetadata"))
    for candidate in parts(payload.get("candidates")):
        _candidate(reading, candidate)
    # A blocked prompt has no candidate and no finish reason; it is a response all the same.
    blocked = part(payload.get("promptFeedback")).get("blockReason")
    if blocked and blocked not in _UNSPECIFIED and name(blocked):
        reading.take_finish_reason(blocked)


def _candidate(reading: ResponseFacts, candidate: Payload) -> None:
    reason = candidate.get("finishReason")
    if reason not in _UNSPECIFIED:
        reading.take_finish_reason(reason)
    reading.note_items(candidate.get("logprobsResult"))
    for piece in parts(part(candidate.get("content")).get("parts")):
        if "functionCall" in piece:
            reading.add_tool_call(len(reading.calls))
        elif any(piece.get(key) for key in _OUTPUTS):
            reading.output = True
            reading.content |= piece.get("thought") is not True


def _embed(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    vectors = payload.get("embeddings") or payload.get("embedding") or payload.get("predictions")
    if vectors:
        reading.understood = reading.output = reading.content = True
    usage.take(reading, usage.GEMINI, payload.get("usageMetadata"))


def _text(payload: Payload, event: str | None) -> str:
    candidates = parts((part(payload.get("response")) or payload).get("candidates"))
    return joined(part(candidates[0].get("content")).get("parts")) if candidates else ""


GENERATE: Dialect = Dialect(
    name="gemini.generateContent",
    read=_read,
    totals=usage.thoughts_beside,
    relevant=_RELEVANT,
    cumulative=True,
    shape_keys=frozenset(("candidates", "usageMetadata", "promptFeedback")),
    text=_text,
)
EMBED: Dialect = Dialect(name="gemini.embed", read=_embed, totals=usage.thoughts_beside)
