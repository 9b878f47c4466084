"""`make corpus`: the 65 faults of agentchaos-sdk at the upstream, and what a verdict notes of each.

Nothing but loopback is called. Without the package's environment it says so and ends well.
``--write`` puts the table into docs/measurements/faults.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.chaos import agent
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from tests.reference_pages import replaced

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "measurements" / "faults.md"
GOAL = 24  # faults that may leave no note
_SEEDS = range(42, 72)  # the package's own first; a fault of chance may need another to fire


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault as it was driven: ``notes`` are what a run without any does not have."""

    name: str
    seed: int
    fired: int
    shown: str
    verdict: str
    notes: tuple[str, ...]

    @property
    def silent(self) -> bool:
        """Whether it struck and nothing says so."""
        return bool(self.fired) and not self.notes and self.verdict == "healthy"


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway that spoils answers, as it runs."""

    url: str
    faults: tuple[str, ...]

    def begin(self, fault: str | None, seed: int = 42) -> int:
        """Begin a fault; how often the one before fired."""
        asked = {"name": fault, "seed": seed}
        with httpx.Client(timeout=60, trust_env=False) as client:
            fired: int = client.post(f"{self.url}/fault", json=asked).json()["fired"]
        return fired


@contextmanager
def gateway(python: Path, model_url: str) -> Iterator[Gateway]:
    """Run the gateway in the environment of the package."""
    command = (str(python), "-I", str(HERE / "gateway.py"), model_url)
    quiet = {**os.environ, "LOGURU_AUTOINIT": "False"}  # it would tell of every call
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield Gateway(f"http://127.0.0.1:{told['port']}", tuple(told["faults"]))
        finally:
            process.terminate()


def driven(python: Path) -> list[Fault]:
    """Drive every fault through a running service, one rollout each."""
    home = tempfile.TemporaryDirectory(prefix="truezero-chaos-")
    with (
        home as folder,
        Provider(agent.answer) as model,
        gateway(python, model.url) as spoiling,
        Service(Path(folder), f"{spoiling.url}/v1") as service,
        httpx.Client(
            timeout=60, trust_env=False, headers={"authorization": "Bearer sk-board"}
        ) as client,
    ):
        well, verdict = _one(service, client, "none")
        usual = set(_notes(verdict))
        return [_strike(service, client, spoiling, name, well, usual) for name in spoiling.faults]


def _strike(
    service: Service,
    client: httpx.Client,
    spoiling: Gateway,
    name: str,
    well: agent.Run,
    usual: set[str],
) -> Fault:
    for seed in _SEEDS:
        spoiling.begin(name, seed)
        run, verdict = _one(service, client, f"{name}-{seed}")
        fired = spoiling.begin(None)
        if fired:
            break
    return Fault(
        name=name,
        seed=seed,
        fired=fired,
        shown=agent.shown(run.choices, well.choices) if fired else "the fault never fires",
        verdict=_health(verdict),
        notes=tuple(note for note in _notes(verdict) if note not in usual),
    )


def _one(service: Service, client: httpx.Client, name: str) -> tuple[agent.Run, dict[str, Any]]:
    run = agent.run(client, service.base(name, "openai"))
    service.outcome(
        name, status="success", termination_reason="agent_stop", prompts_executed=1,
        rewards={"reward": 0.0},
    )  # fmt: skip
    return run, service.verdict(name)


def _health(verdict: dict[str, Any]) -> str:
    why = verdict["subcategory"] or ("" if verdict["health"] == "healthy" else verdict["rule"])
    return f"{verdict['health']} {why}".rstrip()


def _notes(verdict: dict[str, Any]) -> list[str]:
    found = [f"{each['check']} ({each['level']})" for each in verdict["validity"]]
    return [*found, *verdict["warnings"]]


def told(faults: Sequence[Fault]) -> str:
    """Return the figures, and a line for all faults that ended alike, as the page has them."""
    fired = sum(bool(fault.fired) for fault in faults)
    silent = sum(fault.silent for fault in faults)
    alike: dict[str, list[str]] = {}
    for fault in faults:
        notes = ", ".join(fault.notes) or ("**none**" if fault.silent else "–")
        cells = f"| {fault.fired} | {fault.shown} | {fault.verdict} | {notes} |"
        alike.setdefault(cells, []).append(fault.name)
    lines = (
        f"Of {len(faults)} faults {fired} fired; {silent} of them left no note.",
        "",
        "| faults | times | what the wire shows | verdict | notes |",
        "|---|--:|---|---|---|",
        *(f"| {', '.join(names)} {end}" for end, names in alike.items()),
    )
    return "\n".join(lines)


def main() -> int:
    """Print the board; exit code 1 where more faults than the goal leave no note."""
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    options.add_argument("--python", type=Path, default=Path(".venv/agentchaos/bin/python"))
    options.add_argument("--write", action="store_true", help="write the page's table")
    chosen = options.parse_args()
    if not chosen.python.with_name("activate").exists() or not _has_package(chosen.python):
        sys.stdout.write("agentchaos-sdk is not installed here: its faults are not driven\n")
        return 0
    faults = driven(chosen.python)
    sys.stdout.write(f"{told(faults)}\n")
    if chosen.write:
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), "measured", told(faults)), "utf-8")
    return 0 if sum(fault.silent for fault in faults) <= GOAL else 1


def _has_package(python: Path) -> bool:
    asked = (str(python), "-I", "-c", "import agentchaos")
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
