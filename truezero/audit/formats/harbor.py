"""Harbor: a job's folder, with a folder and a `result.json` for each trial.

Facts of Harbor 0.26 (`models/trial/result.py`, `models/trial/error_policy.py`). What an agent
printed is in `agent/*.txt`, or in `agent/command-0/stdout.txt` and so on.

Path: job or trial folder.

Read: `exception_info`, phases, tokens, rewards; answers in `agent/trajectory.json`; `agent/*.txt`.

Unknown: single calls: failures that the agent swallowed after a first answer.

Copy: `exception_info` with a type that its retries know; `verifier_result` null; the job's own
`result.json` is not summed up anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

from classifier.records import ExecutionStatus
from classifier.score_keys import keys_of, reported_score
from truezero.audit.agent_logs import (
    NO_SANDBOX,
    NOT_FOUND,
    NOT_INSTALLED,
    AgentLog,
    agent_log,
    never_began,
    plain,
    read_log,
)
from truezero.audit.audit_format import (
    AuditFormat,
    folder_id,
    mark_files,
    numbered,
    settings_of,
    unstamped,
)
from truezero.audit.errors import failed_call
from truezero.audit.files import any_has, found, has, is_there, load
from truezero.audit.formats import atif
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError, RunPlace
from truezero.audit.trace_format import Notes, Record, TraceFormat, noted, why_masked
from truezero.audit.values import Json, count, items, length, mapping, objects, score, text, total
from truezero.integrations.harbor import (
    EXCEPTION_TYPES,
    KNOWN_AS,
    STATUSES,
    ProviderRejectedRequest,
    SuspectedApiError,
)

# A verdict in Harbor's own names, which its retries and reports know.
_NAMES: Final = {**EXCEPTION_TYPES, "rejected_request": KNOWN_AS[ProviderRejectedRequest]}
_SUSPECTED: Final = KNOWN_AS[SuspectedApiError]
_marked: Final = has("trial_name", "task_name", "agent_info")


def _trials(path: Path) -> Iterator[tuple[str, Path, Json]]:
    for file in found(path, "result.json"):
        record = load(file)
        if _marked(record):
            yield folder_id(path, file, record["trial_name"]), file, record


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield the trials; those of one task are samples of it, a retry replaces its trial."""
    runs = (
        (record.get("started_at"), _run(run, unstamped(record), file.parent))
        for run, file, record in _trials(path)
    )
    yield from numbered(runs, "repeat")


def _run(run: str, record: Json, folder: Path) -> FinishedRun:
    raised = _exception(record)
    kind = text(raised.get("exception_type"))
    status = ExecutionStatus(STATUSES.get(kind, "agent_error") if kind else "success")
    spoke, called = _trajectory(folder)
    reward, unread = _reward(record)
    printed, tokens = _printed(folder), _tokens(record)
    tokens = printed.tokens if tokens is None else tokens
    answered = spoke or called or tokens or printed.output
    raising = RecordedError(text=text(raised.get("exception_message")) or "", type=kind)
    began = None if answered else _never_began(record, raised, raising, printed)
    error = raising if kind and kind != _EXITED else printed.error or (raising if kind else None)
    return FinishedRun(
        id=run,
        task=str(record["task_name"]),
        origin=f"{record.get('id')}:{record['trial_name']}:{record.get('started_at')}",
        evaluation=_evaluation(record),
        settings=_settings(record),
        model=_model(record),
        reward=reward,
        unread=unread,
        status=status,
        error=error,
        prompted=False if began else None,
        tokens=tokens,
        tool_calls=called,
        output=printed.output if spoke is None else spoke,
        unknown=("calls",),
        never_began=began,
        place=RunPlace(file=folder / "result.json", words=kind and '"exception_message"'),
    )


# --- the agent never began ---

_EXITED: Final = "NonZeroAgentExitCodeError"
_COMMAND: Final = re.compile(r"^Command failed \(exit (\d+)\): (.*)", re.DOTALL)
_NO_PROGRAM: Final = ("126", "127")  # of a shell: it cannot be executed, it is not there
_MISSING: Final = re.compile(
    r"(?:command not found|not found|no such file or directory|permission denied|cannot execute.*|"
    r"exec format error)\W*(?:stderr: None)?\W*$",
    re.IGNORECASE,
)


def _never_began(
    record: Json, raised: Json, raising: RecordedError, printed: AgentLog
) -> str | None:
    """Return why the agent never began: a phase before its own failed, or its program did."""
    ran = record.get("agent_execution", True) or record.get("step_results")
    if raised and not ran and failed_call(raising, of_call=False) is None:
        return NOT_INSTALLED if record.get("agent_setup") else NO_SANDBOX
    if not raised:
        return None  # a command that ended well began, whatever it printed
    if printed.never_began is not None or raised.get("exception_type") != _EXITED:
        return printed.never_began
    failed = _COMMAND.match(text(raised.get("exception_message")) or "")
    if failed is None:
        return None
    _command, parted, said = failed[2].partition("\nstdout: ")
    if failed[1] in _NO_PROGRAM and _MISSING.search(said or failed[2]):
        return NOT_FOUND
    return never_began(plain(said.replace("\nstderr: None", ""))) if parted else None


