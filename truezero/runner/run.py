"""`truezero run`: run an agent's command under a rollout and report whether its model was reached.

The agent's input and output are passed through unread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

from truezero import Client, models
from truezero.printable import visible
from truezero.runner import agents
from truezero.runner.equipment import PreparedCommand, equipped, upstream_of
from truezero.runner.reward import NoReward, Scorer
from truezero.sdk.arguments import LimitFacts, OutcomeFacts
from truezero.sdk.errors import MEASURED, ServiceError, Undelivered
from truezero.unreadable import make_unreadable

# --- process ---
#
# Signals and the terminal are passed on to it; its output is untouched.


NOT_FOUND = 127  # the convention of shells
NOT_EXECUTABLE = 126

_WATCH_S = 0.3
_GRACE_S = 0.5  # between SIGTERM and SIGKILL for a doomed agent

_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """The result of running a command.

    ``agent_code`` is its exit status, or minus the signal that ended it; None if it was not
    started. ``doomed``: stopped because the rollout could not succeed. ``forwarded``: the last
    terminating signal that was passed on to it.
    """

    agent_code: int | None
    doomed: bool = False
    forwarded: signal.Signals | None = None

    @property
    def shell_code(self) -> int:
        """The exit code as a shell reports it: 128 plus the signal's number."""
        code = self.agent_code or 0
        return 128 - code if code < 0 else code


def started(equipment: PreparedCommand) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own, which cannot read our admin token.

    Raises:
        OSError: the command cannot be started.
    """
    make_unreadable()
    return subprocess.Popen(  # noqa: S603  what the user asked for
        equipment.command, env=dict(equipment.environment), process_group=0
    )


def not_started(error: OSError) -> tuple[int, str]:
    """Return the exit code, and the reason, of a command that could not be started."""
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND, "command not found"
    return NOT_EXECUTABLE, "cannot be executed"


@contextmanager
def terminal_for(group: int) -> Iterator[None]:
    """Give the terminal to the agent, so that it can read input and receives Ctrl-C."""
    ours = os.getpgrp()
    if not _have_terminal(ours):
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # taking the terminal back would stop us
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have stopped on reading input too early
        yield
    finally:
        with suppress(OSError):
            os.tcsetpgrp(0, ours)
        signal.signal(signal.SIGTTOU, before)


def _have_terminal(group: int) -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == group
    except OSError:
        return False


def accompanied(
    process: subprocess.Popen[bytes],
    client: Client,
    rollout_id: str,
    signals: Signals,
    *,
    fail_fast: bool,
) -> ProcessResult:
    """Wait for the process; pass signals on, and stop a doomed one with ``fail_fast``."""
    over = threading.Event()
    watch = _Watch(process, client, rollout_id, over)
    signals.pass_to(process.pid)
    if fail_fast:
        watch.start()
    code = process.wait()
    over.set()
    if fail_fast:
        watch.join()
    ending = signals.ending
    return ProcessResult(
        agent_code=code, doomed=watch.stopped, forwarded=ending[-1] if ending else None
    )


class _Watch(threading.Thread):
    """Polls whether the rollout is doomed, and then stops its processes."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        client: Client,
        rollout_id: str,
        over: threading.Event,
    ) -> None:
        super().__init__(name="fail-fast", daemon=True)
        self._process = process
        self._client = client
        self._rollout_id = rollout_id
        self._over = over
        self.stopped = False

    def run(self) -> None:
        """Poll until the agent has ended or was stopped."""
        while not self._over.wait(_WATCH_S):
            if self._doomed():
                self.stopped = True
                signal_group(self._process.pid, signal.SIGTERM)
                if not self._over.wait(_GRACE_S):
                    signal_group(self._process.pid, signal.SIGKILL)
                return

    def _doomed(self) -> bool:
        try:
            return self._client.verdict(self._rollout_id).doomed
        except ServiceError:
            return False  # the end of the run calls the service again and reports the error


