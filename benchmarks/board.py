"""The board: everybody who relays, one row each, in one run; who could not be run says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rows import BOARD, OURS, Round, Rounds, beside, median_of

_HEAD = """## The board

One run on machine 1, one core each, least CPU first. truezero records every call durably before its
last byte; the others record and log nothing. "Added" is the delay of one call at a time, less that
of the provider asked directly, in µs (onthebench.ai); for a stream, to its first content.
"""
_COLUMNS = (
    "", "version", "µs CPU per exchange", "× nginx", "µs per 100 kB request",
    "µs per chunk", "added p50", "added p99", "added to a stream p99",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    cpu_us: float
    cells: Sequence[float | None]


def board(
    rounds: Rounds,
    absent: Mapping[str, str],
    versions: Mapping[str, str],
    called: Mapping[str, str],
    shown: Callable[[float | None], str],
) -> str:
    """Return the table, in Markdown; empty if no exchange was measured.

    ``absent`` says why one has no figures; ``called`` what a subject is called.
    """
    if not rounds.get("exchange"):
        return ""
    found = {name: _line(rounds, name) for name in (*OURS, *BOARD)}
    there = {name: line for name, line in found.items() if line}
    lines = [_HEAD, f"| {' | '.join(_COLUMNS)} |"]
    lines.append("|---|---" + "|---:" * (len(_COLUMNS) - 2) + "|")
    for name, line in sorted(there.items(), key=lambda each: each[1].cpu_us):
        cells = " | ".join(shown(cell) for cell in line.cells)
        lines.append(f"| {called.get(name, name)} | {versions.get(name, '')} | {cells} |")
    for name in BOARD:
        if name not in there:
            why = absent.get(name, "nobody asked for it in this run")
            empty = " |" * (len(_COLUMNS) - 2)
            lines.append(f"| {called.get(name, name)} | not run: {_in_a_cell(why)} |{empty}")
    return "\n".join(lines)


def _line(rounds: Rounds, name: str) -> _Line | None:
    exchange = rounds["exchange"]
    cpu_us = median_of(exchange, "cpu_us", name)
    if cpu_us is None:
        return None
    added: Sequence[Round] = rounds.get("added", ())
    return _Line(
        cpu_us=cpu_us,
        cells=(
            cpu_us,
            beside(exchange, "cpu_us", name, "nginx"),
            median_of(rounds.get("large", ()), "cpu_us", name),
            median_of(rounds.get("chunk", ()), "cpu_us", name),
            beside(added, "p50_us", name, "direct", "+"),
            beside(added, "p99_us", name, "direct", "+"),
            beside(added, "stream_p99_us", name, "direct", "+"),
        ),
    )


def _in_a_cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
