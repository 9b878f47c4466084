"""verifiers: `traces.jsonl` of 0.4, and the `results.jsonl` of earlier versions and trainers.

Facts of verifiers 0.4.0 (`v1/trace.py`, `v1/utils/trace_store.py`) and of benchflow's writer of
the earlier shape (`trajectories/results.py`).

Path: `traces.jsonl` (0.4), `results.jsonl` (earlier).

Read: every call in traces; error, tokens and completion in rows.

Unknown: single calls in rows.

Copy: `rewards` null, `errors`, `ok` false; `reward` null and `error` in rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus, TerminationReason
from truezero.audit.answers import content, tokens_of
from truezero.audit.audit_format import AuditFormat, Verdicts, marked, unstamped
from truezero.audit.files import (
    any_has,
    below,
    folder_below,
    found,
    has,
    load_lines,
    peek,
    save_lines,
)
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted, why_masked
from truezero.audit.values import (
    Json,
    count,
    instant,
    items,
    mapping,
    number,
    objects,
    score,
    text,
    total,
)
from truezero.integrations.trainers import ERROR
from truezero.integrations.verifiers import ended_by, task_of

_PATTERNS: Final = ("traces.jsonl", "results.jsonl")


def _is_episode(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("traces"), list)


_is_row: Final = has("example_id", "completion", "reward")


def _is_ours(record: Any) -> bool:
    return _is_episode(record) or _is_row(record)


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield the runs; those of one task, model and folder are samples of it."""
    repeats: Counter[tuple[str, str | None, str]] = Counter()
    for file in found(path, *_PATTERNS):
        folder = folder_below(path, file)
        for place, line in enumerate(load_lines(file)):
            for run, record in _records(path, file, place, line):
                task = _task(record) if _is_trace(record) else str(record["example_id"])
                read = (_trace if _is_trace(record) else _row)(run, task, unstamped(record))
                of = (folder, read.model, task)
                at = RunPlace(file=file, line=place + 1)
                yield replace(read, evaluation=folder, repeat=repeats[of], place=at)
                repeats[of] += 1


def _is_trace(record: Json) -> bool:
    return "example_id" not in record


def _records(path: Path, file: Path, place: int, line: Json) -> Iterator[tuple[str, Json]]:
    """Yield the runs of a line, each with the id under which it is judged."""
    name = below(path, file)
    if _is_episode(line):
        for trace in map(mapping, line["traces"]):
            yield f"{name}:{trace.get('id')}", trace
    elif _is_row(line):
        yield f"{name}:{place + 1}", line


# --- a trace of 0.4 ----------------------------------------------------------------------------


def _task(trace: Json) -> str:
    task = mapping(trace.get("task"))
    named = task_of({"task": {**task, "data": mapping(task.get("data"))}})
    return named or text(trace.get("id")) or "(unnamed)"


def _trace(run: str, task: str, trace: Json) -> FinishedRun:
    errors = [mapping(each) for each in items(trace.get("errors"))]
    failed = errors[-1] if errors and not trace.get("ok") else None
    status = ExecutionStatus.AGENT_ERROR if failed else ExecutionStatus.SUCCESS
    if trace.get("is_timeout"):
        status = ExecutionStatus.TASK_TIMEOUT
    calls = _calls(trace)
    return FinishedRun(
        id=run,
        task=task,
        model=text(mapping(mapping(trace.get("agent")).get("config")).get("model")),
        reward=_reward(trace),
        status=status,
        termination_reason=TerminationReason(ended_by(trace))
        if status is ExecutionStatus.SUCCESS
        else None,
        error=None if failed is None else _error(failed),
        calls=calls,
        unknown=() if calls is not None else ("calls",),
    )


def _error(error: Json) -> RecordedError:
    return RecordedError(
        text=text(error.get("message")) or "",
        type=text(error.get("type")),
        status=count(error.get("status_code")),
    )


def _reward(trace: Json) -> float | None:
    values = [
        given * (number(each.get("weight", 1.0)) or 0.0)
        for each in map(mapping, mapping(trace.get("rewards")).values())
        if (given := score(each.get("score"))) is not None
    ]
    return sum(values) if values else None


def _calls(trace: Record) -> tuple[RecordedCall, ...] | None:
    if "calls" not in trace and "nodes" not in trace:
        return None
    nodes = [mapping(each) for each in items(trace.get("nodes"))]
    return tuple(_call(mapping(each), nodes) for each in items(trace.get("calls")))


def _call(call: Json, nodes: list[Json]) -> RecordedCall:
    model = text(call.get("model"))
    at, end = (instant(mapping(call.get("time")).get(key)) or None for key in ("start", "end"))
    error = mapping(call.get("error"))
    if error:
        return RecordedCall(error=_error(error), model=model, started_at=at, ended_at=end)
    usage = mapping(call.get("usage"))
    new, cached = count(usage.get("prompt_tokens")), count(usage.get("cached_input_tokens"))
    place = count(call.get("node"))
    message = (
        mapping(nodes[place].get("message")) if place is not None and place < len(nodes) else {}
    )
    called = len(items(message.get("tool_calls"))) if message else None
    return RecordedCall(
        model=model,
        content=bool(called or any(content(message.get("content")))) if message else None,
        input_tokens=None if new is None else new + (cached or 0),
        output_tokens=count(usage.get("completion_tokens")),
        tool_calls=called,
        finish_reason=text(call.get("finish_reason")),
        started_at=at,
        ended_at=end,
    )


