"""``make bench``: what the relay costs beside nginx, as a table and as JSON.

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
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import machine, subjects
from benchmarks.figures import FIGURES, Bench, Figure, Numbers, cold_start
from benchmarks.subjects import Subject

HERE = Path(__file__).parent
Round = dict[str, Numbers]  # subject → numbers
Rounds = dict[str, list[Round]]  # figure → rounds

# What the table shows: figure, number, its unit, what it is compared with and how.
ROWS = (
    ("exchange", "cpu_us", "µs CPU per 1.5 kB exchange", "nginx", "×"),
    ("exchange", "per_s", "exchanges/s on one core", "nginx", "×"),
    ("large", "cpu_us", "µs CPU per 100 kB request", "nginx", "×"),
    ("chunk", "cpu_us", "µs CPU per SSE chunk", "nginx", "×"),
    ("first_byte", "p50_ms", "ms to first byte p50", "direct", "+"),
    ("first_byte", "p99_ms", "ms to first byte p99", "direct", "+"),
    ("streams", "at_once", "streams at once, none failed", "", ""),
    ("streams", "mb_per_1000", "MB per 1,000 streams", "nginx", "×"),
    ("streams", "chunk_p99_ms", "ms chunk delay p99", "nginx", "×"),
    ("cold_start", "s", "s from start to first byte", "", ""),
)


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
    bench: Bench, everyone: Sequence[Subject], direct: Subject, names: Iterable[str], rounds: int
) -> Rounds:
    """Each figure, so many rounds, subjects in random order within a round."""
    return {
        name: [
            one_round(bench, FIGURES[name], everyone, direct, f"round {n + 1} of {rounds}")
            for n in range(rounds)
        ]
        for name in names
    }


def one_round(
    bench: Bench, figure: Figure, everyone: Sequence[Subject], direct: Subject, label: str
) -> Round:
    asked = [*everyone, direct] if figure.direct else [*everyone]
    random.shuffle(asked)
    numbers: Round = {}
    for subject in asked:
        numbers[subject.name] = _measured(bench, figure, subject)
        shown = ", ".join(f"{k} {v:.2f}" for k, v in numbers[subject.name].items() if v is not None)
        say(f"  {figure.name}, {label}: {subject.name}: {shown}")
    return numbers


def _measured(bench: Bench, figure: Figure, subject: Subject) -> Numbers:
    if not figure.fresh:
        return figure.measure(bench, subject)
    with subjects.STANDS[subject.name](bench.provider_port, bench.proxy_core) as fresh:
        return figure.measure(bench, fresh)


def summary(rounds: Sequence[Round], number: str, against: str, how: str) -> dict[str, object]:
    """Medians of one number for each subject, and of its comparison inside the rounds."""
    names = rounds[0]
    medians = {name: _median(r[name].get(number) for r in rounds) for name in names}
    compared = None
    if against in names and "truezero" in names:
        pairs = [(r["truezero"].get(number), r[against].get(number)) for r in rounds]
        compared = _median(_compare(ours, theirs, how) for ours, theirs in pairs)
    return {"medians": medians, "against": against, "how": how, "compared": compared}


def _compare(ours: float | None, theirs: float | None, how: str) -> float | None:
    if ours is None or theirs is None or (how == "×" and theirs <= 0):
        return None
    return ours / theirs if how == "×" else ours - theirs


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def table(rounds: Rounds) -> dict[str, dict[str, object]]:
    """Print a row for each number that was measured; return them all."""
    print(f"\n{'':34}{'truezero':>10}{'nginx':>10}{'direct':>10}   compared")
    rows = {}
    for figure, number, label, against, how in ROWS:
        if not rounds.get(figure):
            continue
        row = rows[f"{figure}.{number}"] = summary(rounds[figure], number, against, how)
        print(f"{label:34}{_cells(row['medians'])}   {_compared(row)}")
    return rows


def _cells(medians: object) -> str:
    assert isinstance(medians, dict)
    known = (medians.get(name) for name in ("truezero", "nginx", "direct"))
    return "".join(f"{'' if v is None else f'{v:,.2f}':>10}" for v in known)


def _compared(row: dict[str, object]) -> str:
    value = row["compared"]
    if not isinstance(value, float):
        return ""
    return f"{value:.2f} × {row['against']}" if row["how"] == "×" else f"{value:+.2f} ms"


def stand_up(stack: contextlib.ExitStack, provider_port: int, core: int | None) -> list[Subject]:
    """Start truezero, and nginx where the machine has it."""
    everyone = []
    for name, stand in subjects.STANDS.items():
        try:
            everyone.append(stack.enter_context(stand(provider_port, core)))
        except FileNotFoundError:
            say(f"{name} is not installed: no ratios (Debian: apt-get install {name})")
    return everyone


def save(found: dict[str, object]) -> Path:
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
    return parser.parse_args()


def main() -> None:
    """Measure, print, save."""
    asked = options()
    wanted = asked.only or [*FIGURES, "cold_start"]
    tools = build_tools()
    proxy_core, load_core = machine.cores() or (None, None)
    about = machine.description()
    say(f"on {about}")
    port = machine.free_port()
    with contextlib.ExitStack() as stack:
        provider = machine.running([tools / "provider", str(port)], core=load_core)
        machine.wait_for_port(port, stack.enter_context(provider))
        bench = Bench(
            load=tools / "load",
            provider_port=port,
            seconds=asked.seconds,
            proxy_core=proxy_core,
            load_core=load_core,
        )
        rounds: Rounds = {}
        if "cold_start" in wanted:
            say("  cold start")
            rounds["cold_start"] = [{"truezero": cold_start(bench)} for _ in range(asked.rounds)]
        everyone = stand_up(stack, port, proxy_core)
        direct = Subject(name="direct", port=port)
        names = [name for name in FIGURES if name in wanted]
        rounds |= measure(bench, everyone, direct, names, asked.rounds)
    rows = table(rounds)
    say(f"\nwritten to {save({'machine': about, 'figures': rows, 'rounds': rounds})}")


if __name__ == "__main__":
    main()
