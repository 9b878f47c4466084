"""`truezero run`: run an agent's command under a rollout and report whether its model was reached.

The agent's input and output are passed through unread.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truezero import models
from truezero.printable import visible
from truezero.runner import endings
from truezero.runner.equipment import Equipment, equipped
from truezero.runner.process import (
    ProcessResult,
    accompanied,
    not_started,
    started,
    terminal_for,
)
from truezero.runner.report import Report
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.client import Client
from truezero.sdk.errors import Undelivered
from truezero.sdk.outcomes import log as outcomes_log
from truezero.sdk.outcomes import outcomes_left


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command and the attributes of its rollout."""

    command: tuple[str, ...]
    batch: str | None = None
    task: str | None = None
    id: str | None = None
    repeat: int | None = None
    repeats: int | None = None
    attempt: int | None = None
    model: str | None = None
    fail_fast: bool = False


def run(job: Job, client: Client, say: Callable[[str], object] = lambda _line: None) -> Report:
    """Run a job under a new rollout of a service.

    Arguments:
        say: is told before the start why the agent's calls would not come, and at the end that
            the service is waited for.

    Raises:
        ServiceError: the service is unreachable or rejects a request.
    """
    facts: OutcomeFacts = {
        "batch": job.batch, "task": job.task, "repeat": job.repeat, "attempt": job.attempt,
        "model": job.model,
    }  # fmt: skip
    rollout = client.register(
        id=job.id, batch=job.batch, task=job.task, repeat=job.repeat, repeats=job.repeats,
        attempt=job.attempt, model=job.model,
    )  # fmt: skip
    if not rollout.admitted:
        return Report(
            rollout_id=rollout.id,
            agent=job.command[0],
            ended=ProcessResult(agent_code=None),
            skipped=rollout.error,
        )
    with equipped(job.command, rollout, client.url) as equipment:
        for reason in equipment.bypasses:
            say(f"{equipment.agent} may go past the proxy: {reason}")
        ended, outcome = _run_command(equipment, job, client, rollout.id)
    # What it was registered with, for a service that no longer knows it.
    named: OutcomeFacts = {**facts, **outcome}
    try:
        with _said_by_sdk(say):
            result, verdict = client.ended(rollout.id, **named)
    except Undelivered as error:
        outcomes_left()  # the report says it
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
    )


class _Saying(logging.Handler):
    """Says what is logged."""

    say: Callable[[str], object]

    def emit(self, record: logging.LogRecord) -> None:
        self.say(record.getMessage())


@contextmanager
def _said_by_sdk(say: Callable[[str], object]) -> Iterator[None]:
    """Say what the SDK logs of a service that is away."""
    handler = _Saying()
    handler.say = say
    outcomes_log.addHandler(handler)
    try:
        yield
    finally:
        outcomes_log.removeHandler(handler)


def _no_call(equipment: Equipment, outcome: OutcomeFacts, verdict: models.Verdict) -> str | None:
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
    equipment: Equipment, job: Job, client: Client, rollout_id: str
) -> tuple[ProcessResult, OutcomeFacts]:
    """Run the command to its end; return how it ended and what to report."""
    said = endings.noted(equipment.trajectory)
    try:
        process = started(equipment)
    except OSError as error:
        return _failed_start(job, error)
    with terminal_for(process.pid):
        ended = accompanied(process, client, rollout_id, fail_fast=job.fail_fast)
    return ended, _outcome(ended, said)


_STOPPED: OutcomeFacts = {"status": "success", "termination_reason": "agent_stop"}


def _failed_start(job: Job, error: OSError) -> tuple[ProcessResult, OutcomeFacts]:
    code, why = not_started(error)
    error_text = f"{Path(job.command[0]).name}: {why}"
    outcome: OutcomeFacts = {"status": "setup_failed", "prompts_executed": 0, "error": error_text}
    return ProcessResult(agent_code=code), outcome


def _outcome(ended: ProcessResult, said: Callable[[], OutcomeFacts | None]) -> OutcomeFacts:
    if ended.agent_code == 0:
        return {"prompts_executed": 1, **(said() or _STOPPED)}
    if ended.doomed:  # the verdict says why
        return {"status": "environment_error", "prompts_executed": 1}
    if ended.forwarded is not None:
        error = f"stopped by {ended.forwarded.name}"
        return {"status": "unknown_execution_error", "prompts_executed": 1, "error": error}
    code = ended.agent_code or 0
    error = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return {"status": "agent_error", "prompts_executed": 1, "error": error}


def job_of(words: Sequence[str], **facts: Any) -> Job:
    """Return a job for a command line, without its leading ``--``."""
    command = tuple(words[1:] if words[:1] == ["--"] else words)
    return Job(command=command, **facts)


def say(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"truezero: {visible(line)}\n")
    sys.stderr.flush()
