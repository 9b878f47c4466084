"""SWE-bench: predictions, the harness's report, and the trajectories of agents beside them.

Facts of swebench 5.0.2 (`harness/reporting.py`), mini-swe-agent 2.4.6 (`agents/default.py`) and
SWE-agent 1.1 (`sweagent/agent/agents.py`).

Path: predictions, report, or a folder with both.

Read: patches and scores; exit status, exception and answers where trajectories of mini-SWE-agent
or SWE-agent lie beside them.

Unknown: without trajectories, why a patch is empty.

Copy: `infra_failure_ids` and `failure_reasons` in the report; a key in predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    unstamped,
)
from truezero.audit.files import (
    any_has,
    folder_below,
    found,
    has,
    load,
    load_lines,
    peek,
    save,
    save_lines,
)
from truezero.audit.runs import FinishedRun, RecordedError, RunPlace
from truezero.audit.values import Json, items, mapping, text
from truezero.integrations.swebench import failures

# Where a report lists an instance → its score; the first that lists it counts. The harness before
# 2.0 and the boards' `results.json` write `resolved`, and list the rest by how far each came.
_SCORES: Final = {
    "resolved_ids": 1.0,
    "resolved": 1.0,
    **dict.fromkeys(
        ("unresolved_ids", "unresolved", "empty_patch_ids", "error_ids", "incomplete_ids",
         "no_generation", "generated", "with_logs", "no_logs", "install_fail", "reset_failed",
         "no_apply", "applied", "test_errored", "test_timeout"),
        0.0,
    ),
}  # fmt: skip
# Lists of instances whose patch was there to be tested.
_RAN: Final = (
    "completed_ids", "resolved_ids", "unresolved_ids", "error_ids", "resolved", "unresolved",
    "generated", "applied",
)  # fmt: skip
_ENDINGS: Final = {
    "LimitsExceeded": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "TimeExceeded": (ExecutionStatus.TASK_TIMEOUT, None),
    "RepeatedFormatError": (ExecutionStatus.AGENT_ERROR, None),
    "Submitted": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "submitted": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "exit_command": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "exit_forfeit": (ExecutionStatus.SUCCESS, TerminationReason.AGENT_STOP),
    "exit_cost": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "exit_context": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "exit_total_execution_time": (ExecutionStatus.TASK_TIMEOUT, None),
    "exit_environment_error": (ExecutionStatus.ENVIRONMENT_ERROR, None),
    "early_exit": (ExecutionStatus.ENVIRONMENT_ERROR, None),
}
_API: Final = "exit_api"  # SWE-agent's model client gave up after its retries
_AUTOSUBMITTED: Final = re.compile(r"submitted \((\w+)\)")  # the patch of a run that failed so
_UNSTATED: Final = (ExecutionStatus.SUCCESS, None)
_FAILED: Final = (ExecutionStatus.AGENT_ERROR, None)
_is_prediction: Final = has("instance_id", "model_patch")


def _is_report(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    resolved = record.get("resolved_ids", record.get("resolved"))
    others = record.keys() & {"submitted_ids", "completed_ids", *_SCORES} - {
        "resolved_ids",
        "resolved",
    }
    return isinstance(resolved, list) and any(isinstance(record[each], list) for each in others)


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


@dataclass(slots=True, kw_only=True)
class _Submission:
    """The predictions of one model, with their report and trajectories.

    ``folder`` is that of its predictions, else of its report, below what is audited. ``report`` is
    None as long as nobody has evaluated it. ``trajectories`` are files by instance.
    """

    folder: str
    model: str | None = None
    predicted: dict[str, Json] = field(default_factory=dict)
    report: Json | None = None
    report_file: Path | None = None
    trajectories: dict[str, Path] = field(default_factory=dict)
    alone: bool = True

    @property
    def instances(self) -> list[str]:
        """Return the instances that anything is known of."""
        listed = _scores(self.report or {})
        return list(dict.fromkeys([*listed, *self.predicted, *self.trajectories]))

    def id(self, instance: str) -> str:
        """Return the id of a run."""
        if self.alone:
            return instance
        return f"{'/'.join(each for each in (self.folder, self.model) if each)}:{instance}"


def _submissions(path: Path) -> list[_Submission]:
    """Find the submissions in a folder, with the reports and trajectories that belong to each."""
    held: dict[tuple[str, str | None], _Submission] = {}
    reports: list[tuple[Path, Json]] = []
    for file in _beside(path):
        record = peek(file)
        if _is_report(record):
            reports.append((file, record))
            continue
        for each in _predictions(file) if _predicts(record) else ():
            of = folder_below(path, file), text(each.get("model_name_or_path"))
            one = held.setdefault(of, _Submission(folder=of[0], model=of[1]))
            one.predicted[str(each["instance_id"])] = each
    found_ = list(held.values())
    for file, record in reports:
        owner = _owner(found_, path, file, record)
        if owner is None or owner.report is not None:
            folder = f"{folder_below(path, file)}/{file.stem}".lstrip("/")
            owner = _Submission(folder=folder) if owner is None else replace(owner, folder=folder)
            found_.append(owner)
        owner.report, owner.report_file = record, file
    for instance, file in _trajectories(path if path.is_dir() else path.parent):
        owner = _owner(found_, path, file, {"submitted_ids": [instance]})
        if owner is not None:
            owner.trajectories[instance] = file
    for one in found_:
        one.alone = len(found_) == 1
    return found_


def _owner(held: list[_Submission], path: Path, file: Path, record: Json) -> _Submission | None:
    """Return the submission that a report or a trajectory is of; None if nothing tells.

    It is the one in the nearest folder above. Of several there, it is the one whose model the file
    is named after, as the harness does, else the one that predicted what is in it.
    """
    if len(held) == 1:
        return held[0]
    folder = f"{folder_below(path, file) if path.is_dir() else ''}/"
    above = [each for each in held if folder.startswith(f"{each.folder}/" if each.folder else "")]
    deepest = max((len(each.folder) for each in above), default=0)
    near = [each for each in above if len(each.folder) == deepest] or held
    named = [e for e in near if e.model and file.name.startswith(f"{e.model.replace('/', '__')}.")]
    if len(named or near) == 1:
        return (named or near)[0]
    listed = {str(each) for name in ("submitted_ids", *_SCORES) for each in items(record.get(name))}
    fitting = [each for each in named or near if each.predicted and listed >= each.predicted.keys()]
    if not fitting and len(listed) == 1:
        fitting = [each for each in near if listed <= each.predicted.keys()]
    return fitting[0] if len(fitting) == 1 else None


def _read(path: Path) -> Iterator[FinishedRun]:
    for submission in _submissions(path):
        report = submission.report or {}
        scores = _scores(report)
        ran = {str(each) for name in _RAN for each in items(report.get(name))}
        for instance in submission.instances:
            yield _run(instance, submission, scores, ran=instance in ran)


def _scores(report: Json) -> dict[str, float]:
    """Return the score of each instance that a report lists."""
    scores: dict[str, float] = {}
    for name, score in _SCORES.items():
        for each in items(report.get(name)):
            scores.setdefault(str(each), score)
    return scores


def _trajectories(folder: Path) -> Iterator[tuple[str, Path]]:
    files = found(folder, "*.traj.json", "*.traj") if folder.is_dir() else iter(())
    yield from ((file.name.split(".traj")[0], file) for file in files)


def _run(
    instance: str, submission: _Submission, scores: Mapping[str, float], *, ran: bool
) -> FinishedRun:
    report, trajectory = submission.report, submission.trajectories.get(instance)
    prediction = submission.predicted.get(instance)
    patch = None if prediction is None else text(prediction.get("model_patch"))
    facts = mapping(load(trajectory)) if trajectory else {}
    info = mapping(facts.get("info"))
    ended = text(info.get("exit_status"))
    status, reason = _ending(ended)
    spoke, tokens = _said(facts)
    result = patch or ran or text(info.get("submission"))
    unknown = ("calls",) if facts else ("calls", "errors", "tokens")
    return FinishedRun(
        id=submission.id(instance),
        task=instance,
        evaluation=submission.folder,
        model=submission.model,
        reward=scores.get(instance, _unlisted(report, patch, prediction)),
        filled=report is None,
        status=status,
        termination_reason=reason,
        error=_error(info, facts) if status is ExecutionStatus.AGENT_ERROR else None,
        tokens=tokens,
        output=True if result or spoke else (False if facts else None),
        cut_off=bool(facts) and ended is None and not result,
        unknown=unknown,
        place=_place(trajectory or submission.report_file, instance),
    )


def _place(file: Path | None, instance: str) -> RunPlace | None:
    return None if file is None else RunPlace(file=file, words=instance)


def _unlisted(report: Json | None, patch: str | None, prediction: Json | None) -> float | None:
    """Return the score of an instance that no report lists: without a patch it will be a zero.

    A report of before 2.0 that lists what was resolved says that the rest of what was submitted
    was not.
    """
    if prediction is None:
        return None
    if report is not None:
        return 0.0 if "resolved" in report else None
    return 0.0 if patch is None else None


def _ending(status: str | None) -> tuple[ExecutionStatus, TerminationReason | None]:
    if status is None:
        return _UNSTATED
    autosubmitted = _AUTOSUBMITTED.fullmatch(status)
    return _ENDINGS.get(autosubmitted[1] if autosubmitted else status, _FAILED)


def _error(info: Json, facts: Json) -> RecordedError:
    last = mapping(next(reversed(items(facts.get("messages"))), None))
    words = text(info.get("exception_str")) or text(mapping(last.get("extra")).get("exception_str"))
    if words is None and last.get("role") == "exit":
        words = text(last.get("content"))
    ended = text(info.get("exit_status")) or ""
    if _API in ended:
        step = mapping(next(reversed(items(facts.get("trajectory"))), None))
        return RecordedError(text=text(step.get("thought")) or "", type="UnknownApiError")
    return RecordedError(text=words or "", type=ended or None)


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
    submissions = _submissions(path)
    for each in submissions:
        if each.report_file is not None:
            _write_report(each, verdicts)
    ids = {
        (each.folder, each.model, instance): each.id(instance)
        for each in reversed(submissions)
        for instance in each.predicted
    }
    for file in _beside(path):
        if _predicts(peek(file)):
            _write_predictions(file, folder_below(path, file), ids, verdicts)


def _write_report(submission: _Submission, verdicts: Verdicts) -> None:
    assert submission.report_file is not None
    before = unstamped(submission.report or {})
    of = ((each, verdicts.get(submission.id(each))) for each in _scores(before))
    false = {each: judged for each, judged in of if judged and judged.no_measurement}
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
    save(submission.report_file, changed, indent=4)


def _write_predictions(
    file: Path, folder: str, ids: Mapping[tuple[str, str | None, str], str], verdicts: Verdicts
) -> None:
    """Mark predictions; the harness of SWE-bench ignores keys that it does not know."""

    def corrected(prediction: Json) -> Json:
        of = folder, text(prediction.get("model_name_or_path")), str(prediction["instance_id"])
        return marked(prediction, verdicts, ids.get(of, ""))

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
    marks="predictions with `model_patch`, or a report that lists `resolved_ids` or `resolved`",
    recognises=_recognises,
    read=_read,
    write=_write,
)