class Signals:
    """Passes signals on to the agent's group; those that come before it is there wait for it.

    Without this, Ctrl-C between the agent's start and the terminal's change of hands would end
    the run and leave the agent behind.
    """

    def __init__(self) -> None:
        self.ending: list[signal.Signals] = []  # those passed on that end a process
        self._group: int | None = None
        self._waiting: list[signal.Signals] = []
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take this process's signals; outside of the main thread they stay as they are."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._come) for number in _FORWARDED}
        return self

    def __exit__(self, *_raised: object) -> None:
        """Put the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_to(self, group: int) -> None:
        """Pass on what waits, and from now on everything, to a process group."""
        self._group = group
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            signal_group(group, number)

    def _come(self, number: int, _frame: FrameType | None) -> None:
        came = signal.Signals(number)
        if came in _ENDING:
            self.ending.append(came)
        if self._group is None:
            self._waiting.append(came)
        else:
            signal_group(self._group, came)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it is still there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


# --- report ---
#
# An exit code and a record.


NO_REWARD = 1  # that was asked for
TRANSIENT = 75  # sysexits.h: try again later
PERMANENT = 76
SUSPECTED = 77
UNDECIDED = 78  # evidence is missing
UNDELIVERED = 79  # the outcome is kept: `truezero outcomes deliver`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of a job.

    ``skipped`` says why a breaker did not admit it, or that its task is ``measured``,
    ``undelivered`` where its outcome is kept;
    result and verdict are None then.
    ``bypasses`` say why the agent's calls would not come, as far as it showed before the start;
    ``no_call`` what to check where a known agent ran and none came. ``no_reward`` says why the
    reward that was to be read could not be.
    """

    rollout_id: str
    agent: str
    ended: ProcessResult
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None
    measured: bool = False
    undelivered: str | None = None
    bypasses: tuple[str, ...] = ()
    no_call: str | None = None
    no_reward: str | None = None

    @property
    def exit_code(self) -> int:
        """The agent's own exit code if the verdict is healthy or the agent did not start.

        In place of 0 it is 1 if the reward could not be read.
        """
        if self.undelivered is not None:
            return UNDELIVERED
        if self.verdict is None:
            return 0 if self.measured else PERMANENT
        own = self.ended.shell_code or (NO_REWARD if self.no_reward else 0)
        return _EXIT.get((self.verdict.health, self.verdict.transient), own)


_EXIT: Mapping[tuple[str, bool | None], int] = {
    ("api_error", True): TRANSIENT,
    ("api_error", False): PERMANENT,
    ("suspected_api_error", None): SUSPECTED,
    ("undecided", None): UNDECIDED,
}


def record(report: Report) -> dict[str, Any]:
    """Return a report as JSON data."""
    return {
        "rollout_id": report.rollout_id,
        "agent": report.agent,
        "exit_code": report.exit_code,
        "agent_exit_code": report.ended.agent_code,
        "stopped_as_doomed": report.ended.doomed,
        "skipped": report.skipped,
        "undelivered": report.undelivered,
        "bypasses": list(report.bypasses),
        "no_call": report.no_call,
        "no_reward": report.no_reward,
        "result": report.result and report.result.model_dump(),
        "verdict": report.verdict and report.verdict.model_dump(),
    }


