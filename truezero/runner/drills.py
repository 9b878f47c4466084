"""`truezero drill`: inject each provider failure into an agent and report how it reacts.

`--like ROLLOUT` plays what the provider did to an earlier rollout, read from its exchanges.
The agent's output is measured, not kept; a provider is called only for calls before a failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import IO, Any, get_args

from truezero import Client, models
from truezero.runner.equipment import PreparedCommand, equipped
from truezero.runner.replays import ReplayedRollout, is_inference
from truezero.runner.run import not_started, signal_group
from truezero.sdk.arguments import OutcomeFacts

TIMEOUT_S = 120.0  # a first answer that takes longer counts as never given
_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_READ = 65536
_LONGEST_TASK = 200  # characters

DRILLS: Mapping[str, models.Fault] = {
    **{kind: models.Fault(kind=kind) for kind in get_args(models.FaultKind) if kind != "replay"},
    "mid_run_quota": models.Fault(kind="quota", at_call=2),
}
# Complete answers, by which the measurement is spoilt. A slow one is good for who waits.
INVALID_ANSWERS = frozenset(("truncate_prompt", "cut_output", "swap_model", "abort"))


class DrillError(Exception):
    """The drill cannot run; the message says why, ``code`` is the exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A command and the names of the failures to inject.

    ``agent`` is the name of the agent that the command starts, where its user says it.
    ``at_call``: first call that fails, overriding each drill's default. ``timeout_s``: time
    after which the agent is stopped. ``delay_s``: seconds before a slow answer.
    """

    command: tuple[str, ...]
    agent: str | None = None
    drills: tuple[str, ...] = tuple(DRILLS)
    model: str | None = None
    at_call: int | None = None
    timeout_s: float = TIMEOUT_S
    delay_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRun:
    """The end of an agent's run; ``code`` is its exit code, or minus the signal that ended it.

    Only the length of its output is kept, in bytes.
    """

    code: int
    stopped: bool
    seconds: float
    output_bytes: int
    error_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The reaction of an agent to one failure.

    ``struck``: number of injected failures. ``retries``: calls after the first of them.
    ``wasted_s``: seconds spent on failed calls and between them. ``hidden``: it exited with 0
    although no call succeeded after the last failure; a spoilt answer counts as one, a slow one
    only if the agent did not wait for it. ``original``: the verdict of the rollout that a replay
    plays; there, ``struck`` counts failed calls, or if none failed, all.
    """

    drill: str
    rollout_id: str
    agent: str
    exit_code: int
    stopped: bool
    seconds: float
    output_bytes: int
    error_bytes: int
    calls: int
    struck: int
    retries: int
    wasted_s: float | None
    hidden: bool
    verdict: models.Verdict
    original: models.Verdict | None = None

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings that spoilt the measurement, as ``check (level)``, the worst first."""
        return tuple(f"{one.check} ({one.level})" for one in self.verdict.validity)

    @property
    def conduct(self) -> str:
        """The reaction in a few words."""
        if self.stopped:
            return "kept running until stopped"
        if not self.struck:
            return "did not reach the failing call" if self.calls else "made no call"
        if self.exit_code:
            return "reported it"
        if self.hidden:
            return "took it for good" if self.took_spoilt else "hid the failure"
        return "waited for it" if self.drill == "slow" else "recovered"

    @property
    def took_spoilt(self) -> bool:
        """True if it was an answer that was spoilt, and no failure."""
        if self.original is not None:
            return self.original.health == "healthy"
        return self.drill in INVALID_ANSWERS


def record(one: DrillReport) -> dict[str, Any]:
    """Return one result as JSON data."""
    return {
        **asdict(one),
        "conduct": one.conduct,
        "findings": one.findings,
        "verdict": one.verdict.model_dump(),
        "original": one.original and one.original.model_dump(),
    }


def chosen(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the drills with these names in the table's order; all if none is named.

    Raises:
        DrillError: a name is not in the table.
    """
    unknown = [name for name in names or () if name not in DRILLS]
    if unknown:
        known = ", ".join(DRILLS)
        raise DrillError(f"unknown fault {unknown[0]!r}; choose from {known}", 2)
    return tuple(name for name in DRILLS if not names or name in names)


def run(
    plan: Plan, client: Client, done: Callable[[DrillReport], object] = lambda _one: None
) -> list[DrillReport]:
    """Run the agent once for each drill.

    Arguments:
        done: called with each result.

    Raises:
        ServiceError: the service is unreachable or rejects a request.
        DrillError: the command cannot be started.
    """
    drilled = []
    for name in plan.drills:
        one = _play(name, _fault(name, plan), plan, client)
        done(one)
        drilled.append(one)
    return drilled


def replay(plan: Plan, original: ReplayedRollout, client: Client) -> DrillReport:
    """Run the agent once, against what the providers did in an earlier rollout.

    Raises:
        ServiceError: the service is unreachable or rejects a request.
        DrillError: the command cannot be started.
    """
    name = f"like {original.verdict.rollout_id}"
    return _play(name, original.fault(), plan, client, original)


