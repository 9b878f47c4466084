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
    Row,
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

_HEAD = """# What the relay costs

Measured by `make bench`, written by `python -m benchmarks.report`; the numbers with every round are
in [benchmarks.json](benchmarks.json). Take your own: `make peers compiled bench`, which says first
what it lacks; the board alone, in five minutes:
`make bench ARGS='--rounds 2 --seconds 1 --only exchange added chunk counts'`.

![CPU time of an exchange and of a chunk, beside other proxies](benchmarks.svg)
"""

_WARNING = """**Other programs took {percent:.0f} % of the machine's CPU before these were taken: \
ratios hold roughly, times and delays do not.**
"""

_HOW = """## How it was measured

- What is measured runs on one core, with one worker. The provider and the load generator, both
  in C (`benchmarks/tools`), share another and are never what is waited for.
- CPU is the proxy's own time as the kernel counts it (`schedstat`, all threads and children).
  Rounds take turns in random order; what is shown is the median, and comparisons are medians of
  those inside a round. What of it is spent in the kernel is a sample, at the clock's ticks.
- truezero runs as it comes; "compiled" is the copy that `make compiled` makes, whose hot path is
  C. Every call is recorded in SQLite before its last byte, usage and errors are read from every
  answer. The others record nothing: nginx relays unbuffered with connections kept; LiteLLM's
  proxy has no database, no key, no retries and logs errors only; Portkey's gateway is told by
  headers where to go. None has an access log.
- The other gateways have one worker or one thread each, keep their connections, retry nothing
  and check nobody's health; ferrogw, which listens on all addresses, runs in a network namespace
  with a provider of its own.
- LiteLLM runs with its native part off and on (`LITELLM_RUST`).
- Instructions are counted by callgrind, from one process that serves; opcodes and Python calls by
  `python -m benchmarks.counts`. They are the same on a busy machine.
- LiteLLM and Portkey take milliseconds a call and would only queue: they are asked over 8
  connections in place of 32, by 5 streams in place of 100, and at 20 requests/s in place of 200.
  They have rounds of their own with truezero at its full load.
- A chunk is an SSE event of 200 bytes at 100 a second and stream; what idling costs is taken off.
  Of 1,000 streams each has a chunk every 100 ms, of 5,000 and 9,000 one every second, and each
  proxy is started anew for them. Their memory is the peak above that before.
- 5,000 new connections are opened every second, whatever became of those before (4,000 at
  once at most), one request each; afterwards one more request is timed. The most that are served
  in time is looked for in steps of 500/s, 2 s each.
- The hour's exchanges go through the proxy as fast as it takes them, over registered rollouts of
  100 each; memory at the end stands beside that after a tenth. On that database, while 200
  requests/s go on in the same batch, its summary and its page are asked without a pause.
- Verdicts and summaries are computed by the control services in the process, without HTTP
  (`python -m benchmarks.verdicts`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What runs found on one machine."""

    machine: Mapping[str, object]
    rounds: Rounds
    problems: Sequence[str] = ()
    others_percent: float = 0.0
    absent: Mapping[str, str] = field(default_factory=dict)  # who does not run there, and why

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
    )


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
        )
        for each in told
    ]


def page(results: Results, others: Sequence[Results] = ()) -> str:
    """Return the page, in Markdown: a machine's figures, how they were taken, other machines'.

    Of the others it tells goals that were measured and the board; their numbers are in the JSON.
    """
    parts = [_HEAD, _machines([results, *others])]
    parts += [*_figures(results), _numbers(results), *_problems(results), _HOW, _machine(results)]
    for other in others:
        title = f"# On another machine: {other.machine.get('processor')}"
        parts += [title, *_figures(other, whole=False), *_problems(other), _machine(other)]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _figures(results: Results, *, whole: bool = True) -> list[str]:
    told = board(results.rounds, results.absent, results.versions, NAMES, shown, whole=whole)
    left = obstacles(results.rounds, NAMES, shown)
    return [*_warning(results), _goals(results, whole=whole), left, told]


def _problems(results: Results) -> list[str]:
    if not results.problems:
        return []
    return ["## What failed\n\n" + "\n".join(f"- {each}" for each in results.problems)]


# What tells machines apart most, as comparisons inside a round.
_ACROSS = (
    ("exchange.cpu_us", "nginx"), ("large.cpu_us", "nginx"), ("chunk.cpu_us", "nginx"),
    ("first_byte.p50_ms", "direct"),
)  # fmt: skip


