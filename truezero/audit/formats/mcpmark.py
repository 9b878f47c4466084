"""MCPMark: a `meta.json` for each run of a task, and the files that its aggregator makes of them.

Facts of MCPMark of December 2025 (`src/evaluator.py`, `src/errors.py`, `src/results_reporter.py`,
`src/agents/mcpmark_agent.py`). The agent is the harness's own and hands what a tool failed with to
the model: what ends a run is a call to the model, its malformed arguments, a limit, or the harness.

Path: `meta.json` of runs, or the aggregator's `model_results`.

Read: success, `error_message`, tokens.

Unknown: single calls; whose an `Operation timed out` was.

Copy: `success` null, and an `error_message` that its pipeline runs again; summaries are not made
anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus, TerminationReason
from truezero.audit.answers import tokens_of
from truezero.audit.audit_format import AuditFormat, Verdicts, marked, numbered, unstamped
from truezero.audit.conversations import calls_in
from truezero.audit.files import any_has, below, folder_below, found, has, load, peek, save
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedError, RunPlace
from truezero.audit.values import Json, count, mapping, text

_PATTERN: Final = "*.json"
_is_meta: Final = has("task_name", "mcp", "execution_result")
_is_summed: Final = has("service", "model", "runs")
_NO_STATE: Final = "its task's state could not be set up"
_Ending = tuple[ExecutionStatus, TerminationReason | None]
# What the harness writes of an ending, by how the text begins.
_ENDINGS: Final[tuple[tuple[re.Pattern[str], _Ending], ...]] = (
    (re.compile(r"State Duplication Error"), (ExecutionStatus.SETUP_FAILED, None)),
    (
        re.compile(r"Max turns \(\d+\) exceeded"),
        (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    ),
    (re.compile(r"Execution timed out after "), (ExecutionStatus.TASK_TIMEOUT, None)),
    # In place of an exception's text, whose it was: the model's client, or the service's.
    (
        re.compile(r"\w+ (?:Connection refused|Authentication failed|MCP service error)\s*$"),
        (ExecutionStatus.ENVIRONMENT_ERROR, None),
    ),
    # Of the MCP client's own tasks, and of a program: no JSON of a model's has such a type.
    (
        re.compile(
            r"(?:Agent execution failed: )?(?:unhandled errors in a TaskGroup\b|"
            r"cannot access local variable '|name '\w+' is not defined|"
            r"argument of type '(?!str|int|float|bool|NoneType|list|dict)\w+' is not |"
            r"'(?!str'|int'|float'|bool'|NoneType'|list'|dict')\w+' object (?:has no|is not) )"
        ),
        (ExecutionStatus.ENVIRONMENT_ERROR, None),
    ),
)


def _runs(path: Path) -> Iterator[tuple[str, str, Path, Json, Json]]:
    """Yield each run: its id, its evaluation, its file, what the file holds, its own record."""
    for file in found(path, _PATTERN):
        record = load(file) if _marked(peek(file)) else None
        if record is None:
            continue
        if _is_meta(record):
            run = folder_below(path, file) or str(record["task_name"])
            yield run, run.rpartition("/")[0].rpartition("/")[0], file, record, record
            continue
        for name, each in mapping(record["runs"]).items():
            run = f"{below(path, file).removesuffix('.json')}/{name}"
            yield run, "", file, record, mapping(each)


def _marked(record: Any) -> bool:
    return _is_meta(record) or (_is_summed(record) and _is_task(record))


def _is_task(record: Json) -> bool:
    runs = [mapping(each) for each in mapping(record["runs"]).values()]
    return bool(runs) and all("success" in _result(each) for each in runs)


def _result(run: Json) -> Json:
    """Return what holds a run's success and its error: some aggregators lift it out."""
    return mapping(run.get("execution_result")) if "execution_result" in run else run


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield the runs; those of one task are samples of it."""
    yield from numbered(
        (
            (run, _run(run, evaluation, file, record, unstamped(each)))
            for run, evaluation, file, record, each in _runs(path)
        ),
        "repeat",
    )


def _run(run: str, evaluation: str, file: Path, record: Json, each: Json) -> FinishedRun:
    result = _result(each)
    said = text(result.get("error_message"))
    (status, reason), noted = ending(said)
    turns, tokens = count(each.get("turn_count")), tokens_of(each.get("token_usage"))
    spoke = bool(turns) or (
        _is_meta(record) and bool(calls_in(peek(file.parent / "messages.json")))
    )
    return FinishedRun(
        id=run,
        task=str(record.get("task_name") or record.get("task")),
        evaluation=evaluation,
        model=text(record.get("model_name")) or text(record.get("model")),
        reward=float(bool(result.get("success"))),
        status=status,
        termination_reason=reason,
        error=None if said is None or noted else RecordedError(text=said),
        prompted=False if status is ExecutionStatus.SETUP_FAILED else None,
        tokens=tokens or (None if turns else tokens),  # not every client counts them
        output=spoke or None,
        unknown=("calls",),
        never_began=_NO_STATE if status is ExecutionStatus.SETUP_FAILED else None,
        place=RunPlace(file=file, words='"error_message"' if said else None),
    )


def ending(said: str | None) -> tuple[_Ending, bool]:
    """Return how a run ended by the text of its error, and whether the harness noted that."""
    if said is None:
        return (ExecutionStatus.SUCCESS, None), True
    known = (end for begins, end in _ENDINGS if begins.match(said))
    end = next(known, None)
    return ((ExecutionStatus.AGENT_ERROR, None), False) if end is None else (end, True)


def _write(path: Path, verdicts: Verdicts) -> list[str]:
    held: dict[Path, Json] = {}
    for run, _evaluation, file, record, each in list(_runs(path)):
        now = marked(each, verdicts, run, _fields)
        if now is each:
            continue
        if each is record:
            held[file] = now
            continue
        kept = held.get(file, record)
        held[file] = {**kept, "runs": {**kept["runs"], run.rpartition("/")[2]: now}}
    for file, now in held.items():
        save(file, now)
    return ["summary.json: its rates are as MCPMark wrote them"] if held else []


def _fields(judged: Audited, before: Json) -> Json:
    """Return the fields of a run that its pipeline runs again when it is resumed."""
    says = {"success": None, "error_message": f"Agent execution failed: {judged.why}"}
    if "execution_result" not in before:
        return says
    return {"execution_result": {**mapping(before["execution_result"]), **says}}


MCPMARK = AuditFormat(
    name="mcpmark",
    title="MCPMark",
    marks="`meta.json` with `task_name`, `mcp` and `execution_result`, or a task's `runs` of them",
    recognises=lambda path: any_has(path, _marked, _PATTERN),
    read=_read,
    write=_write,
)
