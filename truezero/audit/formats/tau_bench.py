"""tau-bench: a JSON list of the runs of its tasks, with the conversation of each.

Facts of tau-bench 0.1 (`run.py`, `types.py`): an exception is written as a reward of 0.0.

Path: JSON list of `run.py`.

Read: reward, the exception behind a 0.0, answers.

Unknown: what was answered before an exception; tokens.

Copy: `reward` null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus
from truezero.audit.audit_format import AuditFormat, Verdicts, marked, unstamped
from truezero.audit.conversations import calls_in
from truezero.audit.files import any_has, below, found, has, load, save
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedError, RunPlace
from truezero.audit.values import Json, count, mapping, number, objects, text

_PATTERN: Final = "*.json"
_is_run: Final = has("task_id", "reward", "info", "traj")
# `tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0612073827.json`
_NAMED: Final = re.compile(r"(?:tool-calling|act|react|few-shot)-(.+)-\d+(?:\.\d+)?_range_")
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*):", re.MULTILINE)


def _is_results(record: Any) -> bool:
    return isinstance(record, list) and bool(record) and _is_run(record[0])


def _files(path: Path) -> Iterator[tuple[Path, list[Json]]]:
    for file in found(path, _PATTERN):
        record = load(file)
        if _is_results(record):
            yield file, objects(record)


def _id(path: Path, file: Path, record: Json) -> str:
    return f"{below(path, file)}:{record['task_id']}#{record.get('trial', 0)}"


def _read(path: Path) -> Iterator[FinishedRun]:
    for file, records in _files(path):
        for record in records:
            run = _run(_id(path, file, record), file, unstamped(record))
            yield replace(run, evaluation=below(path, file))


def _run(run: str, file: Path, record: Json) -> FinishedRun:
    error = _error(mapping(record.get("info")))
    calls = calls_in(record.get("traj"))
    named = _NAMED.match(file.name)
    return FinishedRun(
        id=run,
        task=str(record["task_id"]),
        repeat=count(record.get("trial")) or 0,
        model=named[1] if named else None,
        reward=number(record.get("reward")),
        status=ExecutionStatus.SUCCESS if error is None else ExecutionStatus.AGENT_ERROR,
        error=error,
        calls=calls or None,  # it is dropped with an exception
        unknown=("tokens",) if calls else ("calls", "tokens"),
        place=RunPlace(file=file),
    )


def _error(info: Json) -> RecordedError | None:
    """Return the exception that ended a run, its class from the end of the traceback."""
    said, trace = text(info.get("error")), text(info.get("traceback"))
    if said is None and trace is None:
        return None
    raised = _RAISED.findall(trace or "")
    return RecordedError(text=said or "", type=raised[-1] if raised else None)


def _write(path: Path, verdicts: Verdicts) -> None:
    for file, records in list(_files(path)):
        save(file, [marked(each, verdicts, _id(path, file, each), _fields) for each in records])


def _fields(_judged: Audited, _before: Json) -> Json:
    return {"reward": None}


TAU_BENCH = AuditFormat(
    name="tau-bench",
    title="tau-bench",
    marks="a JSON list of objects with `task_id`, `reward`, `info` and `traj`",
    recognises=lambda path: any_has(path, _is_results, _PATTERN),
    read=_read,
    write=_write,
)