# --- run ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command and the attributes of its rollout.

    ``agent`` is the name of the agent that the command starts, where its user says it. ``scorer``
    returns the reward, once it has ended by itself.
    """

    command: tuple[str, ...]
    agent: str | None = None
    batch: str | None = None
    task: str | None = None
    id: str | None = None
    repeat: int | None = None
    repeats: int | None = None
    attempt: int | None = None
    model: str | None = None
    upstream: str | None = None  # None: the agent's only one, where it has one
    limits: LimitFacts | None = None
    batch_limits: LimitFacts | None = None
    fail_fast: bool = False
    scorer: Scorer | None = None


def run(job: Job, client: Client, say: Callable[[str], object] = lambda _line: None) -> Report:
    """Run a job under a new rollout of a service.

    Arguments:
        say: is told before the start what a known agent is given, and why its calls would not
            come.

    Raises:
        ServiceError: the service is unreachable or rejects a request.
    """
    facts: OutcomeFacts = {
        "batch": job.batch, "task": job.task, "repeat": job.repeat, "attempt": job.attempt,
        "model": job.model,
    }  # fmt: skip
    not_begun = partial(Report, agent=job.command[0], ended=ProcessResult(agent_code=None))
    try:
        rollout = client.register(
            id=job.id, batch=job.batch, task=job.task, repeat=job.repeat, repeats=job.repeats,
            attempt=job.attempt, model=job.model,
            upstream=job.upstream or upstream_of(job.command, job.agent),
            limits=job.limits, batch_limits=job.batch_limits,
        )  # fmt: skip
    except ServiceError as error:
        if error.code != MEASURED:
            raise
        return not_begun(rollout_id=job.id or "", skipped=str(error), measured=True)
    if not rollout.admitted:
        return not_begun(rollout_id=rollout.id, skipped=rollout.error)
    with equipped(job.command, rollout, client.url, job.agent) as equipment:
        if equipment.added:
            say(f"{equipment.agent}: {equipment.added}")
        for reason in equipment.bypasses:
            say(f"{equipment.agent} may go past the proxy: {reason}")
        ended, outcome = _run_command(equipment, job, client, rollout.id)
    outcome = _scored(job, ended, outcome)
    # What it was registered with, for a service that no longer knows it.
    named: OutcomeFacts = {**facts, **outcome}
    try:
        result, verdict = client.ended(rollout.id, **named)
    except Undelivered as error:
        return Report(
            rollout_id=rollout.id,
            agent=equipment.agent,
            ended=ended,
            undelivered=str(error),
            bypasses=equipment.bypasses,
        )
    return Report(
        rollout_id=rollout.id,
        agent=equipment.agent,
        ended=ended,
        result=result,
        verdict=verdict,
        bypasses=equipment.bypasses,
        no_call=_no_call(equipment, outcome, verdict),
        no_reward=outcome.get("verifier_error"),
    )


def _no_call(
    equipment: PreparedCommand, outcome: OutcomeFacts, verdict: models.Verdict
) -> str | None:
    """Return what to check where a known agent ran, and no call of it came."""
    if not equipment.known or verdict.total_requests or not outcome.get("prompts_executed"):
        return None
    why = "; ".join(equipment.bypasses)
    check = why or "check its login and its own settings, which may name another provider"
    return (
        f"no call came: {equipment.agent} ended before its first one, or went past the proxy. "
        f"It reads its base URL from {equipment.address}; {check}"
    )


def _run_command(
    equipment: PreparedCommand, job: Job, client: Client, rollout_id: str
) -> tuple[ProcessResult, OutcomeFacts]:
    """Run the command to its end; return how it ended and what to report."""
    outcome_noted = agents.noted(equipment.trajectory)
    with Signals() as signals:
        try:
            process = started(equipment)
        except OSError as error:
            return _failed_start(job, error)
        with terminal_for(process.pid):
            ended = accompanied(process, client, rollout_id, signals, fail_fast=job.fail_fast)
    return ended, _outcome(ended, outcome_noted)


_STOPPED: OutcomeFacts = {"status": "success", "termination_reason": "agent_stop"}


def _failed_start(job: Job, error: OSError) -> tuple[ProcessResult, OutcomeFacts]:
    code, why = not_started(error)
    error_text = f"{Path(job.command[0]).name}: {why}"
    outcome: OutcomeFacts = {"status": "setup_failed", "prompts_executed": 0, "error": error_text}
    return ProcessResult(agent_code=code), outcome


def _outcome(
    ended: ProcessResult, outcome_noted: Callable[[], OutcomeFacts | None]
) -> OutcomeFacts:
    if ended.agent_code == 0:
        return {"prompts_executed": 1, **(outcome_noted() or _STOPPED)}
    if ended.doomed:  # the verdict says why
        return {"status": "environment_error", "prompts_executed": 1}
    if ended.forwarded is not None:
        error = f"stopped by {ended.forwarded.name}"
        return {"status": "unknown_execution_error", "prompts_executed": 1, "error": error}
    code = ended.agent_code or 0
    error = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return {"status": "agent_error", "prompts_executed": 1, "error": error}


def _scored(job: Job, ended: ProcessResult, outcome: OutcomeFacts) -> OutcomeFacts:
    """Return an outcome with its rewards, or why there are none; one cut short has none."""
    cut_short = ended.agent_code is None or ended.doomed or ended.forwarded is not None
    if job.scorer is None or cut_short:
        return outcome
    try:
        return {**outcome, "rewards": job.scorer()}
    except NoReward as error:
        return {**outcome, "verifier_error": str(error)}


def job_of(words: Sequence[str], **facts: Any) -> Job:
    """Return a job for a command line, without its leading ``--``."""
    command = tuple(words[1:] if words[:1] == ["--"] else words)
    return Job(command=command, **facts)


def say(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"truezero: {visible(line)}\n")
    sys.stderr.flush()
