"""Agent Lightning: events of its store, and the `CompletedRollout` of its trainer.

Facts of agentlightning 1.0.2.
"""

from __future__ import annotations

from truezero.audit.files import has
from truezero.audit.runs import RecordedCall, RecordedError
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted, why_masked
from truezero.audit.values import Json, began, count, length, mapping, number, objects, text
from truezero.integrations.trainers import ERROR


def _rollout(record: Record) -> str | None:
    return text(record.get("rollout_id"))


def _is_request(event: Record) -> bool:
    return event.get("event_type") == "model_request"


def _call(event: Record) -> RecordedCall:
    data = mapping(event.get("data"))
    response, usage = mapping(data.get("response")), mapping(data.get("usage"))
    status, ended_at = count(data.get("http_status")), number(event.get("timestamp"))
    failed = data.get("status") == "error" or (status or 0) >= 400
    version = mapping(data.get("server")).get("version")
    return RecordedCall(
        error=RecordedError(status=status) if failed else None,
        response_id=text(response.get("id")),
        model=text(response.get("model")) or text(data.get("model")),
        input_tokens=count(usage.get("prompt_tokens")) or length(data.get("prompt_token_ids")),
        output_tokens=count(usage.get("completion_tokens"))
        or length(data.get("response_token_ids")),
        started_at=began(ended_at, data.get("latency_ms")),
        ended_at=ended_at,
        retries=count(data.get("retry_count")),
        weights=None if version is None else text(str(version)),
    )


def _mask_event(record: Record, notes: Notes) -> Json:
    """Make a request an error and a reward none.

    Its manager leaves out requests whose ``status`` is "error", and its adapter emits no training
    row of a rollout without any (verl/agl_rollout_manager.py, verl/rollout_adapter.py).
    """
    note = notes.get(_rollout(record))
    data = noted(record.get("data"), note)
    if why_masked(note):
        if _is_request(record):
            data["status"] = "error"
        elif record.get("event_type") == "reward":
            data |= {"value": None, "reason": ERROR}
    return {**record, "data": data}


def _mask_completed(record: Record, notes: Notes) -> Json:
    """Take the triplets and the reward of what was not measured.

    A rollout without triplets makes no training row. With them, its adapter would fill the missing
    reward with ``reward_fillna_value``.
    """
    note = notes.get(_rollout(record))
    changed: Json = {"metadata": noted(record.get("metadata"), note)}
    if why_masked(note):
        changed |= {"triplets": [], "final_reward": None}
    return {**record, **changed}


LIGHTNING_EVENTS = TraceFormat(
    title="Agent Lightning events",
    recognises=has("event_type", "rollout_id", "attempt_id", "data"),
    rollouts=lambda record: {_rollout(record): [_call(record)] if _is_request(record) else []},
    mask=_mask_event,
)
LIGHTNING_ROLLOUTS = TraceFormat(
    title="Agent Lightning rollouts",
    recognises=has("rollout_id", "triplets", "final_reward"),
    rollouts=lambda record: {
        _rollout(record): [_call(e) for e in objects(record.get("events")) if _is_request(e)]
    },
    mask=_mask_completed,
)
