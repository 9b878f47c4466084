"""OpenHands: `output.jsonl` of its evaluations, one line an instance.

Facts of `evaluation/utils/shared.py` (EvalOutput) and of OpenHands/benchmarks.

Path: `output.jsonl`.

Read: error, tokens, whether the agent acted.

Unknown: single calls.

Copy: `error` where it was empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from classifier.records import ExecutionStatus, TerminationReason
from classifier.score_keys import reward_in
from truezero.audit.audit_format import AuditFormat, Verdicts, marked, unstamped
from truezero.audit.files import any_has, below, folder_below, found, has, load_lines, save_lines
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted, why_masked
from truezero.audit.values import Json, count, items, mapping, objects, text, total

_PATTERN: Final = "*output*.jsonl"
_LIMITS: Final = ("maximum iteration", "max_iterations", "maximum budget")
_marked: Final = has("instance_id", "test_result")


def _id(path: Path, file: Path, record: Json, place: int) -> str:
    return f"{below(path, file)}:{place + 1}:{record['instance_id']}"


def _read(path: Path) -> Iterator[FinishedRun]:
    for file in found(path, _PATTERN):
        for place, record in enumerate(load_lines(file)):
            if _marked(record):
                run = _run(_id(path, file, record, place), unstamped(record))
                at = RunPlace(file=file, line=place + 1)
                yield replace(run, evaluation=folder_below(path, file), place=at)


def _run(run: str, record: Json) -> FinishedRun:
    error = text(record.get("error"))
    stopped = any(limit in (error or "") for limit in _LIMITS)
    metrics = mapping(record.get("metrics"))
    spoke, filled = _spoke(record), _unpatched(record)
    return FinishedRun(
        id=run,
        task=str(record["instance_id"]),
        attempt=max((count(record.get("attempt")) or 1) - 1, 0),
        model=_model(mapping(record.get("metadata"))),
        reward=0.0 if filled else _scored(record),
        filled=filled,
        status=ExecutionStatus.AGENT_ERROR if error and not stopped else ExecutionStatus.SUCCESS,
        termination_reason=TerminationReason.MAX_STEPS if stopped else None,
        error=RecordedError(text=error) if error and not stopped else None,
        tokens=_tokens(metrics),
        output=spoke,
        unknown=("calls",),
    )


def _model(metadata: Json) -> str | None:
    for name in ("llm_config", "llm"):
        model = text(mapping(metadata.get(name)).get("model"))
        if model:
            return model
    return None


def _scored(record: Json) -> float | None:
    """Return what the evaluation wrote."""
    tested = mapping(record.get("test_result"))
    reward = reward_in(None, mapping(record.get("report")) or mapping(tested.get("report")))
    return reward_in(None, tested) if reward is None else reward


def _unpatched(record: Json) -> bool:
    """Return True if an unscored run has an empty patch, which a later evaluation counts as 0."""
    tested = mapping(record.get("test_result"))
    return _scored(record) is None and "git_patch" in tested and not tested["git_patch"]


def _tokens(metrics: Json) -> int | None:
    """Return the tokens; zeros beside a cost, and no counts at all, are not counted ones."""
    used = mapping(metrics.get("accumulated_token_usage"))
    tokens = total(count(used.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if not tokens and metrics.get("accumulated_cost"):
        return None
    return tokens


def _spoke(record: Json) -> bool | None:
    """Return True if the agent acted; its first message and the system's are not its own."""
    history = record.get("history")
    if mapping(record.get("test_result")).get("git_patch"):
        return True
    if not isinstance(history, list):
        return None
    events = (mapping(each) for each in items(history) if isinstance(each, dict))
    return any(each.get("source") == "agent" and _acted(each) for each in events)


def _acted(event: Json) -> bool:
    if event.get("action") == "system" or event.get("kind") == "SystemPromptEvent":
        return False
    kind = event.get("action") or event.get("kind") or event.get("tool_call_metadata")
    return bool(kind) and "error" not in str(kind).lower()


# --- writing -----------------------------------------------------------------------------------


def _write(path: Path, verdicts: Verdicts) -> None:
    for file in list(found(path, _PATTERN)):
        lines = enumerate(load_lines(file))
        save_lines(
            file,
            (
                marked(record, verdicts, _id(path, file, record, place), _fields)
                if _marked(record)
                else record
                for place, record in lines
            ),
        )


def _fields(judged: Audited, before: Json) -> Json:
    return {"error": text(before.get("error")) or judged.why}


OPENHANDS = AuditFormat(
    name="openhands",
    title="OpenHands",
    marks="`output.jsonl` lines with `instance_id` and `test_result`",
    recognises=lambda path: any_has(path, _marked, _PATTERN),
    read=_read,
    write=_write,
)


# --- the calls of a line, and its mask ---------------------------------------------------------


def _rollout(record: Record) -> str | None:
    return text(record.get("instance_id"))


def _calls(record: Record) -> list[RecordedCall]:
    """Return the calls of ``metrics.token_usages``, and of events that those lack.

    Only answers with tokens have a usage; each event of one answer repeats its id.
    """
    calls = [
        RecordedCall(
            response_id=text(usage.get("response_id")),
            model=text(usage.get("model")),
            input_tokens=count(usage.get("prompt_tokens")),
            output_tokens=count(usage.get("completion_tokens")),
        )
        for usage in objects(mapping(record.get("metrics")).get("token_usages"))
    ]
    known = {call.response_id for call in calls}
    events = (text(each.get("llm_response_id")) for each in objects(record.get("history")))
    others = dict.fromkeys(each for each in events if each is not None and each not in known)
    return [*calls, *(RecordedCall(response_id=each) for each in others)]


def _mask(record: Record, notes: Notes) -> Json:
    """Set ``error``, by which its reports know an instance that was not evaluated."""
    note = notes.get(_rollout(record))
    changed: Json = {"test_result": noted(record.get("test_result"), note)}
    if why := why_masked(note):
        changed["error"] = record.get("error") or why
    return {**record, **changed}


OPENHANDS_TRACES = TraceFormat(
    title=OPENHANDS.title,
    recognises=has("instance_id", "history", "test_result"),
    rollouts=lambda record: {_rollout(record): _calls(record)},
    mask=_mask,
)
