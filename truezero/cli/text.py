"""Text that several commands print: the console, tables, and forms of numbers and times.

rich is loaded when something is printed, not when a command is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from truezero.printable import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from truezero import models

HEALTH_STYLE = {
    "healthy": "green",
    "api_error": "red",
    "suspected_api_error": "yellow",
    "not_judged": "dim",
    "undecided": "magenta",
}

LEVEL_STYLE = {"invalid": "red", "suspect": "yellow", "info": "dim"}

_PIPED = 10_000  # columns: what reads a pipe gets whole lines
_FOLDED_WIDTH = 24  # characters left to a column whose cells are folded
_MORE = "there are more: --limit N shows more of them"


def make_console(**options: Any) -> Console:
    """Return a console of the terminal's width; of lines that are never cut where it is a pipe.

    Digits are not coloured: an id would fall apart in five colours. A name's `:bug:` stays text.
    """
    from rich.console import Console  # noqa: PLC0415

    made = Console(highlight=False, emoji=False, **options)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPED
    return made


def print_columns(
    to: Console,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    *,
    dispensable: Sequence[str],
    foldable: Sequence[str] = (),
) -> None:
    """Print a table whose ids stay whole: where the terminal is narrow, columns are left out.

    Arguments:
        rows: cells by the names of their columns, in rich's markup.
        dispensable: names of columns, in the order in which they go.
        foldable: names of columns whose cells are folded if it is too narrow still.
    """
    from rich.table import Table  # noqa: PLC0415

    def table(of: Sequence[str], empty: Sequence[str] = ()) -> Table:
        made = Table(box=None, header_style="dim", pad_edge=False)
        for column in of:
            whole = column not in foldable
            made.add_column(column, no_wrap=whole, overflow="ignore" if whole else "fold")
        for row in rows:
            made.add_row(*("" if column in empty else row.get(column, "") for column in of))
        return made

    def width(of: Table) -> int:
        return to.measure(of, options=to.options.update(width=_PIPED)).maximum

    left = list(columns)
    for name in dispensable:
        if width(table(left)) <= to.width:
            break
        left = [each for each in left if each != name]
    terminal = to.width
    least = width(table(left, empty=foldable)) + _FOLDED_WIDTH * bool(foldable)
    to.width = max(terminal, least)  # the terminal wraps what is longer
    to.print(table(left), soft_wrap=False)
    to.width = terminal


def print_list(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    dispensable: Sequence[str],
    what: str,
    *,
    more: bool,
    foldable: Sequence[str] = (),
) -> None:
    """Print a table as `print_columns` does, or that there is nothing.

    Arguments:
        what: the plural noun of the rows.
        more: whether there are others, which --limit shows.
    """
    console = make_console()
    if rows:
        print_columns(console, columns, rows, dispensable=dispensable, foldable=foldable)
    else:
        console.print(f"no {what}")
    if more:
        console.print(_MORE)


def escape(text: str) -> str:
    """Return a text from elsewhere as it is shown: no markup, and nothing that moves a cursor."""
    from rich import markup  # noqa: PLC0415

    return markup.escape(visible(text))


def styled(name: str, styles: Mapping[str, str]) -> str:
    """Return a name in its style; without one it is a text from elsewhere."""
    style = styles.get(name)
    return f"[{style}]{name}[/{style}]" if style else escape(name)


def health_word(health: str | None) -> str:
    """Return a health in its colour, and a dash for none."""
    style = HEALTH_STYLE.get(health or "", "dim")
    return f"[{style}]{health or '–'}[/{style}]"


def fact_lines(facts: Mapping[str, str]) -> list[str]:
    """Return names and values as lines that nothing but the terminal itself wraps."""
    width = max(map(len, facts)) + 2
    return [f"[dim]{name.ljust(width)}[/dim]{value}" for name, value in facts.items()]


def running_in(of: models.BatchSummary | models.BatchItem) -> int:
    """Return how many rollouts of a batch have not ended; of an older service those judged."""
    return of.pending if of.running is None else of.running


def wait_words(after_s: float | None) -> str:
    """Say after how many seconds something is to be run again; nothing if it is at once."""
    return "" if after_s is None else f" after {after_s:g} s"


# --- numbers and times ---


def amount(count: int | None) -> str:
    """Return ``1,234``, or a question mark if it is unknown."""
    return "?" if count is None else f"{count:,}"


def number(value: float | None, form: str, unit: str = "") -> str:
    """Return a number with its unit before it, or a dash if it is unknown.

    Arguments:
        form: as of ``format``.
    """
    return "–" if value is None else f"{unit}{value:{form}}"


def score_words(score: float | None) -> str:
    """Return ``0.438``, or ``unknown``."""
    return "unknown" if score is None else f"{score:.3f}"


def interval_words(interval: tuple[float, float] | None) -> str:
    """Return ``0.250 to 0.750``, or a dash if it is unknown."""
    return "–" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def dollars(cost: float | None) -> str | None:
    """Return ``$0.5000``; a cost is never shown as nothing. None if it is unknown."""
    if cost is not None and 0 < cost < 0.00005:
        return "<$0.0001"
    return None if cost is None else f"${cost:,.4f}"


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as ``2026-09-21 14:03:21``, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
