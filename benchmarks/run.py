"""``make bench``: what the relay costs beside nginx and other gateways, as a table and as JSON.

Ratios are taken inside a round and their median told; a single absolute figure proves little.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import machine, peers, subjects
from benchmarks.figures import FIGURES, Bench, Figure, cold_start
from benchmarks.rows import ROWS, SUBJECTS, Numbers, Round, Rounds, summarised, summary, value
from benchmarks.subjects import Stage, Stand, Subject

__all__ = ["Round", "Rounds", "save", "say", "summary"]

HERE = Path(__file__).parent
STANDS: Mapping[str, Stand] = {**subjects.STANDS, **peers.STANDS}
SLOW_ROUNDS = 2  # of those that take seconds for what others do in one


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def build_tools() -> Path:
    """Compile the provider and the load generator where they are older than their source.

    Raises:
        SystemExit: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("make bench needs a C compiler (Debian: apt-get install gcc libc6-dev)")
    folder = HERE / "bin"
    folder.mkdir(exist_ok=True)
    for name in ("provider", "load"):
        source = HERE / "tools" / f"{name}.c"
        command = [compiler, "-O2", "-Wall", "-o", str(folder / name), str(source)]
        subprocess.run(command, check=True)
    return folder


def measure(
    bench: Bench, everyone: Sequence[Subject], direct: Subject, figure: Figure, rounds: int
) -> list[Round]:
    """So many rounds of a figure, subjects in random order within a round."""
    return [
        one_round(bench, figure, everyone, direct, f"round {n + 1} of {rounds}")
        for n in range(rounds)
    ]


def one_round(
    bench: Bench, figure: Figure, everyone: Sequence[Subject], direct: Subject, label: str
) -> Round:
    asked = [*everyone, direct] if figure.direct else [*everyone]
    random.shuffle(asked)
    numbers: Round = {}
    for subject in asked:
        try:
            numbers[subject.name] = _measured(bench, figure, subject)
        except RuntimeError as problem:
            say(f"  {figure.name}, {label}: FAILED: {problem}")
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
    print(f"\n{'':34}" + "".join(f"{name:>10}" for name in SUBJECTS) + "   compared")
    for row in ROWS:
        if found := rows.get(row.key):
            print(f"{row.label:34}{_cells(found)}   {_compared(found)}")
    return rows


def _cells(found: Mapping[str, object]) -> str:
    known = (value(found, "medians", name) for name in SUBJECTS)
    return "".join(f"{'' if v is None else f'{v:,.2f}':>10}" for v in known)


def _compared(found: Mapping[str, object]) -> str:
    compared = found["compared"]
    assert isinstance(compared, Mapping)
    known = [(peer, number) for peer, number in compared.items() if number is not None]
    if found["how"] == "+":
        return ", ".join(f"{number:+.2f} to {peer}" for peer, number in known)
    return ", ".join(f"{number:.3g} × {peer}" for peer, number in known)


@contextlib.contextmanager
def standing(stage: Stage, names: Sequence[str]) -> Iterator[list[Subject]]:
    """Start those that are installed; say which are not."""
    with contextlib.ExitStack() as stack:
        everyone = []
        for name in names:
            try:
                everyone.append(stack.enter_context(STANDS[name](stage)))
            except FileNotFoundError:
                say(f"{name} is not installed: no ratios to it ({peers.HINTS[name]})")
            except RuntimeError as problem:
                say(f"{name} does not start: {problem}")
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
    parser.add_argument("--only", nargs="*", choices=[*FIGURES, "cold_start"])
    parser.add_argument("--without", nargs="*", choices=list(peers.STANDS), default=[])
    parser.add_argument("--python", type=Path, help="interpreter that serves truezero")
    return parser.parse_args()


def main() -> None:
    """Measure, print, save."""
    asked = options()
    wanted = asked.only or [*FIGURES, "cold_start"]
    slow = [name for name in peers.STANDS if name not in asked.without]
    tools = build_tools()
    about = {**machine.description(asked.python), "peers": peers.versions()}
    say(f"on {about}")
    proxy_core, load_core = machine.cores() or (None, None)
    port = machine.free_port()
    with machine.running([tools / "provider", str(port)], core=load_core) as provider:
        machine.wait_for_port(port, provider)
        bench = Bench(
            load=tools / "load",
            stage=Stage(provider_port=port, core=proxy_core, python=asked.python),
            seconds=asked.seconds,
            load_core=load_core,
        )
        rounds: Rounds = {}
        direct = Subject(name="direct", port=port)
        figures = {name: figure for name, figure in FIGURES.items() if name in wanted}
        with standing(bench.stage, list(subjects.STANDS)) as everyone:
            for name, figure in figures.items():
                rounds[name] = measure(bench, everyone, direct, figure, asked.rounds)
        patient = [name for name, figure in figures.items() if figure.slow]
        if slow and patient:
            with standing(bench.stage, ["truezero", *slow]) as everyone:
                for name in patient if len(everyone) > 1 else ():
                    rounds[name] += measure(bench, everyone, direct, FIGURES[name], SLOW_ROUNDS)
        if "cold_start" in wanted:
            say("  cold start")
            rounds["cold_start"] = [{"truezero": cold_start(bench)} for _ in range(asked.rounds)]
    rows = table(rounds)
    say(f"\nwritten to {save({'machine': about, 'figures': rows, 'rounds': rounds})}")


if __name__ == "__main__":
    main()
