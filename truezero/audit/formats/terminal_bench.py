"""terminal-bench 0.x: a `results.json` for each trial, and one that sums up a run.

Facts of terminal-bench 0.2.18 (`harness/models.py`, `agents/failure_mode.py`,
`agents/installed_agents/abstract_installed_agent.py`, `terminal/tmux_session.py`).

Path: `results.json` of 0.x: a trial's, a run's, or a folder of them.

Read: `is_resolved`, `failure_mode`, tokens; `sessions/agent.log`.

Unknown: single calls; without the session, the agent's errors.

Copy: `is_resolved` null, `failure_mode` `unknown_agent_error`; sums are not made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus, TerminationReason
from truezero.audit.agent_logs import (
    CUT,
    NOT_INSTALLED,
    NOT_RUN,
    AgentLog,
    agent_log,
    plain,
    read_log,
)
from truezero.audit.audit_format import (
    AuditFormat,
    Verdicts,
    folder_id,
    marked,
    numbered,
    unstamped,
)
from truezero.audit.files import any_has, below, found, has, is_there, load, peek, save
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RunPlace
from truezero.audit.values import Json, count, mapping, objects, text, total

_PATTERN: Final = "*results.json"
_SUMMED: Final = "results.json"  # of a run, and of a trial
_is_trial: Final = has("trial_name", "task_id", "is_resolved", "failure_mode")
_INSTALLING: Final = "agent_installation_failed"
_CRASHED: Final = "unknown_agent_error"  # of the agent's process, or of the harness
_FAILED: Final = (ExecutionStatus.AGENT_ERROR, None)
# How a run ended, by its `failure_mode`; it is `unset` where the agent's command returned.
_ENDINGS: Final[Mapping[str, tuple[ExecutionStatus, TerminationReason | None]]] = {
    "unset": (ExecutionStatus.SUCCESS, None),
    "none": (ExecutionStatus.SUCCESS, None),
    "agent_timeout": (ExecutionStatus.TASK_TIMEOUT, None),
    "test_timeout": (ExecutionStatus.EVALUATION_FAILED, None),
    "parse_error": (ExecutionStatus.EVALUATION_FAILED, None),
    "context_length_exceeded": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    "output_length_exceeded": (ExecutionStatus.SUCCESS, TerminationReason.MAX_STEPS),
    _INSTALLING: (ExecutionStatus.SETUP_FAILED, None),
}


def _is_results(record: Any) -> bool:
    if _is_trial(record):
        return True
    results = record.get("results") if isinstance(record, Mapping) else None
    return isinstance(results, list) and bool(results) and _is_trial(results[0])


def _files(path: Path) -> Iterator[tuple[Path, Json]]:
    """Yield the trials' own files first, then those that sum up, each with what it holds."""
    held = [(file, record) for file in found(path, _PATTERN) if _is_results(record := load(file))]
    yield from sorted(held, key=lambda each: "results" in each[1])


def _trials(path: Path) -> Iterator[tuple[str, Path, Path, Json]]:
    """Yield each trial once, as its id, the file that holds it, its folder and its record."""
    seen: set[object] = set()
    for file, record in _files(path):
        for trial in objects(record.get("results")) or [record]:
            known = (trial.get("id"), trial["trial_name"], trial.get("trial_started_at"))
            if known not in seen:
                seen.add(known)
                yield _id(path, file, record, trial), file, _folder(file, record, trial), trial


def _id(path: Path, file: Path, record: Json, trial: Json) -> str:
    if "results" not in record:
        return folder_id(path, file, trial["trial_name"])
    return f"{below(path, file)}:{trial['trial_name']}"


