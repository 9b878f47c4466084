"""MASEval: the JSON lines of its `FileResultLogger`, one a repetition of a task.

Facts of MASEval 0.5.1 (`core/callbacks/result_logger.py`, `core/model.py`, `core/benchmark.py`).

Path: JSON lines of `FileResultLogger`.

Read: status, error, usage; every call of its model adapters.

Unknown: calls of agent frameworks with a client of their own.

Copy: status `environment_error`, `error`, `eval` null, `traces["truezero"]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from classifier.records import ExecutionStatus
from classifier.score_keys import reward_in
from truezero.audit.answers import tokens_of
from truezero.audit.audit_format import KEY, AuditFormat, Verdicts, block, unhealthy
from truezero.audit.files import any_has, below, found, has, load_lines, save_lines
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.values import Json, count, instant, items, mapping, score, text, total
from truezero.integrations.maseval import without_score

_STATUSES: Final = {member.value: member for member in ExecutionStatus} | {
    "task_execution_failed": ExecutionStatus.UNKNOWN_EXECUTION_ERROR
}
_OTHERS: Final = re.compile(r"user|simulat|judge|evaluat|grader", re.IGNORECASE)
_SAVED = ("status", "eval", "error")  # what a verdict replaces in a report
_marked: Final = has("task_id", "repeat_idx", "status")


def _files(path: Path) -> Iterator[Path]:
    files = found(path, "*.jsonl")
    yield from (each for each in files if _marked(next(load_lines(each), None)))


def _id(name: str, record: Json) -> str:
    return f"{name}:{record['task_id']}#{record['repeat_idx']}"


def _read(path: Path) -> Iterator[FinishedRun]:
    for file in _files(path):
        name = below(path, file)
        for line, record in enumerate(load_lines(file), start=1):
            run = _run(_id(name, record), _reported(record))
            yield replace(run, evaluation=name, place=RunPlace(file=file, line=line))


def _reported(record: Json) -> Json:
    """Return a report as MASEval wrote it."""
    ours = mapping(mapping(record.get("traces")).get(KEY))
    return {**record, **mapping(ours.get("reported"))}


def _run(run: str, record: Json) -> FinishedRun:
    status = _STATUSES.get(str(record["status"]), ExecutionStatus.UNKNOWN_EXECUTION_ERROR)
    error = mapping(record.get("error"))
    calls = _calls(mapping(record.get("traces")))
    return FinishedRun(
        id=run,
        task=str(record["task_id"]),
        repeat=count(record.get("repeat_idx")) or 0,
        reward=_reward(record.get("eval")),
        status=status,
        error=_error(error) if error else None,
        calls=calls,
        prompted=False if status is ExecutionStatus.SETUP_FAILED else None,
        tokens=_tokens(record.get("usage")),
        unknown=() if calls is not None else ("calls",),
    )


def _error(error: Json) -> RecordedError:
    kind = text(error.get("error_type"))
    return RecordedError(
        text=text(error.get("error_message")) or text(error.get("error")) or "", type=kind
    )


def _reward(results: object) -> float | None:
    """Return the one score of an evaluation; MASEval keeps a dict for each evaluator."""
    for each in items(results) or [results]:
        found_ = reward_in(None, mapping(each))
        if found_ is not None:
            return found_
        numbers = [n for n in map(score, mapping(each).values()) if n is not None]
        if len(numbers) == 1:
            return numbers[0]
    return None


def _calls(traces: Json) -> tuple[RecordedCall, ...] | None:
    """Return the calls of all model adapters; None if a framework called by itself."""
    models = mapping(traces.get("models"))
    logged = {name: mapping(each) for name, each in models.items() if "logs" in mapping(each)}
    if not logged:
        return None
    calls = [
        _call(mapping(entry), name, text(each.get("model_id")))
        for name, each in logged.items()
        for entry in items(each["logs"])
    ]
    return tuple(sorted(calls, key=lambda call: call.started_at or 0.0))


def _call(entry: Json, name: str, model: str | None) -> RecordedCall:
    role = "user" if _OTHERS.search(name) else "agent"
    at = instant(entry.get("timestamp"))
    offered = bool(entry.get("tools_provided"))
    if entry.get("status") != "success":
        return RecordedCall(
            error=_error(entry), model=model, role=role, has_tools=offered, started_at=at
        )
    length, called = count(entry.get("response_length")), count(entry.get("tool_calls_count"))
    known = length is not None or called is not None
    return RecordedCall(
        model=model,
        role=role,
        content=bool(length or called) if known else None,
        tool_calls=called,
        has_tools=offered,
        started_at=at,
    )


def _tokens(usage: object) -> int | None:
    """Return the tokens of agents and their models; components that count none are silent."""
    groups = (mapping(mapping(usage).get(kind)) for kind in ("agents", "models"))
    return total(tokens_of(each) for group in groups for each in group.values())


def _write(path: Path, verdicts: Verdicts) -> None:
    for file in _files(path):
        name, records = below(path, file), load_lines(file)
        save_lines(file, (_corrected(each, _id(name, each), verdicts) for each in records))


def _corrected(record: Json, run: str, verdicts: Verdicts) -> Json:
    """Return a report as the callback leaves it."""
    judged = unhealthy(verdicts, run)
    if judged is None:
        return record
    record = _reported(record)
    reported = {name: record[name] for name in _SAVED if name in record}
    traces = {**mapping(record.get("traces")), KEY: {**block(judged), "reported": reported}}
    return {**record, **without_score(record, judged.why), "traces": traces}


MASEVAL = AuditFormat(
    name="maseval",
    title="MASEval",
    marks="`*.jsonl` lines with `task_id`, `repeat_idx` and `status`",
    recognises=lambda path: any_has(path, _marked, "*.jsonl"),
    read=_read,
    write=_write,
)
