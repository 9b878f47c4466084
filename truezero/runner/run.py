"""Runs any agent command under a rollout, and says whether a model was reached.

It reads no word of what the agent says: its input and output are its own.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from truezero import models
from truezero.runner import agents, embedded
from truezero.sdk.client import Client, ServiceError
from truezero.sdk.endpoints import UNREACHABLE, OutcomeFacts

NOT_FOUND = 127  # as shells say it
NOT_EXECUTABLE = 126

TRANSIENT = 75  # sysexits.h: try again later
PERMANENT = 76
SUSPECTED = 77
UNDECIDED = 78  # evidence is missing: neither the agent's word nor the provider's fault

_WATCH_S = 0.3
_GRACE_S = 0.5  # between asking a doomed agent to end and ending it
_EMBEDDED_GRACE_S = "2"

_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command, and the rollout it runs under."""

    command: tuple[str, ...]
    batch: str | None = None
    task: str | None = None
    id: str | None = None
    model: str | None = None
    fail_fast: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a command ended.

    ``agent_code`` is its exit status, or minus the signal that ended it; None where it was
    not started. ``doomed``: we stopped it. ``forwarded``: the last signal to end that we
    were sent and passed on.
    """

    agent_code: int | None
    doomed: bool = False
    forwarded: signal.Signals | None = None

    @property
    def shell_code(self) -> int:
        """As a shell would tell it: 128 and the signal's number."""
        code = self.agent_code or 0
        return 128 - code if code < 0 else code


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a job.

    ``skipped`` says why a breaker did not let it start; then there is nothing else.
    """

    rollout_id: str
    agent: str
    ended: ProcessResult
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None

    @property
    def exit_code(self) -> int:
        """The agent's own where its verdict is healthy, or where it never began."""
        if self.verdict is None:
            return PERMANENT
        return _EXIT.get((self.verdict.health, self.verdict.transient), self.ended.shell_code)


_EXIT: Mapping[tuple[str, bool | None], int] = {
    ("api_error", True): TRANSIENT,
    ("api_error", False): PERMANENT,
    ("suspected_api_error", None): SUSPECTED,
    ("undecided", None): UNDECIDED,
}


def run(job: Job, client: Client) -> Report:
    """Run a job on a service.

    Raises:
        ServiceError: the service is not there, or refuses.
    """
    rollout = client.register(id=job.id, batch=job.batch, task=job.task, model=job.model)
    if not rollout.admitted:
        nothing = ProcessResult(agent_code=None)
        return Report(
            rollout_id=rollout.id, agent=job.command[0], ended=nothing, skipped=rollout.error
        )
    with equipped(job.command, rollout, client.url) as equipment:
        ended, seen = _seen(equipment, job, client, rollout.id)
    result, verdict = client.ended(rollout.id, **seen)
    return Report(
        rollout_id=rollout.id, agent=equipment.agent, ended=ended, result=result, verdict=verdict
    )


@contextmanager
def equipped(
    command: Sequence[str], rollout: models.RolloutRegistered, url: str
) -> Iterator[agents.Equipment]:
    """What to start so that a command's calls go through the service; its files are there."""
    with tempfile.TemporaryDirectory(prefix="truezero-agent-") as folder:
        equipment = agents.equip(
            command,
            rollout,
            os.environ,
            service_host=urlsplit(url).hostname or "",
            folder=PurePath(folder),
            exists=lambda path: Path(path).is_file(),
        )
        for path, content in equipment.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(content, encoding="utf-8")
        yield equipment


@contextmanager
def service(
    url: str | None, token: str | None, say: Callable[[str], object] = lambda _line: None
) -> Iterator[Client]:
    """The service at that address, or one of our own where none answers.

    Raises:
        ServiceError: what answers is no truezero service, or one of another version.
        StartError: our own did not start.
    """
    with ExitStack() as opened:
        client = opened.enter_context(Client(url, token))
        if not _answers(client):
            say(f"no service answers at {client.url}: one of its own serves this run")
            own_url, own_token = opened.enter_context(_own_service())
            client = opened.enter_context(Client(own_url, own_token))
        yield client


def _answers(client: Client) -> bool:
    try:
        client.greet()
    except ServiceError as error:
        if error.code != UNREACHABLE:
            raise
        return False
    return True


@contextmanager
def _own_service() -> Iterator[tuple[str, str]]:
    """A service on a free port with a database that is gone afterwards, and its token.

    It has a token so that the agent beside it cannot report on itself.
    """
    token = secrets.token_urlsafe(24)
    settings = {"TRUEZERO_ADMIN_TOKEN": token, "TRUEZERO_GRACE_S": _EMBEDDED_GRACE_S}
    outer = (agents.ROLLOUT, agents.ROLLOUT_KEY)  # of a run that we are inside of
    inherited = {name: value for name, value in os.environ.items() if name not in outer}
    with tempfile.TemporaryDirectory(prefix="truezero-run-") as folder:
        home = Path(folder)
        with embedded.service(home / "run.db", home, settings, inherited=inherited) as url:
            yield url, token


