"""AgentDojo: a JSON file for each run of a task, with its conversation and two scores.

Facts of AgentDojo 0.1.35 (`logging.py`, `benchmark.py`); suites built on it keep the scores in
`evaluation`. Utility and security are scores of one run each: neither is earned without an answer.

Path: a run's `.json`, or a folder of them.

Read: `utility` and `security`, each the score of a run; `error`; answers.

Unknown: failed calls that were tried again; tokens.

Copy: `utility` and `security` null, `error` where it was empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus
from truezero.audit.audit_format import (
    AuditFormat,
    Verdicts,
    numbered,
    stamped,
    unhealthy,
    unstamped,
)
from truezero.audit.conversations import calls_in
from truezero.audit.files import any_has, below, found, has, load, peek, save
from truezero.audit.runs import FinishedRun, RecordedError, RunPlace
from truezero.audit.values import Json, mapping, number, text

_PATTERN: Final = "*.json"
_SCORES: Final = ("utility", "security")
_named: Final = has("suite_name", "pipeline_name", "messages")


def _marked(record: Any) -> bool:
    return _named(record) and any(name in _scores(record) for name in _SCORES)


def _scores(record: Json) -> Json:
    """Return what holds the scores: the record, or its evaluation."""
    return record if "utility" in record else mapping(record.get("evaluation"))


def _files(path: Path) -> Iterator[tuple[Path, Json]]:
    for file in found(path, _PATTERN):
        record = load(file) if _marked(peek(file)) else None
        if record is not None:
            yield file, record


def _id(path: Path, file: Path, score: str) -> str:
    return f"{below(path, file).removesuffix('.json')}/{score}"


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield a run for each score; runs of one task are samples of it."""
    yield from numbered(_each(path), "repeat")


def _each(path: Path) -> Iterator[tuple[object, FinishedRun]]:
    for file, record in _files(path):
        before = unstamped(record)
        for score in _SCORES:
            if score in _scores(before):
                yield (
                    before.get("evaluation_timestamp"),
                    _run(_id(path, file, score), file, score, before),
                )


def _run(run: str, file: Path, score: str, record: Json) -> FinishedRun:
    error = text(record.get("error"))
    return FinishedRun(
        id=run,
        task="/".join(_task(record)),
        evaluation=score,
        model=text(record.get("pipeline_name")),
        reward=number(_scores(record).get(score)),
        status=ExecutionStatus.AGENT_ERROR if error else ExecutionStatus.SUCCESS,
        error=RecordedError(text=error) if error else None,
        calls=calls_in(record.get("messages")),
        unknown=("tokens",),
        place=RunPlace(file=file),
    )


def _task(record: Json) -> list[str]:
    """Return a task's name in parts: its suite, what was asked, and what was injected."""
    names = ("suite_name", "user_task_id", "task_id", "attack_type", "injection_task_id",
             "condition", "seed")  # fmt: skip
    return [str(record[name]) for name in names if record.get(name) is not None]


def _write(path: Path, verdicts: Verdicts) -> None:
    for file, record in list(_files(path)):
        ids = {score: _id(path, file, score) for score in _SCORES}
        spoilt = {s: judged for s, run in ids.items() if (judged := unhealthy(verdicts, run))}
        if not spoilt:
            continue
        before, judged = unstamped(record), next(iter(spoilt.values()))
        taken: Json = dict.fromkeys(spoilt)
        if "utility" not in before:
            taken = {"evaluation": {**mapping(before.get("evaluation")), **taken}}
        save(file, stamped(before, judged, {**taken, "error": before.get("error") or judged.why}))


AGENTDOJO = AuditFormat(
    name="agentdojo",
    title="AgentDojo",
    marks="`*.json` with `suite_name`, `pipeline_name`, `messages` and `utility` or `security`",
    recognises=lambda path: any_has(path, _marked, _PATTERN),
    read=_read,
    write=_write,
)