# --- a row of the earlier shape ----------------------------------------------------------------


def _row(run: str, task: str, row: Json) -> FinishedRun:
    error = _row_error(row.get("error"))
    spoke, called = _completion(row.get("completion"))
    used = mapping(row.get("token_usage"))
    tokens = total((count(used.get("input_tokens")), count(used.get("output_tokens"))))
    return FinishedRun(
        id=run,
        task=task,
        model=text(row.get("model")),
        reward=score(row.get("reward")),
        status=ExecutionStatus.AGENT_ERROR if error else ExecutionStatus.SUCCESS,
        error=error,
        tokens=tokens if tokens is not None else tokens_of(row.get("usage")),
        tool_calls=called,
        output=spoke,
        unknown=("calls",),
    )


def _row_error(error: object) -> RecordedError | None:
    if isinstance(error, str) and error:
        return RecordedError(text=error)
    held = mapping(error)
    words = text(held.get("error_chain_str")) or text(held.get("message")) or ""
    kind = text(held.get("error")) or text(held.get("type"))
    return RecordedError(text=words, type=kind) if held else None


def _completion(completion: object) -> tuple[bool | None, int | None]:
    """Return True if the model said anything, and its tool calls; None if none are kept."""
    if isinstance(completion, str):
        return bool(completion.strip()), None
    if not isinstance(completion, list):
        return None, None
    own = [each for each in map(mapping, completion) if each.get("role") == "assistant"]
    called = sum(len(items(each.get("tool_calls"))) for each in own)
    return bool(called or any(any(content(each.get("content"))) for each in own)), called


# --- writing -----------------------------------------------------------------------------------


def _write(path: Path, verdicts: Verdicts) -> None:
    for file in list(found(path, *_PATTERNS)):
        if _is_ours(peek(file)):
            lines = enumerate(load_lines(file))
            save_lines(file, (_line(path, file, place, line, verdicts) for place, line in lines))


def _line(path: Path, file: Path, place: int, line: Json, verdicts: Verdicts) -> Json:
    records = list(_records(path, file, place, line))
    now = [marked(record, verdicts, run, _fields) for run, record in records]
    if all(each is record for each, (_, record) in zip(now, records, strict=True)):
        return line
    return {**line, "traces": now, "ok": False} if _is_episode(line) else now[0]


def _fields(judged: Audited, before: Json) -> Json:
    return _trace_fields(judged, before) if _is_trace(before) else _row_fields(judged)


def _trace_fields(judged: Audited, trace: Json) -> Json:
    verdict = judged.verdict
    error = {"type": "ProviderError", "message": judged.why}
    if verdict.dominant_status is not None:
        error["status_code"] = verdict.dominant_status  # type: ignore[assignment]  # JSON
    return {
        "rewards": dict.fromkeys(mapping(trace.get("rewards"))),
        "errors": [*items(trace.get("errors")), error],
        "ok": False,
    }


def _row_fields(judged: Audited) -> Json:
    why = judged.why
    kind = judged.verdict.error_category
    return {
        "reward": None,
        "error": {"error": kind, "error_chain_str": why, "error_chain_repr": why},
    }


VERIFIERS = AuditFormat(
    name="verifiers",
    title="verifiers",
    marks="`traces.jsonl` with `traces`, or `results.jsonl` with `example_id` and `completion`",
    recognises=lambda path: any_has(path, _is_ours, *_PATTERNS),
    read=_read,
    write=_write,
)


# --- the mask of a trace -----------------------------------------------------------------------


def _rollout(trace: Record) -> str | None:
    return text(trace.get("id"))


def _mask(trace: Record, notes: Notes) -> Json:
    """Make it a trace with an error, whose rewards were not scored and whose tokens do not train.

    `None` among ``rewards`` means that scoring did not run (verifiers/v1/trace.py).
    """
    note = notes.get(_rollout(trace))
    changed: Json = {"info": noted(trace.get("info"), note)}
    if why := why_masked(note):
        error = {"type": ERROR, "message": why, "status_code": None, "traceback": None}
        changed |= {
            "ok": False,
            "rewards": dict.fromkeys(mapping(trace.get("rewards"))),
            "errors": [*objects(trace.get("errors")), error],
            "agent": {**mapping(trace.get("agent")), "trainable": False},
            "nodes": [
                {**node, "mask": [False] * len(node["mask"])} if node.get("mask") else node
                for node in objects(trace.get("nodes"))
            ],
        }
    return {**trace, **changed}


VERIFIERS_TRACES = TraceFormat(
    title=VERIFIERS.title,
    recognises=has("id", "calls", "nodes", "rewards"),
    rollouts=lambda trace: {_rollout(trace): list(_calls(trace) or ())},
    mask=_mask,
)
