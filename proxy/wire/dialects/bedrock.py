"""Bedrock: Converse, InvokeModel and their binary streams."""

from __future__ import annotations

import base64

from proxy.wire import libraries, usage
from proxy.wire.dialect import Dialect, Payload, ResponseFacts, joined, part, parts, take_tier

_CALLS = ("tool_use", "toolUse")
_TEXTS = ("text", "partial_json", "outputText", "generation", "completion")


# -- Converse (botocore service-2.json ConverseResponse, ConverseStreamOutput) -------------


def _converse(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    inner = payload.get(event) if event else None  # some gateways write JSON lines, named
    payload = inner if isinstance(inner, dict) else payload
    spoken = event in _STREAMED or isinstance(payload.get("output"), dict)
    reading.understood |= spoken or "stopReason" in payload
    reading.has_part |= spoken
    usage.take(reading, usage.CONVERSE, payload.get("usage"))
    take_tier(
        reading,
        part(payload.get("serviceTier")).get("type"),
        part(payload.get("performanceConfig")).get("latency"),
    )
    reading.take_finish_reason(payload.get("stopReason"))
    place = payload.get("contentBlockIndex")
    _piece(reading, part(payload.get("delta")), place)
    _piece(reading, part(payload.get("start")), place)
    message = part(part(payload.get("output")).get("message"))
    for where, piece in enumerate(parts(message.get("content"))):
        _piece(reading, piece, where)
    if event == "metadata":
        reading.ended = True


_STREAMED = frozenset(("messageStart", "contentBlockStart", "contentBlockDelta",
                       "contentBlockStop", "messageStop", "metadata"))  # fmt: skip


# botocore service-2.json: ContentBlock, of an answer
_ITEMS = ("image", "audio", "video", "document", "citationsContent", "toolResult", "searchResult")


def _piece(reading: ResponseFacts, piece: Payload, place: object) -> None:
    reading.note_content(piece.get("text"))
    reading.note_items(*map(piece.get, _ITEMS))
    if piece.get("reasoningContent"):
        reading.output = True
    call = piece.get("toolUse")
    if isinstance(call, dict) and "name" in call:
        reading.add_tool_call(place if isinstance(place, int) else len(reading.calls))


# -- InvokeModel: the family's own body, or events of it in base64 -------------------------


def _invoke(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    native = _native(payload.get("bytes")) if "bytes" in payload else payload
    _family(reading, native)
    for key in ("message", "messageStart", "contentBlockStart", "contentBlockDelta",
                "messageStop", "metadata", "amazon-bedrock-invocationMetrics"):  # fmt: skip
        inner = native.get(key)
        if isinstance(inner, dict):
            _family(reading, inner)
    if native.get("type") == "message_stop" or "amazon-bedrock-invocationMetrics" in native:
        reading.ended = True
    _metrics(reading, native)


def _metrics(reading: ResponseFacts, native: Payload) -> None:
    metrics = native.get("amazon-bedrock-invocationMetrics")
    usage.take(reading, usage.INVOCATION_METRICS, metrics)


def _native(encoded: object) -> Payload:
    """Return the JSON inside a chunk; empty where it cannot be read."""
    if not isinstance(encoded, str):
        return {}
    try:
        return part(libraries.loads(base64.b64decode(encoded, validate=True)))
    except ValueError:  # no base64, or no JSON
        return {}


def _family(reading: ResponseFacts, native: Payload) -> None:
    """Read Anthropic, Nova, Titan, Llama, Mistral, Cohere and OpenAI shapes at one level."""
    _family_counts(reading, native)
    reading.take_model(native.get("model"))
    reading.take_id(native.get("id"))
    for holder in (native, part(native.get("delta")), *parts(native.get("results")),
                   *parts(native.get("outputs")), *parts(native.get("choices")),
                   *parts(native.get("generations"))):  # fmt: skip
        _stop(reading, holder)
        _native_texts(reading, holder)
    reading.has_part |= isinstance(native.get("content"), list) or "output" in native
    blocks = native.get("content") or part(part(native.get("output")).get("message")).get("content")
    for place, block in enumerate([*parts(blocks), part(native.get("content_block"))]):
        _block(reading, block, native.get("index", place))
    _piece(reading, part(native.get("start")), native.get("contentBlockIndex"))


def _family_counts(reading: ResponseFacts, native: Payload) -> None:
    for table in (usage.ANTHROPIC, usage.CONVERSE, usage.OPENAI):
        usage.take(reading, table, native.get("usage"))
    usage.take(reading, usage.TITAN, native)
    usage.take(reading, usage.LLAMA, native)
    results = parts(native.get("results"))
    if results:  # Titan, whole: one result
        usage.take(reading, usage.TITAN_RESULT, results[0])


def _stop(reading: ResponseFacts, holder: Payload) -> None:
    for key in ("stop_reason", "stopReason", "completionReason", "finish_reason"):
        if key in holder:
            reading.understood = True
            reading.take_finish_reason(holder[key])


def _native_texts(reading: ResponseFacts, holder: Payload) -> None:
    for key in _TEXTS:
        if key in holder:
            reading.understood = reading.has_part = True
            reading.note_content(holder[key])
    if "thinking" in holder:
        reading.understood = True
        reading.note_reasoning(holder["thinking"])
    message = part(holder.get("message"))
    reading.has_part |= "content" in message
    reading.note_content(message.get("content"))
    for place, _ in enumerate(parts(message.get("tool_calls"))):
        reading.add_tool_call(place)


def _block(reading: ResponseFacts, block: Payload, place: object) -> None:
    if not block:
        return
    reading.understood = True
    if block.get("type") in _CALLS:
        reading.add_tool_call(place if isinstance(place, int) else len(reading.calls))
    else:
        _piece(reading, block, place)
        reading.note_reasoning(block.get("thinking"))


# -- texts ---------------------------------------------------------------------------------


def _converse_text(payload: Payload, event: str | None) -> str:
    payload = part(payload.get(event or "")) or payload
    message = part(part(payload.get("output")).get("message"))
    return joined(part(payload.get("delta")).get("text") or message.get("content"))


def _invoke_text(payload: Payload, event: str | None) -> str:
    native = _native(payload["bytes"]) if "bytes" in payload else payload
    if "output" in native or "contentBlockDelta" in native:  # Nova
        return _converse_text(part(native.get("contentBlockDelta")) or native, None)
    for holder in (part(native.get("delta")), part(native.get("content_block")), native,
                   *_firsts(native, "results", "outputs", "generations", "choices")):  # fmt: skip
        message = part(holder.get("message") or holder.get("delta"))
        for text in (*map(holder.get, _TEXTS), holder.get("content"), message.get("content")):
            if text:
                return joined(text)
    return ""


def _firsts(native: Payload, *keys: str) -> list[Payload]:
    return [part for key in keys for part in parts(native.get(key))[:1]]


CONVERSE: Dialect = Dialect(
    name="bedrock.converse", read=_converse, totals=usage.cache_beside, text=_converse_text
)
INVOKE: Dialect = Dialect(
    name="bedrock.invoke", read=_invoke, totals=usage.cache_beside, text=_invoke_text
)
