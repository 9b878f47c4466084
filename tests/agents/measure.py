"""One agent, run once by `truezero run` or `truezero drill`, and what it did.

It gives the agent nothing of its own user's: no key, no account, no proxy, no home.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agents.programs import Program
from tests.fakes.answers import TEXT
from truezero import models
from truezero.runner.drills import DRILLS

ROOT = Path(__file__).parent.parent.parent
INSTALLED = ROOT / ".agents"

WELL = "none"
FAULTS = tuple(DRILLS)
ANSWERED = ("truncate_prompt", "cut_output", "swap_model", "abort", "slow")  # and not failed
_END_S = 15.0  # for a run that was told to end: the agent's grace and the service's
_SERVICE_S = 60.0  # for starting a service beside the agent, and ending it


class MeasureError(Exception):
    """What truezero said instead of a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one agent did under one failure, or under none.

    ``retries`` and ``hidden`` are None where nothing failed; ``exit_code`` is minus the
    signal's number where a signal ended it. ``seconds`` are the agent's own; of a run
    without a failure truezero's own start is among them.
    """

    agent: str
    version: str
    fault: str
    conduct: str
    exit_code: int
    calls: int
    retries: int | None
    seconds: float
    hidden: bool | None
    verdict: models.Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run: which agent, what is to fail, and where it happens."""

    program: Program
    fault: str
    timeout_s: float
    work: Path
    environment: Mapping[str, str]
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What truezero said on both its outputs, and whether it had to be stopped."""

    out: str
    err: str
    stopped: bool
    seconds: float


def version(program: Program, installed: Path = INSTALLED) -> str:
    """The version that is installed."""
    package = installed / "node_modules" / program.package / "package.json"
    return str(json.loads(package.read_text("utf-8"))["version"])


def measured(
    program: Program, fault: str, timeout_s: float, upstream: str, installed: Path = INSTALLED
) -> Measured:
    """Run one agent once, in a home of its own.

    Arguments:
        installed: the folder that npm installed it in.

    Raises:
        MeasureError: truezero said something other than a result.
    """
    with tempfile.TemporaryDirectory(prefix="agents-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        work = _settled(home, program)
        environment = _environment(program, home, upstream, installed)
        measure = _well if fault == WELL else _failing
        return measure(
            _Run(
                program=program,
                fault=fault,
                timeout_s=timeout_s,
                work=work,
                environment=environment,
                version=version(program, installed),
            )
        )


def _settled(home: Path, program: Program) -> Path:
    """Put the agent's settings into its home; the folder it works in."""
    work = home / "work"
    work.mkdir()
    for name, text in program.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return work


def _environment(program: Program, home: Path, upstream: str, installed: Path) -> dict[str, str]:
    """Nothing of ours but the path: no key, no proxy, no account."""
    upstreams = {
        f"TRUEZERO_UPSTREAM_{name}": upstream for name in ("OPENAI", "ANTHROPIC", "GEMINI")
    }
    return {
        "PATH": f"{installed / 'node_modules' / '.bin'}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "DO_NOT_TRACK": "1",
        **upstreams,
        **program.variables,
    }


def _well(run: _Run) -> Measured:
    """`truezero run`, with a provider that answers."""
    said = _truezero(run, ("run", "--json"), run.timeout_s)
    told = _object(said.err.strip().rpartition("\n")[2], said)
    verdict = models.Verdict.model_validate(told["verdict"])
    answered = told["agent_exit_code"] == 0 and "".join(TEXT) in said.out
    return Measured(
        agent=run.program.name,
        version=run.version,
        fault=run.fault,
        conduct=_conduct(stopped=said.stopped, answered=answered),
        exit_code=told["agent_exit_code"],
        calls=verdict.total_requests,
        retries=None,
        seconds=said.seconds,
        hidden=None,
        verdict=verdict,
    )


def _conduct(*, stopped: bool, answered: bool) -> str:
    if stopped:
        return "kept running until stopped"
    return "answered" if answered else "gave no answer"


def _failing(run: _Run) -> Measured:
    """`truezero drill`, which fails every call of the agent, or spoils every one that matters."""
    asked = ["drill", "--json", "--fault", run.fault, "--timeout", str(run.timeout_s)]
    if run.fault in ANSWERED:
        asked += ["--at-call", str(run.program.main_call)]
    said = _truezero(run, asked, run.timeout_s + _SERVICE_S)
    (told,) = _object(said.out, said)
    return Measured(
        agent=run.program.name,
        version=run.version,
        fault=run.fault,
        conduct=told["conduct"],
        exit_code=told["exit_code"],
        calls=told["calls"],
        retries=told["retries"],
        seconds=told["seconds"],
        hidden=told["hidden"],
        verdict=models.Verdict.model_validate(told["verdict"]),
    )


def _truezero(run: _Run, asked: Sequence[str], timeout_s: float) -> _Said:
    """Run our command line around the agent's; one that takes longer is told to end."""
    model = ("--model", run.program.model) if run.program.model else ()
    command = (sys.executable, "-m", "truezero", *asked, *model, "--", *run.program.command)
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=run.work,
        env=dict(run.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            (out, err), stopped = process.communicate(timeout=timeout_s), False
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            (out, err), stopped = _ended(process), True
    return _Said(out=out, err=err, stopped=stopped, seconds=time.monotonic() - began)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def _object(text: str, said: _Said) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise MeasureError(said.err.strip() or "truezero said nothing") from None
