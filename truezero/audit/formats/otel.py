"""OpenTelemetry: GenAI client spans, as OTLP/JSON or as its SDK prints them.

Facts of opentelemetry-sdk 1.x and of opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans, 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from truezero.audit.runs import RecordedCall, RecordedError
from truezero.audit.trace_format import Notes, Record, TraceFormat
from truezero.audit.values import Json, count, instant, mapping, objects, text

_MEASURED: Final = "truezero.measured"
_REASON: Final = "truezero.reason"
_CALL_SPANS: Final = ("chat", "generate_content", "text_completion")


def _spans(record: Record) -> list[Json]:
    """Return the spans of an `ExportTraceServiceRequest`, or the one that a record is."""
    if "resourceSpans" not in record:
        return [dict(record)]
    return [
        span
        for resource in objects(record.get("resourceSpans"))
        for scope in objects(resource.get("scopeSpans"))
        for span in objects(scope.get("spans"))
    ]


def _trace(span: Record) -> str | None:
    stated = text(span.get("traceId")) or text(mapping(span.get("context")).get("trace_id"))
    return None if stated is None else stated.removeprefix("0x")


def _attributes(span: Record) -> Json:
    stated = span.get("attributes")
    if isinstance(stated, Mapping):
        return dict(stated)
    return {
        str(each.get("key")): _any_value(mapping(each.get("value"))) for each in objects(stated)
    }


def _any_value(value: Json) -> Any:
    """Return the value of an OTLP attribute; its JSON writes integers as texts."""
    if "intValue" in value:
        stated = str(value["intValue"])
        return int(stated) if stated.isdecimal() else None
    return next(iter(value.values()), None)


def _ended(span: Record) -> float | None:
    nanoseconds = str(span.get("endTimeUnixNano", ""))
    return int(nanoseconds) / 1e9 if nanoseconds.isdecimal() else instant(span.get("end_time"))


def _rollouts(record: Record) -> dict[str | None, list[RecordedCall]]:
    rollouts: dict[str | None, list[RecordedCall]] = {}
    for span in _spans(record):
        calls = rollouts.setdefault(_trace(span), [])
        stated = _attributes(span)
        if stated.get("gen_ai.operation.name") in _CALL_SPANS:
            calls.append(_call(stated, _ended(span)))
    return rollouts


def _call(stated: Json, ended_at: float | None) -> RecordedCall:
    return RecordedCall(
        error=RecordedError() if "error.type" in stated else None,
        response_id=text(stated.get("gen_ai.response.id")),
        model=text(stated.get("gen_ai.request.model")),
        input_tokens=count(stated.get("gen_ai.usage.input_tokens")),
        output_tokens=count(stated.get("gen_ai.usage.output_tokens")),
        ended_at=ended_at,
    )


def _mask(record: Record, notes: Notes) -> Json:
    """Add attributes to each span of a trace: ``truezero.measured`` and ``truezero.reason``."""
    if "resourceSpans" not in record:
        return _mask_span(record, notes)
    resources = objects(record.get("resourceSpans"))
    for resource in resources:
        resource["scopeSpans"] = scopes = objects(resource.get("scopeSpans"))
        for scope in scopes:
            scope["spans"] = [_mask_span(span, notes) for span in objects(scope.get("spans"))]
    return {**record, "resourceSpans": resources}


def _mask_span(span: Record, notes: Notes) -> Json:
    note = notes.get(_trace(span))
    if note is None:
        return dict(span)
    added: Json = {_REASON: note["reason"]}
    if note["measured"] is not None:  # unknown: the attribute is not there
        added[_MEASURED] = note["measured"]
    stated = span.get("attributes")
    if not isinstance(stated, list):
        return {**span, "attributes": {**mapping(stated), **added}}
    values = [
        {"key": key, "value": {"boolValue" if isinstance(value, bool) else "stringValue": value}}
        for key, value in added.items()
    ]
    return {**span, "attributes": [*stated, *values]}


def _recognises(record: Record) -> bool:
    return "resourceSpans" in record or (_trace(record) is not None and "attributes" in record)


OTEL_TRACES = TraceFormat(
    title="OpenTelemetry", recognises=_recognises, rollouts=_rollouts, mask=_mask
)
