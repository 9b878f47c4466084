"""Writes docs/measurements/benchmarks.md and its picture from what ``make bench`` measured.

    python -m benchmarks.report [RESULTS.json ...]

Of several files, of one machine, the last one that has a figure tells it; other machines' figures
stay. Without a file the page is written anew from docs/measurements/benchmarks.json. It measures
nothing and knows no number of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.board import board
from benchmarks.obstacles import obstacles
from benchmarks.picture import Panel, picture
from benchmarks.rows import (
    BOARD,
    OURS,
    ROWS,
    SUBJECTS,
    Goal,
    Rounds,
    reached,
    summarised,
    told,
    value,
)

DOCS = Path(__file__).parent.parent / "docs" / "measurements"
DATA, PAGE, PICTURE = (DOCS / f"benchmarks.{kind}" for kind in ("json", "md", "svg"))
UNKNOWN = "–"
BUSY_PERCENT = 10
NAMES = {
    "compiled": "truezero, compiled",
    "litellm": "LiteLLM",
    "litellm-rust": "LiteLLM, native part on",
    "portkey": "Portkey",
    "caddy": "Caddy",
    "traefik": "Traefik",
    "haproxy": "HAProxy",
    "direct": "no proxy",
}

_COMMAND = "`make peers compiled bench`"
_HEAD = """# What the relay costs

All rounds are in [benchmarks.json](benchmarks.json). The board alone, in five minutes:
`make bench ARGS='--rounds 2 --seconds 1 --only exchange added chunk counts'`.

![CPU time of an exchange and of a chunk, beside other proxies](benchmarks.svg)
"""

_WARNING = """**Other programs took {percent:.0f} % of the machine's CPU before these were taken: \
ratios hold roughly, times and delays do not.**
"""

_HOW = """## How it was measured

- The measured proxy has one core and one worker. The provider and the load generator, both in C
  (`benchmarks/tools`), share the other core and are never the bottleneck.
- CPU is the proxy's own time as the kernel counts it (`schedstat`, all threads and children).
  Rounds alternate in random order; figures are medians, comparisons medians of ratios in a round.
- "Compiled" is the copy of `make compiled`. Other proxies keep connections and retry nothing.
- Opcodes and Python calls (`python -m benchmarks.counts`) are the same on a busy machine.
- LiteLLM and Portkey get 8 connections in place of 32, 5 streams in place of 100 and 20 requests/s
  in place of 200.
- A chunk is an SSE event of 200 bytes, 100 a second and stream. Of 1,000 streams each has a chunk
  every 100 ms, of 5,000 and 9,000 one every second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What runs found on one machine."""

    machine: Mapping[str, object]
    rounds: Rounds
    problems: Sequence[str] = ()
    others_percent: float = 0.0
    absent: Mapping[str, str] = field(default_factory=dict)  # who does not run there, and why
    measured: str | None = None  # a date, or the first and the last

    @property
    def where(self) -> tuple[object, ...]:
        """What makes it another machine, or another interpreter, than others."""
        return tuple(self.machine.get(fact) for fact in ("processor", "python", "python_build"))

    @property
    def versions(self) -> Mapping[str, str]:
        versions = self.machine.get("peers", {})
        assert isinstance(versions, Mapping)
        return versions

    @property
    def rows(self) -> dict[str, dict[str, object]]:
        return summarised(self.rounds)


def read(files: Sequence[Path]) -> Results:
    """Return the figures of several files; the last one that has a figure tells it.

    Raises:
        SystemExit: they are of different machines or interpreters, which no table may mix.
    """
    found = [json.loads(file.read_text()) for file in files]
    rounds: Rounds = {}
    for each in found:
        if each["machine"] != found[0]["machine"]:
            raise SystemExit(f"not of one machine: {found[0]['machine']} and {each['machine']}")
        rounds |= each["rounds"]
    return Results(
        machine=found[0]["machine"],
        rounds=rounds,
        problems=[problem for each in found for problem in each.get("problems", ())],
        others_percent=max(each.get("others_percent", 0.0) for each in found),
        absent={name: why for each in found for name, why in each.get("absent", {}).items()},
        measured=_days([each["measured"] for each in found if "measured" in each]),
    )


def _days(measured: Sequence[str]) -> str | None:
    """Return the day, or the first and the last of several; None if none is known."""
    if not measured:
        return None
    first, last = min(measured), max(measured)
    return first if first == last else f"{first} to {last}"


def published(data: Path = DATA) -> list[Results]:
    """Return what the page tells: of the machine that was measured last, and of the others."""
    told = json.loads(data.read_text())["machines"]
    return [
        Results(
            machine=each["machine"],
            rounds=each["rounds"],
            problems=each["problems"],
            others_percent=each["others_percent"],
            absent=each["absent"],
            measured=each.get("measured"),
        )
        for each in told
    ]


def page(results: Results, others: Sequence[Results] = ()) -> str:
    """Return the page, in Markdown: machines compared, goals, the board, and how it was measured.

    The goals say of each machine what was measured there; other machines' boards are in the JSON.
    """
    everywhere = [results, *others]
    left = [obstacles(each.rounds, NAMES, shown, _name(at)) for at, each in enumerate(everywhere)]
    told = board(results.rounds, results.absent, results.versions, NAMES, shown)
    parts = [_HEAD, *_warning(results), _machines(everywhere), _goals(everywhere), *left, told]
    parts += [part for each in everywhere for part in _problems(each)]
    return "\n".join(part.rstrip() + "\n" for part in [*parts, _HOW] if part)


def _problems(results: Results) -> list[str]:
    if not results.problems:
        return []
    return ["## What failed\n\n" + "\n".join(f"- {each}" for each in results.problems)]


def _machines(everywhere: Sequence[Results]) -> str:
    """Return a row for each machine, with the name of its column."""
    rows = [
        f"| {each.measured or 'unknown'} | **{_name(at)}**: {_machine(each)} | {_COMMAND} |"
        for at, each in enumerate(everywhere)
    ]
    return "\n".join(["| measured | machine | command |", "|---|---|---|", *rows])


def _name(at: int) -> str:
    return f"machine {at + 1}"


def _machine(results: Results) -> str:
    """Return what is known of a machine; the versions of other proxies stand on the board."""
    facts = results.machine.items()
    known = [f"{name.replace('_', ' ')} {said}" for name, said in facts if name != "peers"]
    return ", ".join(known) or "unknown"


def _warning(results: Results) -> list[str]:
    if results.others_percent < BUSY_PERCENT:
        return []
    return [_WARNING.format(percent=results.others_percent)]


_GOALS = """## Goals