def _seen(
    equipment: agents.Equipment, job: Job, client: Client, rollout_id: str
) -> tuple[ProcessResult, OutcomeFacts]:
    """Start the command and stay until it ends; and what to report of it."""
    try:
        process = _started(equipment)
    except OSError as error:
        return _not_started(job, error)
    with _terminal_for(process.pid):
        ended = _accompanied(process, job, client, rollout_id)
    return ended, _outcome(ended)


def _not_started(job: Job, error: OSError) -> tuple[ProcessResult, OutcomeFacts]:
    missing = isinstance(error, FileNotFoundError)
    why = "no such command" if missing else "cannot be executed"
    told = f"{Path(job.command[0]).name}: {why}"
    ended = ProcessResult(agent_code=NOT_FOUND if missing else NOT_EXECUTABLE)
    return ended, {"status": "setup_failed", "prompts_executed": 0, "error": told}


def _outcome(ended: ProcessResult) -> OutcomeFacts:
    if ended.agent_code == 0:
        return {
            "status": "success",
            "termination_reason": "agent_stop",
            "prompts_executed": 1,
        }
    if ended.doomed:  # the verdict says why
        return {"status": "environment_error", "prompts_executed": 1}
    if ended.forwarded is not None:
        told = f"stopped by {ended.forwarded.name}"
        return {"status": "unknown_execution_error", "prompts_executed": 1, "error": told}
    code = ended.agent_code or 0
    told = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return {"status": "agent_error", "prompts_executed": 1, "error": told}


# --- the process ---------------------------------------------------------------------------


def _started(equipment: agents.Equipment) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(  # noqa: S603  what the user asked for
        equipment.command, env=dict(equipment.environment), process_group=0
    )


@contextmanager
def _terminal_for(group: int) -> Iterator[None]:
    """Lend the terminal, so that the agent can read it and Ctrl-C reaches the agent."""
    ours = os.getpgrp()
    if not _have_terminal(ours):
        yield
        return
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # or taking it back would stop us
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
            os.killpg(group, signal.SIGCONT)  # it may have asked for input before it had it
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


def _accompanied(
    process: subprocess.Popen[bytes], job: Job, client: Client, rollout_id: str
) -> ProcessResult:
    """Wait for the end; pass signals on, and stop what is doomed if that was asked for."""
    over = threading.Event()
    watch = _Watch(process, client, rollout_id, over)
    with _forwarding(process.pid) as forwarded:
        if job.fail_fast:
            watch.start()
        code = process.wait()
        over.set()
    if job.fail_fast:
        watch.join()
    return ProcessResult(
        agent_code=code, doomed=watch.stopped, forwarded=forwarded[-1] if forwarded else None
    )


class _Watch(threading.Thread):
    """Asks again and again whether the rollout is doomed, and then ends its processes."""

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
        """Until the agent has ended, by itself or by us."""
        while not self._over.wait(_WATCH_S):
            if self._doomed():
                self.stopped = True
                _signal(self._process.pid, signal.SIGTERM)
                if not self._over.wait(_GRACE_S):
                    _signal(self._process.pid, signal.SIGKILL)
                return

    def _doomed(self) -> bool:
        try:
            return self._client.verdict(self._rollout_id).doomed
        except ServiceError:
            return False  # the end of the run asks again, and says so


@contextmanager
def _forwarding(group: int) -> Iterator[list[signal.Signals]]:
    """Pass on the signals we get; the list fills with those that ask for an end."""
    asked: list[signal.Signals] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if number in _ENDING:
            asked.append(signal.Signals(number))
        _signal(group, signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


# --- what is told --------------------------------------------------------------------------


def record(report: Report) -> dict[str, Any]:
    """A report for programs."""
    return {
        "rollout_id": report.rollout_id,
        "agent": report.agent,
        "exit_code": report.exit_code,
        "agent_exit_code": report.ended.agent_code,
        "stopped_as_doomed": report.ended.doomed,
        "skipped": report.skipped,
        "result": report.result and report.result.model_dump(),
        "verdict": report.verdict and report.verdict.model_dump(),
    }


def job_of(words: Sequence[str], **facts: Any) -> Job:
    """A job from a command line; the ``--`` before it is no part of it."""
    command = tuple(words[1:] if words[:1] == ["--"] else words)
    return Job(command=command, **facts)


def say(line: str) -> None:
    """A line of ours, beside the agent's: on standard error."""
    sys.stderr.write(f"truezero: {line}\n")
    sys.stderr.flush()