def _printed(folder: Path) -> AgentLog:
    """Read what the agent's program printed, from the file that its adapter wrote last."""
    agent = folder / "agent"
    logs = sorted(agent.glob("*.txt")) or sorted(agent.glob("command-*/stdout.txt"))
    return agent_log(read_log(logs[-1])) if logs else AgentLog()


# --- what a trial holds ---


def _exception(record: Json) -> Json:
    """Return the trial's exception, else the last one of its steps."""
    raised = mapping(record.get("exception_info"))
    steps = [
        mapping(mapping(each).get("exception_info")) for each in items(record.get("step_results"))
    ]
    return raised or next((each for each in reversed(steps) if each), {})


def _evaluation(record: Json) -> str:
    """Return the agent and the dataset, by which Harbor sums up trials too."""
    agent = text(mapping(record.get("agent_info")).get("name"))
    return " · ".join(each for each in (agent, text(record.get("source"))) if each)


def _settings(record: Json) -> tuple[tuple[str, str], ...]:
    """Return what the agent was called with."""
    return settings_of(mapping(mapping(mapping(record.get("config")).get("agent")).get("kwargs")))


def _model(record: Json) -> str | None:
    info = mapping(mapping(record.get("agent_info")).get("model_info"))
    name, provider = text(info.get("name")), text(info.get("provider"))
    asked = text(mapping(mapping(record.get("config")).get("agent")).get("model_name"))
    return f"{provider}/{name}" if provider and name else name or asked


def _reward(record: Json) -> tuple[float | None, str | None]:
    """Return the score, or why none can be read."""
    rewards = mapping(mapping(record.get("verifier_result")).get("rewards"))
    known = {name: n for name, each in rewards.items() if (n := score(each)) is not None}
    read = reported_score(known, None)
    if read.unnamed:
        return None, f"rewards under several keys ({keys_of(read.unnamed)}), none of them `reward`"
    return read.score, "no number" if rewards and not known else None


def _tokens(record: Json) -> int | None:
    """Return input and output of the trial or its steps; None if the agent counted none."""
    contexts = [mapping(record.get("agent_result"))]
    if not contexts[0]:
        contexts = [
            mapping(mapping(each).get("agent_result")) for each in items(record.get("step_results"))
        ]
    names = ("n_input_tokens", "n_output_tokens")
    return total(count(each.get(name)) for each in contexts for name in names)


def _trajectory(folder: Path) -> tuple[bool | None, int | None]:
    """Return True if the agent's trajectory (ATIF) holds an answer, and count its tool calls."""
    file = folder / "agent" / "trajectory.json"
    return atif.answers(mapping(load(file))) if is_there(file) else (None, None)


def _fields(judged: Audited, record: Json) -> Json:
    """Return the exception that Harbor's own plug-in would have recorded, and no reward.

    Of an agent that never began, Harbor's own says more.
    """
    valid = {"reward_valid": False} if "reward_valid" in record else {}
    if judged.never_began:
        return {"verifier_result": None, **valid}
    subcategory = judged.verdict.subcategory
    finished = text(record.get("finished_at")) or text(record.get("started_at"))
    return {
        "verifier_result": None,
        "exception_info": {
            "exception_type": _NAMES[subcategory.value] if subcategory else _SUSPECTED,
            "exception_message": judged.why,
            "exception_traceback": "",
            "occurred_at": finished or "1970-01-01T00:00:00+00:00",
        },
        **valid,
    }


HARBOR = AuditFormat(
    name="harbor",
    title="Harbor",
    marks="`result.json` files with `trial_name`, `task_name` and `agent_info`",
    recognises=lambda path: any_has(path, _marked, "result.json"),
    read=_read,
    write=lambda path, verdicts: mark_files(_trials(path), verdicts, _fields, indent=4),
)


# --- the calls of a trial, and its mask --------------------------------------------------------


def _rollout(record: Record) -> str | None:
    return text(record.get("trial_name"))


def _calls(record: Record) -> list[RecordedCall]:
    """Return a call for each turn: a `RolloutDetail` has the tokens of each, and no ids."""
    calls = []
    for detail in objects(mapping(record.get("agent_result")).get("rollout_details")):
        prompts, answers = (items(detail.get(f"{of}_token_ids")) for of in ("prompt", "completion"))
        calls += [
            RecordedCall(input_tokens=length(prompt), output_tokens=length(answer))
            for prompt, answer in zip_longest(prompts[: len(answers)], answers)
        ]
    return calls


def _mask(record: Record, notes: Notes) -> Json:
    """Take the rewards and the rollout details, whose `RolloutDetail` has no mask."""
    note = notes.get(_rollout(record))
    agent = mapping(record.get("agent_result"))
    agent["metadata"] = noted(agent.get("metadata"), note)
    changed: Json = {"agent_result": agent}
    if why_masked(note):
        agent["rollout_details"] = None
        changed["verifier_result"] = {**mapping(record.get("verifier_result")), "rewards": None}
    return {**record, **changed}


HARBOR_TRACES = TraceFormat(
    title=HARBOR.title,
    recognises=has("trial_name", "agent_result"),
    rollouts=lambda record: {_rollout(record): _calls(record)},
    mask=_mask,
)
