"""Let an agent ask a provider through `truezero run`, and print its facts as JSON.

``python -m tests.wires.agents AGENT FOLDER DAY`` runs where only loopback can be reached.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.agents.__main__ import TIMEOUT_S, namespace, seal
from tests.agents.measure import WELL, measured
from tests.agents.programs import PROGRAMS, Program
from tests.agents.provider import obliging
from tests.fakes.provider import Provider, Request
from tests.wires.recorder import noted
from tests.wires.recording import RecordingError

WATCHED = tuple(p for p in PROGRAMS if p.name in ("Claude Code", "Codex", "Gemini CLI"))


def recorded(program: Program, folder: Path, day: str) -> dict[str, Any]:
    """Return the facts of an agent that is installed in a folder.

    Raises:
        SkipError: there is no network namespace here.
        RecordingError: the agent came to nothing.
    """
    inside = (sys.executable, "-m", "tests.wires.agents", program.name, str(folder), day)
    run = subprocess.run((*namespace(), *inside), capture_output=True, text=True, check=False)
    if run.returncode:
        said = run.stderr.strip() or f"exit code {run.returncode}"
        raise RecordingError(f"{program.name} cannot be asked: {said.splitlines()[-1]}")
    facts: dict[str, Any] = json.loads(run.stdout)
    return facts


def record(program: Program, folder: Path, day: str) -> dict[str, Any]:
    """Return one agent's facts, as its provider sees it."""
    with Provider(obliging) as provider:
        run = measured(program, WELL, TIMEOUT_S, provider.url, folder)
        requests = list(provider.requests)
    if run.conduct != "answered":
        raise RecordingError(f"{program.name} {run.version} {run.conduct}")
    return facts(program.name, run.version, requests, day)


def facts(name: str, version: str, requests: Sequence[Request], day: str) -> dict[str, Any]:
    """Return the facts in an agent's requests, by request line."""
    by_line: dict[str, dict[str, list[str]]] = {}
    for request in requests:
        [one] = noted([request]).values()
        kept = by_line.setdefault(one["asks"][0], {"asks": one["asks"], "headers": [], "body": []})
        for key in ("headers", "body"):
            kept[key] = sorted({*kept[key], *one[key]})
    common = set.intersection(*(set(one["headers"]) for one in by_line.values()))
    for one in by_line.values():
        one["headers"] = [each for each in one["headers"] if each not in common]
    return {
        "name": name, "version": version, "seen": day, "headers": sorted(common),
        "ways": dict(sorted(by_line.items())),
    }  # fmt: skip


if __name__ == "__main__":
    seal()
    name, where, today = sys.argv[1:]
    [wanted] = [each for each in WATCHED if each.name == name]
    json.dump(record(wanted, Path(where), today), sys.stdout)