def _machines(everywhere: Sequence[Results]) -> str:
    """Return a row for each machine; nothing if there is but one."""
    if len(everywhere) < 2:
        return ""
    rows = {row.key: row for row in ROWS}
    head = [rows[key].label for key, _ in _ACROSS]
    lines = [
        "## On which machines",
        "",
        f"| | {' | '.join(head)} |",
        "|---" * (len(head) + 1) + "|",
    ]
    for results in everywhere:
        for one in OURS:
            cells = [
                _compared(rows[key], peer, _beside(results.rows.get(key), one, peer))
                for key, peer in _ACROSS
            ]
            where = f"{results.machine.get('processor')}, {results.machine.get('python')}"
            name = f"{NAMES.get(one, one)} {results.machine.get('truezero', '')}".rstrip()
            lines.append(f"| {where}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(found: Mapping[str, object] | None, one: str, peer: str) -> float | None:
    if found is None:
        return None
    return value(found, "compared" if one == "truezero" else one, peer)


def _warning(results: Results) -> list[str]:
    if results.others_percent < BUSY_PERCENT:
        return []
    return [_WARNING.format(percent=results.others_percent)]


def _goals(results: Results, *, whole: bool) -> str:
    lines = ["## Goals", "", "| figure | goal | truezero | reached | compiled | reached |"]
    lines.append("|---" * 6 + "|")
    for row in ROWS:
        found = results.rows.get(row.key)
        lines += [_goal(row, goal, found) for goal in row.goals if whole or _measured(goal, found)]
    return "\n".join(lines)


def _measured(goal: Goal, found: Mapping[str, object] | None) -> bool:
    return found is not None and any(told(goal, found, one) is not None for one in OURS)


def _goal(row: Row, goal: Goal, found: Mapping[str, object] | None) -> str:
    if found is None:
        return f"| {row.label} | {goal.said} | {UNKNOWN} | not measured | | |"
    cells = [cell for one in OURS for cell in _reached(row, goal, found, one)]
    return f"| {row.label} | {goal.said} | {' | '.join(cells)} |"


def _reached(row: Row, goal: Goal, found: Mapping[str, object], one: str) -> tuple[str, str]:
    """Return a goal's number and whether it is reached; what is not compiled has neither."""
    number = told(goal, found, one)
    if number is None:
        return ("", "") if one == "compiled" else (UNKNOWN, "not measured")
    measured = _compared(row, goal.peer, number) if goal.peer else shown(number)
    return measured, "yes" if reached(goal, found, one) else "**no**"


def _compared(row: Row, peer: str, number: float | None) -> str:
    """Return a comparison in words: a multiple, a fraction or a difference."""
    name = NAMES.get(peer, peer)
    if number is None:
        return UNKNOWN
    if row.how == "+":
        return f"{'+' if number >= 0 else '−'}{shown(abs(number))} to {name}"
    if 0 < number < 1:
        return f"{shown(1 / number)} times less than {name}"
    return f"{shown(number)} × {name}"


def _numbers(results: Results) -> str:
    head = [NAMES.get(name, name) for name in SUBJECTS]
    lines = ["## All numbers", "", f"| | {' | '.join(head)} | truezero beside them |"]
    lines.append("|---" + "|---:" * len(head) + "|---|")
    rows = results.rows
    lines += [_line(row, rows[row.key]) for row in ROWS if row.key in rows]
    return "\n".join(lines)


def _line(row: Row, found: Mapping[str, object]) -> str:
    cells = [shown(value(found, "medians", name), unknown="") for name in SUBJECTS]
    compared = [(peer, value(found, "compared", peer)) for peer in row.against]
    beside = [_compared(row, peer, number) for peer, number in compared if number is not None]
    return f"| {row.label} | {' | '.join(cells)} | {', '.join(beside)} |"


def shown(number: float | None, unknown: str = UNKNOWN) -> str:
    """Format a number with three significant digits; integers in full."""
    if number is None:
        return unknown
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _machine(results: Results) -> str:
    about = dict(results.machine)
    peers = about.pop("peers", {})
    assert isinstance(peers, Mapping)
    lines = [f"- {name.replace('_', ' ')}: {said}" for name, said in about.items()]
    lines += [f"- {NAMES.get(name, name)}: {version}" for name, version in peers.items()]
    return "## On what\n\n" + "\n".join(lines)


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
