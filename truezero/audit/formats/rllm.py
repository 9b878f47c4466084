"""rLLM's model gateway: one `TraceRecord` a call.

Facts of rllm-model-gateway 0.1.0.
"""

from __future__ import annotations

from truezero.audit.files import has
from truezero.audit.runs import RecordedCall, RecordedError
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted
from truezero.audit.values import Json, began, count, length, mapping, number, text


def _rollout(record: Record) -> str | None:
    return text(record.get("session_id"))


def _call(record: Record) -> RecordedCall:
    response = mapping(record.get("raw_response"))  # of a stream there is none
    counts, ended_at = mapping(record.get("token_counts")), number(record.get("timestamp"))
    failed = response.get("error") and not response.get("choices")
    return RecordedCall(
        error=RecordedError(body=response) if failed else None,
        response_id=text(response.get("id")),
        model=text(record.get("model")),
        input_tokens=count(counts.get("prompt")) or length(record.get("prompt_token_ids")),
        output_tokens=count(counts.get("completion")) or length(record.get("completion_token_ids")),
        started_at=began(ended_at, record.get("latency_ms")),
        ended_at=ended_at,
    )


def _mask(record: Record, notes: Notes) -> Json:
    """Note it in ``metadata``: a `TraceRecord` has no reward and no mask of its own."""
    return {**record, "metadata": noted(record.get("metadata"), notes.get(_rollout(record)))}


RLLM_TRACES = TraceFormat(
    title="rllm-model-gateway",
    recognises=has("trace_id", "session_id", "completion_token_ids"),
    rollouts=lambda record: {_rollout(record): [_call(record)]},
    mask=_mask,
)