def _play(
    name: str,
    fault: models.Fault,
    plan: Plan,
    client: Client,
    original: ReplayedRollout | None = None,
) -> DrillReport:
    rollout = client.register(
        task=f"drill:{name}"[:_LONGEST_TASK],
        model=plan.model or (original.model if original else None),
        upstream=original.upstream if original else None,
        fault=fault.model_dump(),
    )
    with equipped(plan.command, rollout, client.url, plan.agent) as equipment:
        ended = _tried(equipment, plan, client, rollout.id)
    _, verdict = client.ended(rollout.id, **_outcome(ended))
    calls = [call for call in client.exchanges(rollout.id) if is_inference(call)]
    return _drilled(name, equipment.agent, ended, verdict, calls, original)


def _tried(equipment: PreparedCommand, plan: Plan, client: Client, rollout_id: str) -> DrillRun:
    """Run the agent; report the rollout if it did not start or was interrupted."""
    try:
        return _accompanied(equipment, plan.timeout_s)
    except OSError as error:
        client.report(rollout_id, status="setup_failed", prompts_executed=0)
        code, why = not_started(error)
        raise DrillError(f"{plan.command[0]}: {why}", code) from error
    except BaseException:
        client.report(rollout_id, status="unknown_execution_error", prompts_executed=1)
        raise


def _fault(name: str, plan: Plan) -> models.Fault:
    stated = {"at_call": plan.at_call, "delay_s": plan.delay_s}
    update = {key: value for key, value in stated.items() if value is not None}
    return DRILLS[name].model_copy(update=update)


def _drilled(
    name: str,
    agent: str,
    ended: DrillRun,
    verdict: models.Verdict,
    calls: Sequence[models.Exchange],
    original: ReplayedRollout | None = None,
) -> DrillReport:
    injected = [place for place, call in enumerate(calls) if call.injected]
    # A replay plays good answers too; if nothing failed, its answers are what is tried.
    failed = [place for place in injected if not _succeeded(calls[place])]
    struck = failed if original and failed else injected
    # A slow answer is good once it came, as is a replayed one that spoilt nothing; no other is.
    good = name == "slow" if original is None else not (failed or _spoils(original.verdict))
    since = (struck[-1] + (not good)) if struck else 0
    recovered = bool(struck) and any(_succeeded(call) for call in calls[since:])
    return DrillReport(
        drill=name,
        rollout_id=verdict.rollout_id,
        agent=agent,
        exit_code=ended.code,
        stopped=ended.stopped,
        seconds=ended.seconds,
        output_bytes=ended.output_bytes,
        error_bytes=ended.error_bytes,
        calls=len(calls),
        struck=len(struck),
        retries=len(calls) - struck[0] - 1 if struck else 0,
        wasted_s=verdict.lost_s,
        hidden=bool(struck) and not (recovered or ended.stopped or ended.code),
        verdict=verdict,
        original=original.verdict if original else None,
    )


def _spoils(verdict: models.Verdict) -> bool:
    return any(finding.level != "info" for finding in verdict.validity)


def _succeeded(call: models.Exchange) -> bool:
    return call.status == 200 and call.ending == "complete" and call.subcategory is None


def _outcome(ended: DrillRun) -> OutcomeFacts:
    if ended.stopped:
        return {"status": "task_timeout", "prompts_executed": 1}
    if ended.code == 0:
        return {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}
    error = f"exit code {ended.code}"
    return {"status": "agent_error", "prompts_executed": 1, "error": error}


# --- the process ---


def _accompanied(equipment: PreparedCommand, timeout_s: float) -> DrillRun:
    """Start the agent, measure its output, and stop it after the timeout.

    Raises:
        OSError: the agent cannot be started.
    """
    began = time.monotonic()
    with _started(equipment) as process:
        counts = [_Count(stream) for stream in (process.stdout, process.stderr) if stream]
        try:
            process.wait(timeout_s)
            stopped = False
        except subprocess.TimeoutExpired:
            stopped = True
        seconds = time.monotonic() - began
        _end(process)
        for count in counts:
            count.join(_GRACE_S)  # a child that left its group may hold the pipe open
    output, error = counts
    return DrillRun(
        code=process.returncode,
        stopped=stopped,
        seconds=seconds,
        output_bytes=output.bytes,
        error_bytes=error.bytes,
    )


@contextmanager
def _started(equipment: PreparedCommand) -> Iterator[subprocess.Popen[bytes]]:
    """Start the agent in a process group of its own, and kill the group afterwards."""
    process = subprocess.Popen(  # noqa: S603  what the user asked for
        equipment.command,
        env=dict(equipment.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        yield process
    finally:
        signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the agent's processes, then kill them."""
    signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    signal_group(process.pid, signal.SIGKILL)
    process.wait()


class _Count(threading.Thread):
    """Reads a stream to its end and keeps only its length."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.bytes = 0
        self.start()

    def run(self) -> None:
        """Read until the end."""
        with suppress(OSError, ValueError):
            while read := os.read(self._stream.fileno(), _READ):
                self.bytes += len(read)