truezero, and after the slash its compiled copy, in the goal's unit. **Bold**: not reached. –: not \
measured.
"""


def _goals(everywhere: Sequence[Results]) -> str:
    names = [_name(at) for at, _ in enumerate(everywhere)]
    lines = [_GOALS, f"| figure | goal | {' | '.join(names)} |"]
    lines.append("|---|---" + "|---:" * len(names) + "|")
    rows = [each.rows for each in everywhere]
    unmeasured = []
    for row in ROWS:
        for goal in row.goals:
            cells = [_reached(goal, known.get(row.key)) for known in rows]
            if set(cells) == {UNKNOWN}:
                unmeasured.append(f"{row.label} {goal.said}")
            else:
                lines.append(f"| {row.label} | {goal.said} | {' | '.join(cells)} |")
    if unmeasured:
        lines.append(f"\nNot measured anywhere: {'; '.join(unmeasured)}.")
    return "\n".join(lines)


def _reached(goal: Goal, found: Mapping[str, object] | None) -> str:
    """Return the figures of one machine for a goal, bold if they miss it."""
    cells = []
    for one in OURS:
        number = None if found is None else told(goal, found, one)
        if found is None or number is None:
            cells.append(UNKNOWN)
            continue
        said = shown(1 / number if goal.said.startswith("≥") else number)
        cells.append(said if reached(goal, found, one) else f"**{said}**")
    return cells[0] if cells[1] == UNKNOWN else " / ".join(cells)


def shown(number: float | None, unknown: str = UNKNOWN) -> str:
    """Format a number with three significant digits; integers in full."""
    if number is None:
        return unknown
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def drawing(results: Results) -> str:
    """Draw the picture: CPU of each subject, least first."""
    titles = {
        "exchange.cpu_us": "CPU µs per exchange of 1.5 kB (logarithmic)",
        "chunk.cpu_us": "CPU µs per SSE chunk (logarithmic)",
    }
    panels = [Panel(title=said, values=_bars(results, key)) for key, said in titles.items()]
    says = "CPU time that each proxy takes for an exchange and for a chunk; shorter is better"
    return picture(panels, ours="truezero", says=says)


def _bars(results: Results, key: str) -> dict[str, float]:
    found = results.rows.get(key)
    known = {name: value(found, "medians", name) for name in (*SUBJECTS, *BOARD)} if found else {}
    positive = {name: number for name, number in known.items() if number is not None and number > 0}
    least_first = sorted(positive.items(), key=lambda bar: bar[1])
    return {NAMES.get(name, name): number for name, number in least_first}


def write(results: Results) -> None:
    """Write the page, its picture, and the numbers behind both; other machines' are kept."""
    others = [each for each in published() if each.where != results.where]
    data = _rounded({"machines": [_data(each) for each in (results, *others)]})
    DATA.write_text(json.dumps(data, indent=0, ensure_ascii=False) + "\n")  # lines for diffs
    PAGE.write_text(page(results, others))
    PICTURE.write_text(drawing(results))


def _rounded(value: Any) -> Any:
    """Return JSON with six digits of each number, more than any measurement has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _data(results: Results) -> dict[str, object]:
    return {
        "machine": results.machine,
        "measured": results.measured,
        "problems": list(results.problems),
        "others_percent": results.others_percent,
        "absent": dict(results.absent),
        "figures": results.rows,
        "rounds": results.rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("results", type=Path, nargs="*")
    files = parser.parse_args().results
    write(read(files) if files else published()[0])
    sys.stderr.write(f"written to {PAGE}\n")


if __name__ == "__main__":
    main()
