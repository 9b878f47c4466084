"""``make bench``: what the relay costs beside nginx and other gateways, as a table and as JSON.

Ratios are taken inside a round and their median told; a single absolute figure proves little.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import gateways, machine, peers, preflight, subjects
from benchmarks.figures import FIGURES, OWN_FIGURES, Figure, models
from benchmarks.load import Bench
from benchmarks.rows import (
    BOARD,
    OURS,
    ROWS,
    SUBJECTS,
    Numbers,
    Round,
    Rounds,
    summarised,
    summary,
    value,
)
from benchmarks.subjects import Stage, Stand, Subject

__all__ = ["Round", "Rounds", "save", "say", "summary"]

HERE = Path(__file__).parent
STANDS: Mapping[str, Stand] = {**subjects.STANDS, **gateways.STANDS, **peers.STANDS}
SLOW_ROUNDS = 2  # of those that take seconds for what others do in one
VERDICTS = 1_000_000  # exchanges in the database of which verdicts are asked
OTHERS = [*gateways.STANDS, *peers.STANDS]
NAMES = [*FIGURES, *OWN_FIGURES, "verdicts"]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def build_tools() -> Path:
    """Compile the provider and the load generator where they are older than their source.

    Raises:
        FileNotFoundError: there is no C compiler.
    """
    compiler = preflight.compiler()
    if compiler is None:
        raise FileNotFoundError("a C compiler")
    folder, common = HERE / "bin", HERE / "tools" / "common.h"
    folder.mkdir(exist_ok=True)
    for name in ("provider", "load"):
        source, made = HERE / "tools" / f"{name}.c", folder / name
        if not made.exists() or made.stat().st_mtime < max(_changed(source), _changed(common)):
            command = [compiler, "-O2", "-Wall", "-o", str(made), str(source)]
            subprocess.run(command, check=True)
    return folder


def _changed(file: Path) -> float:
    return file.stat().st_mtime


@dataclass(slots=True)
class Run:
    """What was measured so far; it is written down after each figure."""

    about: dict[str, object]
    others_percent: float  # of the machine's CPU, taken by other programs before the run
    measured: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")
    rounds: Rounds = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)  # who does not run, and why
    file: Path | None = None

    def keep(self, name: str, rounds: Sequence[Round]) -> None:
        self.rounds.setdefault(name, []).extend(rounds)
        found = {
            "machine": self.about,
            "measured": self.measured,
            "others_percent": self.others_percent,
            "problems": self.problems,
            "absent": self.absent,
            "figures": summarised(self.rounds),
            "rounds": self.rounds,
        }
        self.file = save(found, self.file)

    def fails(self, problem: str) -> None:
        say(f"  FAILED: {problem}")
        self.problems.append(problem)


def measure(
    run: Run, bench: Bench, everyone: Sequence[Subject], figure: Figure, rounds: int
) -> list[Round]:
    """So many rounds of a figure, subjects in random order within a round."""
    direct = Subject(name="direct", port=bench.stage.provider_port)
    asked = [one for one in everyone if figure.board or one.name not in gateways.STANDS]
    asked += [direct] if figure.direct else []
    return [
        one_round(run, bench, asked, figure, f"round {n + 1} of {rounds}") for n in range(rounds)
    ]


def one_round(
    run: Run, bench: Bench, asked: Sequence[Subject], figure: Figure, label: str
) -> Round:
    numbers: Round = {}
    for subject in random.sample(asked, len(asked)):
        try:
            numbers[subject.name] = _measured(bench, figure, subject)
        except RuntimeError as problem:
            run.fails(f"{figure.name}, {label}: {problem}")
            continue
        say(f"  {figure.name}, {label}: {subject.name}: {_listed(numbers[subject.name])}")
    return numbers


def _listed(numbers: Numbers) -> str:
    return ", ".join(f"{k} {v:.2f}" for k, v in numbers.items() if v is not None)


def _measured(bench: Bench, figure: Figure, subject: Subject) -> Numbers:
    if not figure.fresh:
        return figure.measure(bench, subject)
    with STANDS[subject.name](bench.stage) as fresh:
        return figure.measure(bench, fresh)


def table(rounds: Rounds) -> dict[str, dict[str, object]]:
    """Print a row for each number that was measured; return them all."""
    rows = summarised(rounds)
    seen = {name for figure in rounds.values() for each in figure for name in each}
    names = [name for name in dict.fromkeys((*SUBJECTS, *BOARD)) if name in seen]
    print(f"\n{'':38}" + "".join(f"{name:>{_wide(name)}}" for name in names) + "   compared")
    for row in ROWS:
        if found := rows.get(row.key):
            print(f"{row.label:38}{_cells(found, names)}   {_compared(found)}")
    return rows


def _wide(name: str) -> int:
    return max(12, len(name) + 2)


def _cells(found: Mapping[str, object], names: Sequence[str]) -> str:
    known = ((name, value(found, "medians", name)) for name in names)
    return "".join(f"{'' if v is None else f'{v:,.2f}':>{_wide(name)}}" for name, v in known)


def _compared(found: Mapping[str, object]) -> str:
    compared = found["compared"]
    assert isinstance(compared, Mapping)
    known = [(peer, number) for peer, number in compared.items() if number is not None]
    if found["how"] == "+":
        return ", ".join(f"{number:+.2f} to {peer}" for peer, number in known)
    return ", ".join(f"{number:.3g} × {peer}" for peer, number in known)


@contextlib.contextmanager
def standing(run: Run, stage: Stage, names: Sequence[str]) -> Iterator[list[Subject]]:
    """Start those that run here; say, and keep, why another does not."""
    with contextlib.ExitStack() as stack:
        everyone = []
        for name in names:
            try:
                everyone.append(stack.enter_context(STANDS[name](stage)))
            except FileNotFoundError:
                run.absent[name] = f"not installed ({peers.HINTS.get(name, 'make peers')})"
            except RuntimeError as problem:
                run.absent[name] = f"does not start: {' '.join(str(problem).split())[-200:]}"
            if name in run.absent:
                say(f"no figures of {name}: {run.absent[name]}")
        yield everyone


def save(found: Mapping[str, object], file: Path | None = None) -> Path:
    """Write what was found, to a file named by the time if to no other."""
    if file is None:
        folder = HERE / "results"
        folder.mkdir(exist_ok=True)
        file = folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return file


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of load, each round")
    parser.add_argument("--exchanges", type=int, default=1_000_000, help="of the hour")
    parser.add_argument(
        "--verdicts", type=int, nargs="*", default=[VERDICTS], help="exchanges in their databases"
    )
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--without", nargs="*", choices=["compiled", "nginx", *OTHERS], default=[])
    parser.add_argument("--python", type=Path, help="interpreter that serves truezero")
    return parser.parse_args()


def main() -> None:
    """Measure, print, save."""
    asked = options()
    machine.raise_open_files()
    quick = [name for name in (*subjects.STANDS, *gateways.STANDS) if name not in asked.without]
    slow = [name for name in peers.STANDS if name not in asked.without]
    loaded = any(name in FIGURES for name in asked.only)
    preflight.check([*quick, *slow] if loaded else [], say)
    tools = build_tools()
    about = {**machine.description(asked.python), "peers": peers.versions()}
    run = Run(about=about, others_percent=machine.busy_percent())
    say(f"on {run.about}, of which others take {run.others_percent:.0f} %")
    proxy_core, load_core = machine.cores() or (None, None)
    machine.keep_to(load_core)
    port = machine.free_port()
    with machine.running([tools / "provider", str(port)], core=load_core) as provider:
        machine.wait_for_port(port, provider)
        bench = Bench(
            load=tools / "load",
            stage=Stage(
                provider_port=port,
                core=proxy_core,
                load_core=load_core,
                tools=tools,
                models=models(asked.seconds),
                python=asked.python,
            ),
            seconds=asked.seconds,
            load_core=load_core,
            exchanges=asked.exchanges,
        )
        beside_nginx(run, bench, asked.only, asked.rounds, quick)
        beside_the_slow(run, bench, asked.only, slow, [one for one in OURS if one in quick])
        alone(run, bench, asked.only, asked.rounds)
        if "verdicts" in asked.only:
            verdicts(run, bench.stage, asked.verdicts)
    table(run.rounds)
    say(f"\nwritten to {run.file}; for docs: python -m benchmarks.report {run.file}")


def beside_nginx(
    run: Run, bench: Bench, names: Sequence[str], rounds: int, fast: Sequence[str]
) -> None:
    figures = {name: figure for name, figure in FIGURES.items() if name in names}
    with standing(run, bench.stage, fast if figures else []) as everyone:
        for name, figure in figures.items():
            run.keep(
                name, measure(run, bench, everyone, figure, min(rounds, figure.rounds or rounds))
            )


def beside_the_slow(
    run: Run, bench: Bench, names: Sequence[str], slow: Sequence[str], own: Sequence[str]
) -> None:
    """LiteLLM and Portkey in rounds of their own, so that they disturb none of the others."""
    figures = {name: figure for name, figure in FIGURES.items() if name in names and figure.slow}
    with (
        standing(run, bench.stage, slow if figures else []) as there,
        standing(run, bench.stage, own if there else []) as ours,
    ):
        for name, figure in figures.items() if ours else ():
            run.keep(name, measure(run, bench, [*ours, *there], figure, SLOW_ROUNDS))


def alone(run: Run, bench: Bench, names: Sequence[str], rounds: int) -> None:
    for name, figure in OWN_FIGURES.items():
        for n in range(min(rounds, figure.rounds or rounds) if name in names else 0):
            try:
                found = figure.measure(bench)
            except RuntimeError as problem:
                run.fails(f"{figure.name}: {problem}")
                continue
            for one, numbers in found.items():
                say(f"  {figure.name}, round {n + 1}: {one}: {_listed(numbers)}")
            run.keep(name, [found])


def verdicts(run: Run, stage: Stage, sizes: Sequence[int]) -> None:
    """Measure verdicts and summaries in a separate process (`benchmarks.verdicts`)."""
    asked = f"asyncio.run(measure({[*sizes]}, 10_000))"
    code = f"import asyncio, json; from benchmarks.verdicts import measure; json.dump({asked}, out)"
    command = [str(stage.python or sys.executable), "-c", f"import sys; out = sys.stdout; {code}"]
    env = subjects.clean_env() | {"PYTHONPATH": subjects.python_path(stage.python)}
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout
    for name, rounds in json.loads(said).items():
        run.keep(name, rounds)


if __name__ == "__main__":
    main()
