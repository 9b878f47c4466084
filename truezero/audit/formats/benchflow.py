"""benchflow: one folder a rollout, with `result.json` and, where usage was tracked, its calls.

Facts of benchflow 0.7.11 (`rollout/_results.py`, `diagnostics.py`, `trajectories/types.py`).

Path: job or rollout folder with `result.json`.

Read: error, tokens, tool calls, `api_error_info`; every call where
`trajectory/llm_trajectory.jsonl` is kept.

Unknown: without the trajectory, failures midway and empty answers.

Copy: `error`, `error_category`, `api_error_info` or `suspected_api_error_info`; `rewards` null.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from classifier.records import ExecutionStatus
from truezero.audit.answers import call_of
from truezero.audit.audit_format import AuditFormat, folder_id, mark_files, numbered, unstamped
from truezero.audit.files import any_has, found, has, is_there, load, load_lines
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.values import Json, count, instant, mapping, score, text, total
from truezero.integrations.benchflow_rollouts import STATUSES, proven, proven_error, suspected

# A status that benchflow counted, with the subcategory that it, or our plugin, gave it.
_COINED: Final = {
    "auth": "invalid_api_key",
    "quota": "insufficient_quota",
    "model_not_found": "model_not_found",
    "rate_limit": "rate_limit_exceeded",
}
_PIPE: Final = "pipe_closed"  # the agent's pipe: whose fault, nobody says
_marked: Final = has("task_name", "rollout_name", "n_prompts")


def _results(path: Path) -> Iterator[tuple[str, Path, Json]]:
    """Yield each trial's result; one below another trial belongs to that trial's review."""
    trials: set[Path] = set()
    for file in sorted(found(path, "result.json"), key=lambda each: len(each.parts)):
        if trials.isdisjoint(file.parent.parents):
            trials.add(file.parent)
            record = load(file)
            if _marked(record):
                yield folder_id(path, file, record["rollout_name"]), file, record


def _read(path: Path) -> Iterator[FinishedRun]:
    runs = (
        (record.get("started_at"), _run(run, unstamped(record), file.parent))
        for run, file, record in _results(path)
        if record.get("purpose") != "reviewer"
    )
    yield from numbered(runs, "attempt")


def _run(run: str, record: Json, folder: Path) -> FinishedRun:
    error = text(record.get("error"))
    suspected = mapping(record.get("suspected_api_error_info"))
    calls = _calls(folder, record)
    tokens = _tokens(record)
    judged = bool(suspected or mapping(record.get("api_error_info")))
    return FinishedRun(
        id=run,
        task=str(record["task_name"]),
        evaluation=text(record.get("agent")) or "",
        model=text(record.get("model")),
        reward=_reward(record),
        status=ExecutionStatus.SUCCESS if judged else _status(record),
        error=RecordedError(text=error) if error and not judged else None,
        calls=calls,
        prompted=False if record.get("n_prompts") == 0 else None,
        tokens=count(suspected.get("total_tokens")) if suspected and tokens is None else tokens,
        tool_calls=count(record.get("n_tool_calls")),
        unknown=() if calls is not None else ("calls",),
        place=RunPlace(file=folder / "result.json"),
    )


def _reward(record: Json) -> float | None:
    rewards = mapping(record.get("rewards"))
    return score(rewards.get("reward"))


def _tokens(record: Json) -> int | None:
    """Return the tokens; a usage source that is unavailable counted nothing, not zero."""
    agent = mapping(record.get("agent_result"))
    if agent.get("usage_source") == "unavailable":
        return None
    stated = count(agent.get("total_tokens"))
    parts = (count(agent.get(name)) for name in ("n_input_tokens", "n_output_tokens"))
    return total(parts) if stated is None else stated


def _status(record: Json) -> ExecutionStatus:
    if text(record.get("error")):
        category = str(record.get("error_category"))
        if category == _PIPE:
            return ExecutionStatus.UNKNOWN_EXECUTION_ERROR
        return ExecutionStatus(STATUSES.get(category, "agent_error"))
    if text(record.get("verifier_error")):
        return ExecutionStatus.EVALUATION_FAILED
    return ExecutionStatus.SUCCESS


def _calls(folder: Path, record: Json) -> tuple[RecordedCall, ...] | None:
    trajectory = folder / "trajectory" / "llm_trajectory.jsonl"
    if is_there(trajectory):
        return tuple(_call(line) for line in load_lines(trajectory))
    info = mapping(record.get("api_error_info"))
    counts = mapping(info.get("status_counts"))
    code = _COINED.get(str(info.get("subcategory")))
    body = {"error": {"code": code}} if code else None
    failed = [
        RecordedCall(error=RecordedError(status=int(status), body=body))
        for status, times in counts.items()
        if str(status).isdecimal()
        for _ in range(min(count(times) or 0, 1000))
    ]
    return tuple(failed) or None


def _call(line: Json) -> RecordedCall:
    request, response = mapping(line.get("request")), mapping(line.get("response"))
    return call_of(
        count(response.get("status_code")),
        mapping(request.get("body")),
        mapping(response.get("body")),
        at=instant(request.get("timestamp")),
    )


def _fields(judged: Audited, _before: Json) -> Json:
    """Return benchflow's own diagnostics; its breaker reads ``[auth/permanent] HTTP 401``."""
    verdict = judged.verdict
    if judged.never_began:  # its own category says more
        return {"rewards": None}
    if verdict.subcategory is None:
        return {
            "rewards": None,
            "error": f"suspected provider api error: {verdict.rule}",
            "error_category": "suspected_api_error",
            "suspected_api_error_info": suspected(verdict),
        }
    return {
        "rewards": None,
        "error": proven_error(verdict, counted=judged.calls),
        "error_category": "api_error",
        "api_error_info": proven(verdict),
    }


BENCHFLOW = AuditFormat(
    name="benchflow",
    title="benchflow",
    marks="`result.json` files with `task_name`, `rollout_name` and `n_prompts`",
    recognises=lambda path: any_has(path, _marked, "result.json"),
    read=_read,
    write=lambda path, verdicts: mark_files(_results(path), verdicts, _fields),
)
