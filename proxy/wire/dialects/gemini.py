"""Gemini's generateContent and its streams (SSE or one JSON array), embeddings, and Interactions.

generateContent has no terminal event: a finish reason ends a response.
"""

from __future__ import annotations

import re

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
    take_tier,
)

_RELEVANT = re.compile(
    rb'"(?=[bdeEfgmMp])(?:(?:finishReason|functionCall|groundingMetadata|error|promptFeedback)"|'
    + FAILURE
    + rb")"
)
_OUTPUTS = ("text", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall")
# python-genai: types.py GroundingMetadata, of a search of the web, of maps or of other data.
_GROUNDED = ("webSearchQueries", "imageSearchQueries", "retrievalQueries", "groundingChunks")
_UNSPECIFIED = (0, "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")


def _read(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    inner = payload.get("response")  # Code Assist wraps each answer (gemini-cli)
    payload = inner if isinstance(inner, dict) else payload
    if "candidates" in payload or "usageMetadata" in payload or "promptFeedback" in payload:
        reading.understood = True
        reading.has_part |= "candidates" in payload or "promptFeedback" in payload
    reading.take_model(payload.get("modelVersion"))
    reading.take_id(payload.get("responseId"))
    counts = part(payload.get("usageMetadata"))
    usage.take(reading, usage.GEMINI, counts)
    take_tier(reading, counts.get("trafficType"), counts.get("serviceTier"))
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
    reading.note_paid_tools(any(map(part(candidate.get("groundingMetadata")).get, _GROUNDED)))
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


# --- Interactions, whole or as named events ----------------------------------------------------
# ai.google.dev/api/interactions-api; python-genai: _gaos/types/interactions. Until 2026-06-08 the
# output was `outputs`, a list of contents, and the events were `interaction.start`,
# `content.delta` and `interaction.complete`; LiteLLM writes these without the inner object.


_STEPS = ("steps", "outputs")
_INTERACTION_KEYS = frozenset(_STEPS)
_INTERACTION_ENDS = frozenset(("interaction.completed", "interaction.complete",
                               "interaction.failed", "interaction.cancelled"))  # fmt: skip
# Until then `GET /interactions/{id}` is repeated: ai.google.dev/gemini-api/docs/
# background-execution.
_UNFINISHED = frozenset(("in_progress", "queued"))
_STATUSES = _UNFINISHED | {"requires_action", "completed", "failed", "cancelled", "incomplete",
                           "budget_exceeded", "idle", "requires_continuation"}  # fmt: skip
_PAID = frozenset(
    ("google_search_call", "google_maps_call")
)  # ai.google.dev/gemini-api/docs/pricing
_MEDIA = frozenset(("image", "audio", "video", "document"))
_INTERACTION_EVENTS = (
    rb'"(?=[bcdeEfimMstu])(?:(?:interaction\.(?:complete|completed|failed|cancelled|status_update)'
    rb'|(?:step|content)\.stop|function_call|usage|total_usage)"|'
)
_INTERACTION_RELEVANT = re.compile(_INTERACTION_EVENTS + FAILURE + rb")")
# The same, and the first content, while there was only reasoning.
_INTERACTION_AFTER_REASONING = re.compile(
    _INTERACTION_RELEVANT.pattern + rb'|"(?:text|image|audio|video|document|[a-z_]+_call)"'
)


def _read_interaction(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    stated = payload.get("event_type")
    kind = stated if isinstance(stated, str) else event or ""
    interaction = payload.get("interaction")
    if kind.startswith(("step.", "content.")):
        reading.understood = reading.has_part = True
        _item(reading, payload.get("step") or payload.get("content"), payload.get("index"))
        _item(reading, payload.get("delta"), payload.get("index"))
    elif isinstance(interaction, dict):
        _interaction(reading, interaction)
    elif _is_interaction(payload, kind):
        _interaction(reading, payload)
    for counts in (payload.get("usage"), part(payload.get("metadata")).get("total_usage")):
        usage.take(reading, usage.INTERACTIONS, counts)
    if kind in _INTERACTION_ENDS:
        reading.ended = reading.has_part = True
        if reading.finish_reason is None:
            _status(reading, kind.removeprefix("interaction."))


def _is_interaction(payload: Payload, kind: str) -> bool:
    if kind.startswith("interaction.") or payload.get("object") == "interaction":
        return True
    stated = isinstance(payload.get("status"), str) and "id" in payload
    return stated and payload.get("object") is None


def _interaction(reading: ResponseFacts, interaction: Payload) -> None:
    reading.understood = True
    reading.take_model(interaction.get("model") or interaction.get("agent"))
    usage.take(reading, usage.INTERACTIONS, interaction.get("usage"))
    take_tier(reading, interaction.get("service_tier"))
    for key in _STEPS:
        reading.has_part |= isinstance(interaction.get(key), list)
        for place, item in enumerate(parts(interaction.get(key))):
            _item(reading, item, place)
    stated = name(interaction.get("id")) or name(interaction.get("interaction_id"))
    reading.response_id = stated or reading.response_id
    _status(reading, interaction.get("status"))


def _status(reading: ResponseFacts, status: object) -> None:
    stated = name(status)
    if stated in _UNFINISHED:
        reading.pending = True
    elif stated is not None:
        reading.pending = False
        reading.take_finish_reason(stated)
    elif reading.pending is None:
        reading.pending = False


def _item(reading: ResponseFacts, item: object, place: object) -> None:
    """Read a step, one of its contents, or a delta of it; ``place`` is the step's."""
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(kind, str):
        return
    if kind == "function_call":  # which the agent is to make
        if item.get("name"):
            reading.add_tool_call(name(item.get("id")) or name(place) or kind)
    elif kind == "model_output":
        for content in parts(item.get("content")):
            _item(reading, content, place)
    elif kind.startswith("thought"):
        said = item.get("summary") or item.get("signature") or item.get("text")
        reading.note_reasoning(said or part(item.get("content")).get("text"))
    elif kind == "text":
        reading.note_content(item.get("text"))
    elif kind in _MEDIA:
        reading.note_content(item.get("data") or item.get("uri"))
    elif kind.endswith("_call"):  # a tool of the provider's own
        reading.output = reading.content = True
        reading.note_paid_tools(kind in _PAID)


def _blamed(payload: Payload) -> Payload:
    """Return why an interaction failed; nothing of one that did not, whatever befell its tools."""
    interaction = part(payload.get("interaction")) or payload
    status = interaction.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        return payload
    if status != "failed":
        return {}
    of_steps = [step.get("error") for step in parts(interaction.get("steps"))]
    at_top = (interaction.get("error"), interaction.get("last_error"))
    errors = [*parts(interaction.get("errors")), *at_top, *of_steps]
    beside = {key: interaction[key] for key in interaction.keys() - _INTERACTION_KEYS}
    error = next(filter(None, errors), {"type": "interaction.failed", **beside})
    # a step's is a google.rpc.Status, whose number is read beside its details
    return {"error": {"details": [], **error} if isinstance(error, dict) else error}


def _interaction_text(payload: Payload, event: str | None) -> str:
    # of a whole interaction, or of a step's start and deltas: what else a stream has repeats it
    kind = payload.get("event_type") or event
    if kind is None:
        return "".join([_said(item) for key in _STEPS for item in parts(payload.get(key))])
    return _said(part(payload.get("step") or payload.get("content") or payload.get("delta")))


def _said(item: Payload) -> str:
    if item.get("type") == "text":
        return joined(item.get("text"))
    return joined(item.get("content")) if item.get("type") == "model_output" else ""


INTERACTIONS: Dialect = Dialect(
    name="gemini.interactions",
    read=_read_interaction,
    totals=usage.thoughts_beside,
    relevant=_INTERACTION_RELEVANT,
    relevant_reasoning=_INTERACTION_AFTER_REASONING,
    done=b"[DONE]",
    shape_keys=_INTERACTION_KEYS,
    text=_interaction_text,
    blamed=_blamed,
)