def _folder(file: Path, record: Json, trial: Json) -> Path:
    if "results" not in record:
        return file.parent
    return file.parent / str(trial["task_id"]) / str(trial["trial_name"])


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield the trials; those of one task are samples of it."""
    yield from numbered(
        (
            (trial.get("trial_started_at"), replace(
                _run(run, file, folder, unstamped(trial)),
                evaluation=_submission(path, file, folder) or _called(folder)[0] or "",
            ))
            for run, file, folder, trial in _trials(path)
        ),
        "repeat",
    )  # fmt: skip


def _run(run: str, file: Path, folder: Path, trial: Json) -> FinishedRun:
    status, reason = _ENDINGS.get(str(trial["failure_mode"]), _FAILED)
    session = folder / "sessions" / "agent.log"
    logged = is_there(session)
    log = _session(plain(read_log(session))) if logged else AgentLog()
    noted = None if logged else str(trial["trial_name"])
    tokens = _tokens(trial) or log.tokens
    began = None if tokens else _never_began(trial, logged=logged) or log.never_began
    return FinishedRun(
        id=run,
        task=str(trial["task_id"]),
        model=_called(folder)[1],
        reward=_reward(trial),
        status=status,
        termination_reason=reason,
        error=log.error,
        prompted=False if began else None,
        tokens=tokens,
        output=log.output,
        unknown=("calls",) if logged else ("calls", "errors"),
        never_began=began,
        place=RunPlace(file=session if logged else file, words=log.said or noted),
    )


def _never_began(trial: Json, *, logged: bool) -> str | None:
    """Return why the agent never began, by what the harness noted."""
    if trial["failure_mode"] == _INSTALLING:
        return NOT_INSTALLED
    unstarted = "agent_started_at" in trial and trial["agent_started_at"] is None
    crashed = trial["failure_mode"] == _CRASHED
    return NOT_RUN if unstarted and crashed and not logged else None


def _reward(trial: Json) -> float | None:
    """Return 1 or 0; a trial whose tests gave nothing counts as 0."""
    resolved = trial["is_resolved"]
    return None if resolved is None and trial["failure_mode"] == "unset" else float(bool(resolved))


def _tokens(trial: Json) -> int | None:
    """Return the tokens; installed agents count none, and 0 is written for them."""
    return total(count(trial.get(f"total_{of}_tokens")) for of in ("input", "output")) or None


def _submission(path: Path, file: Path, folder: Path) -> str:
    """Return the folder of a submission below the one that is audited.

    It holds its runs, in folders or in files of their names; a run that repeats each task by itself
    (``….1-of-5.…``) is one alone.
    """
    run = folder.parent.parent
    alone = file.name != _SUMMED or ".1-of-1." not in folder.name
    place = run if alone else run.parent
    return place.relative_to(path).as_posix().strip(".") if place.is_relative_to(path) else ""


def _called(trial: Path) -> tuple[str | None, str | None]:
    """Return the agent and the model of a trial's run, by its `run_metadata.json`."""
    metadata = trial.parent.parent / "run_metadata.json"
    called = mapping(peek(metadata)) if is_there(metadata) else {}
    return text(called.get("agent_name")), text(called.get("model_name"))


# --- the session of an installed agent ---
#
# The harness types each command, followed by what tells it that the command has returned.

_RETURNED: Final = "tmux wait -S done"
_INSTALL: Final = "install-agent.sh"
_TESTS: Final = "run-tests.sh"
_DONE: Final = re.compile(r"^INSTALL_SUCCESS$", re.MULTILINE)  # of releases before 0.2.18


def _session(log: str) -> AgentLog:
    """Read the output of the agent's own command; one whose keys the harness types has none."""
    pieces = log.split(_RETURNED)
    commands = [_command(piece) for piece in pieces[:-1]]
    outputs = [piece.partition("\n")[2] for piece in pieces[1:]]
    installs = [place for place, typed in enumerate(commands) if _INSTALL in typed]
    if not installs:
        return AgentLog()
    own = [n for n in range(installs[-1] + 1, len(commands)) if _TESTS not in commands[n]]
    if not own:
        if _DONE.search(outputs[installs[-1]]) or CUT in log:
            return AgentLog()
        return AgentLog(never_began=NOT_INSTALLED, said=_INSTALL)
    *before, output = (_output(outputs, commands, n) for n in own)
    read = agent_log(output)
    worked = CUT in log or any(map(_printed, before))
    return replace(read, never_began=None) if worked else read


def _output(outputs: Sequence[str], commands: Sequence[str], place: int) -> str:
    """Return what a command printed, without the next one that is typed behind it."""
    typed = commands[place + 1] if place + 1 < len(commands) else ""
    return outputs[place].removesuffix(typed)


def _printed(output: str) -> bool:
    """Return True if a command printed anything; a shell shows the lines of a pasted one again."""
    return any(line.strip() and not line.startswith(">") for line in output.split("\n"))


def _command(piece: str) -> str:
    """Return the line on which a command ends."""
    return piece.rpartition("\n")[2]


# --- writing -----------------------------------------------------------------------------------


def _write(path: Path, verdicts: Verdicts) -> list[str]:
    """Mark trials in all files that hold them; what sums up a run is not summed up anew."""
    judged = {(trial.get("id"), trial["trial_name"]): run for run, *_, trial in _trials(path)}

    def corrected(trial: Json) -> Json:
        run = judged[trial.get("id"), trial["trial_name"]]
        return marked(trial, verdicts, run, _fields)

    stale = []
    for file, record in list(_files(path)):
        if "results" not in record:
            save(file, corrected(record), indent=4)
            continue
        trials = list(map(corrected, objects(record["results"])))
        save(file, {**record, "results": trials}, indent=4)
        stale.append(f"{file.name}: its accuracy and pass@k are as terminal-bench wrote them")
    return stale[:1]


def _fields(_judged: Audited, _before: Json) -> Json:
    return {"is_resolved": None, "failure_mode": _CRASHED}


TERMINAL_BENCH = AuditFormat(
    name="terminal-bench",
    title="terminal-bench",
    marks="`results.json` with `trial_name`, `is_resolved` and `failure_mode`, or a run's of them",
    recognises=lambda path: any_has(path, _is_results, _PATTERN),
    read=_read,
    write=_write,
)
