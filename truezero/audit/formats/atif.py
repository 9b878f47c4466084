"""ATIF: one trajectory, with those of its subagents; Harbor's agents write it beside a trial.

Facts of atif 1.8.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from truezero.audit.files import has
from truezero.audit.runs import RecordedCall
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted
from truezero.audit.values import Json, count, instant, items, mapping, objects, text


def answers(trajectory: Record) -> tuple[bool, int]:
    """Return True if a trajectory holds an answer of the agent, and count its tool calls."""
    own = [each for each in objects(trajectory.get("steps")) if each.get("source") == "agent"]
    called = sum(len(items(each.get("tool_calls"))) for each in own)
    return bool(called or any(each.get("message") for each in own)), called


def _rollout(record: Record) -> str | None:
    """Return a trajectory's id; before 1.7 it had only that of its session."""
    return text(record.get("trajectory_id")) or text(record.get("session_id"))


def _calls(trajectory: Record) -> Iterator[RecordedCall]:
    """Yield the calls of a trajectory and its subagents, all of one rollout.

    Agents of Harbor (pi, muse_code, computer_1) keep the answer's id in ``extra.response_id``.
    """
    for step in objects(trajectory.get("steps")):
        calls = step.get("llm_call_count")
        if step.get("source") != "agent" or calls == 0 or step.get("is_copied_context"):
            continue
        metrics = mapping(step.get("metrics")) if calls in (None, 1) else {}  # else sums of several
        extra, of_metrics = mapping(step.get("extra")), mapping(metrics.get("extra"))
        yield RecordedCall(
            response_id=text(extra.get("response_id")) or text(of_metrics.get("response_id")),
            model=text(step.get("model_name"))
            or text(mapping(trajectory.get("agent")).get("model_name")),
            input_tokens=count(metrics.get("prompt_tokens")),
            output_tokens=count(metrics.get("completion_tokens")),
            ended_at=instant(step.get("timestamp")),
        )
    for subagent in objects(trajectory.get("subagent_trajectories")):
        yield from _calls(subagent)


def _mask(record: Record, notes: Notes) -> Json:
    """Note it in ``extra``, the only field that ATIF leaves to others."""
    return {**record, "extra": noted(record.get("extra"), notes.get(_rollout(record)))}


_marked = has("schema_version", "steps")

ATIF_TRACES = TraceFormat(
    title="ATIF",
    recognises=lambda record: _marked(record) and str(record["schema_version"]).startswith("ATIF"),
    rollouts=lambda record: {_rollout(record): list(_calls(record))},
    mask=_mask,
)
