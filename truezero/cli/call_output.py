"""Print the calls of a rollout: those that prove its verdict, and what lies around them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich import markup
from rich.console import Console
from rich.table import Table

from truezero import models
from truezero.printable import plural, visible

WHOLE = 10  # calls up to which none is left out
AROUND = 3  # calls shown before and after one that is evidence
_PROOFS = 10  # calls that are evidence shown: the first and last half of more

_PIPED = 10_000  # columns: what reads a pipe gets whole lines
_COLUMNS = ("call", "status", "ending", "model", "tokens", "seconds", "cause", "")
_DISPENSABLE = ("seconds", "tokens", "model", "ending")  # where the terminal is narrow
_FOLDED = ("cause", "")

Marks = Mapping[str, Sequence[str]]


def make_console(**options: Any) -> Console:
    """Return a console of the terminal's width; of lines that are never cut where it is a pipe."""
    made = Console(**options)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPED
    return made


def print_calls(
    to: Console, calls: Sequence[models.Exchange], marks: Marks, *, everything: bool = False
) -> None:
    """Print calls as a table; columns that a narrow terminal has no place for are left out.

    Arguments:
        marks: what a call is shown for, by its id.
        everything: print every call, not only marked ones and the three on each side.
    """
    if not calls:
        return
    shown = range(len(calls)) if everything else chosen(calls, marks)
    columns = list(_COLUMNS)
    for name in (None, *_DISPENSABLE):
        columns = [each for each in columns if each != name]
        table = _table(calls, shown, marks, columns)
        if to.measure(table, options=to.options.update(width=_PIPED)).maximum <= to.width:
            break
    to.print(table)
    if len(shown) < len(calls):
        to.print(f"[dim]{len(shown)} of {plural(len(calls), 'call')}: --all lists them[/dim]")


def marks_of(verdict: models.Verdict) -> dict[str, list[str]]:
    """Return what each call is shown for, by its id: evidence, and checks with a finding."""
    proof = [] if verdict.health == "undecided" else verdict.evidence
    marks = {call: ["evidence"] for call in proof}
    for found in verdict.validity:
        for call in found.evidence:
            marks.setdefault(call, []).append(found.check)
    return marks


def chosen(calls: Sequence[models.Exchange], marks: Marks) -> Sequence[int]:
    """Return which calls are shown: the marked ones and those around; the last ones without any."""
    if len(calls) <= WHOLE:
        return range(len(calls))
    proofs = [n for n, call in enumerate(calls) if call.id in marks]
    if not proofs:
        return range(len(calls) - WHOLE, len(calls))
    if len(proofs) > _PROOFS:
        proofs = proofs[: _PROOFS // 2] + proofs[-_PROOFS // 2 :]
    near = {n for proof in proofs for n in range(proof - AROUND, proof + AROUND + 1)}
    return sorted(n for n in near if 0 <= n < len(calls))


def _table(
    calls: Sequence[models.Exchange], shown: Sequence[int], marks: Marks, columns: Sequence[str]
) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name not in _FOLDED, overflow="fold")
    after = 0
    for n in [*shown, len(calls)]:
        if n > after:
            row = {"call": "…", "cause": _left_out(calls[after:n])}
            table.add_row(*(row.get(name, "") for name in columns), style="dim")
        if n < len(calls):
            row = _row(calls[n], marks)
            table.add_row(*(row[name] for name in columns))
        after = n + 1
    return table


def _row(call: models.Exchange, marks: Marks) -> dict[str, str]:
    seconds = "–" if call.duration_s is None else f"{call.duration_s:.2f}"
    cells = {
        "call": call.id[-8:],
        "status": str(call.status or "–"),
        "ending": call.ending or "in flight",
        "model": call.model or "–",
        "tokens": f"{_count(call.input_total)} / {_count(call.output_total)}",
        "seconds": seconds,
        "cause": " ".join(filter(None, (call.subcategory, call.error_code))),
        "": ", ".join(marks.get(call.id, ())),
    }
    return {name: markup.escape(visible(text)) for name, text in cells.items()}


def _left_out(calls: Sequence[models.Exchange]) -> str:
    failed = sum(call.subcategory is not None for call in calls)
    count = plural(len(calls), "call")
    return f"{count}, {failed} failed" if failed else count


def _count(count: int | None) -> str:
    return "?" if count is None else str(count)
