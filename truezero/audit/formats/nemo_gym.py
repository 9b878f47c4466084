"""NeMo Gym: a rollout's row with `ng_trajectory`.

Facts of its main branch, 2026-11-24 (``nemo_gym/rollout_observability.py``, schema 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping

from truezero.audit.runs import RecordedCall, RecordedError
from truezero.audit.trace_format import NOTE, Notes, Record, TraceFormat, noted, why_masked
from truezero.audit.values import Json, began, count, mapping, number, objects, text


def _rollout(record: Record) -> str | None:
    return text(mapping(record.get("ng_trajectory")).get("rollout_id"))


def _call(call: Record) -> RecordedCall:
    answered, counts = mapping(call.get("response_metadata")), mapping(call.get("token_stats"))
    status, ended_at = count(answered.get("status_code")), number(call.get("completed_at"))
    failed = bool(answered.get("error_category")) or (status or 0) >= 400
    return RecordedCall(
        error=RecordedError(status=status) if failed else None,
        response_id=text(answered.get("response_id")),
        model=text(answered.get("model")),
        input_tokens=count(counts.get("prompt_tokens")),
        output_tokens=count(counts.get("completion_tokens")),
        started_at=began(ended_at, call.get("duration_ms")),
        ended_at=ended_at,
    )


def _mask(record: Record, notes: Notes) -> Json:
    """Set ``mask_sample`` and ``_ng_failure_class``, as `trainers.nemo_failure` does."""
    note = notes.get(_rollout(record))
    changed = noted(record, note)
    if note is not None and why_masked(note):
        kind = note["kind"] or "not_measured"
        changed |= {"mask_sample": True, "_ng_failure_class": f"{NOTE}:{kind}"}
    return changed


NEMO_TRACES = TraceFormat(
    title="NeMo Gym",
    recognises=lambda record: isinstance(record.get("ng_trajectory"), Mapping),
    rollouts=lambda record: {
        _rollout(record): [
            _call(each) for each in objects(mapping(record.get("ng_trajectory")).get("model_calls"))
        ]
    },
    mask=_mask,
)
