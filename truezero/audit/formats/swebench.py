"""SWE-bench: predictions, the harness's report, and the trajectories of agents beside them.

Facts of swebench 5.0.2 (`harness/reporting.py`) and mini-swe-agent 2.4.6 (`agents/default.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus, TerminationReason
from truezero.audit.answers import tokens_of
from truezero.audit.audit_format import (
    KEY,
    AuditFormat,
    Verdicts,
    block,
    marked,
    stamped,
    unhealthy,
    unstamped,
)
from truezero.audit.files import any_has, found, has, load, load_lines, peek, save, save_lines
from truezero.audit.runs import FinishedRun, RecordedError
from truezero.audit.values import Json, items, mapping, text
from truezero.integrations.swebench import failures

# Where a report lists an instance → its score; the first that lists it counts.
_SCORES: Final = {
    "resolved_ids": 1.0,
    "unresolved_ids": 0.0,
    "empty_patch_ids": 0.0,
    "error_ids": 0.0,
    "incomplete_ids": 0.0,
}
_ENDINGS: Final = {
    "LimitsExceeded": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "TimeExceeded": (ExecutionStatus.TASK_TIMEOUT, None),
    "RepeatedFormatError": (ExecutionStatus.AGENT_ERROR, None),
    "Submitted": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "submitted": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "exit_cost": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "exit_context": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "exit_format": (ExecutionStatus.AGENT_ERROR, None),
}
_UNSTATED: Final = (ExecutionStatus.SUCCESS, None)
_FAILED: Final = (ExecutionStatus.AGENT_ERROR, None)
_is_report: Final = has("resolved_ids", "submitted_ids")
_is_prediction: Final = has("instance_id", "model_patch")


def _predicts(record: Any) -> bool:
    if isinstance(record, list):
        return bool(record) and _is_prediction(record[0])
    if isinstance(record, dict) and not _is_prediction(record):
        return bool(record) and all(map(_is_prediction, record.values()))
    return _is_prediction(record)


def _recognises(path: Path) -> bool:
    return any_has(path, lambda each: _is_report(each) or _predicts(each), "*.json", "*.jsonl")


def _beside(path: Path) -> list[Path]:
    """Return the files that belong together: a folder's, or the file and its neighbours."""
    if path.is_dir():
        files = [each for each in found(path, "*.json", "*.jsonl") if ".traj" not in each.suffixes]
        return [each for each in files if _is_report(record := peek(each)) or _predicts(record)]
    if not _is_report(peek(path)):
        return [path]
    others = (each for each in sorted(path.parent.glob("*.json*")) if each != path)
    return [path, *(each for each in others if _predicts(peek(each)))]


def _predictions(file: Path) -> list[Json]:
    if file.suffix == ".jsonl":
        return list(load_lines(file))
    record = load(file)
    return list(map(mapping, record.values() if isinstance(record, dict) else record))


def _read(path: Path) -> Iterator[FinishedRun]:
    reports, predicted = [], {}
    for file in _beside(path):
        record = peek(file)
        if _is_report(record):
            reports.append(record)
        elif _predicts(record):
            predicted.update({str(each["instance_id"]): each for each in _predictions(file)})
    trajectories = _trajectories(path if path.is_dir() else path.parent)
    for report in reports or [None]:
        for instance in _instances(report, predicted):
            yield _run(instance, report, predicted.get(instance), trajectories.get(instance))


def _instances(report: Json | None, predicted: Json) -> list[str]:
    listed = [str(each) for name in _SCORES for each in items((report or {}).get(name))]
    return list(dict.fromkeys([*listed, *predicted]))


def _trajectories(folder: Path) -> dict[str, Path]:
    files = found(folder, "*.traj.json", "*.traj") if folder.is_dir() else iter(())
    return {file.name.split(".traj")[0]: file for file in files}


def _run(
    instance: str, report: Json | None, prediction: Json | None, trajectory: Path | None
) -> FinishedRun:
    patch = None if prediction is None else text(prediction.get("model_patch"))
    judged_in = ("completed_ids", "resolved_ids", "unresolved_ids", "error_ids")
    ran = any(instance in items((report or {}).get(name)) for name in judged_in)
    facts = mapping(load(trajectory)) if trajectory else {}
    info = mapping(facts.get("info"))
    status, reason = _ending(text(info.get("exit_status")))
    spoke, tokens = _said(facts)
    unknown = ("calls",) if facts else ("calls", "errors", "tokens")
    return FinishedRun(
        id=instance,
        task=instance,
        model=None if prediction is None else text(prediction.get("model_name_or_path")),
        reward=_reward(instance, report, patch, prediction),
        filled=report is None,
        status=status,
        termination_reason=reason,
        error=_error(info, facts) if status is ExecutionStatus.AGENT_ERROR else None,
        tokens=tokens,
        output=True if patch or ran or spoke else (False if facts else None),
        unknown=unknown,
    )


def _reward(
    instance: str, report: Json | None, patch: str | None, prediction: Json | None
) -> float | None:
    """Return the score: the report's, and without one the zero of an empty patch."""
    if report is not None:
        listed = (score for name, score in _SCORES.items() if instance in items(report.get(name)))
        return next(listed, None)
    return 0.0 if prediction is not None and patch is None else None


def _ending(status: str | None) -> tuple[ExecutionStatus, TerminationReason | None]:
    if status is None:
        return _UNSTATED
    return _ENDINGS.get(status, _FAILED)


def _error(info: Json, facts: Json) -> RecordedError:
    last = mapping(next(reversed(items(facts.get("messages"))), None))
    words = text(info.get("exception_str")) or text(mapping(last.get("extra")).get("exception_str"))
    if words is None and last.get("role") == "exit":
        words = text(last.get("content"))
    return RecordedError(text=words or "", type=text(info.get("exit_status")))


def _said(facts: Json) -> tuple[bool, int | None]:
    """Return True if the model said anything in a trajectory, and the tokens that it counts."""
    spoke, tokens = False, None
    stats = mapping(mapping(facts.get("info")).get("model_stats"))
    for message in map(mapping, items(facts.get("messages")) or items(facts.get("history"))):
        if message.get("role") != "assistant":
            continue
        spoke = spoke or bool(message.get("content") or message.get("tool_calls"))
        used = tokens_of(mapping(mapping(message.get("extra")).get("response")).get("usage"))
        tokens = used if tokens is None else tokens + (used or 0)
    received = stats.get("tokens_received")
    if tokens is None and isinstance(received, int) and isinstance(stats.get("tokens_sent"), int):
        tokens = received + int(stats["tokens_sent"])
    return spoke or bool(tokens), tokens


# --- writing -----------------------------------------------------------------------------------


def _write(path: Path, verdicts: Verdicts) -> None:
    for file in _beside(path):
        record = peek(file)
        if _is_report(record):
            _write_report(file, record, verdicts)
        elif _predicts(record):
            _write_predictions(file, verdicts)


def _write_report(file: Path, record: Json, verdicts: Verdicts) -> None:
    before = unstamped(record)
    false = {each: judged for each in _instances(before, {})
             if (judged := unhealthy(verdicts, each)) is not None}  # fmt: skip
    if not false:
        return
    reasons = {each: judged.why for each, judged in false.items()}
    known = {
        "infra_failure_ids": items(before.get("infra_failure_ids")),
        "ambiguous_failure_ids": items(before.get("ambiguous_failure_ids")),
        "failure_reasons": mapping(before.get("failure_reasons")),
    }
    first = next(iter(false.values()))
    changed = stamped(before, first, failures(known, reasons))
    changed[KEY] = {
        "reported": changed[KEY]["reported"],
        "added": changed[KEY]["added"],
        "verdicts": {each: block(judged) for each, judged in false.items()},
    }
    save(file, changed, indent=4)


def _write_predictions(file: Path, verdicts: Verdicts) -> None:
    """Mark predictions; the harness of SWE-bench ignores keys that it does not know."""

    def corrected(prediction: Json) -> Json:
        return marked(prediction, verdicts, str(prediction["instance_id"]))

    record = None if file.suffix == ".jsonl" else load(file)
    if record is None:
        save_lines(file, map(corrected, load_lines(file)))
    elif isinstance(record, dict):
        save(file, {name: corrected(mapping(each)) for name, each in record.items()})
    else:
        save(file, [corrected(mapping(each)) for each in record])


SWEBENCH = AuditFormat(
    name="swebench",
    title="SWE-bench",
    marks="predictions with `model_patch`, or a report with `resolved_ids` and `submitted_ids`",
    recognises=_recognises,
    read=_read,
    write=_write,
)
