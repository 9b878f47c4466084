"""Rows as CSV, as the service's files and commands write them.

Times are ISO 8601 in UTC, costs have ten digits, unknown is empty, and no text begins a formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

_TIMES: Final = ("_at", "_seen", "since", "as_of")  # ends of the names of columns that hold times
_COSTS: Final = ("cost_usd",)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")  # begins of formulas in spreadsheets


def csv_head(columns: Sequence[str], *, end: str = "\r\n") -> str:
    """Return the line of names, which `csv_lines` follows.

    Arguments:
        end: of each line; by default that of RFC 4180.
    """
    return _text([columns], end)


def csv_lines(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, end: str = "\r\n"
) -> str:
    """Return a line for each row, with the values under the names of the columns.

    Arguments:
        rows: times in seconds since the epoch, costs in US dollars; a list is joined by blanks.
        end: as for `csv_head`.
    """
    named = [(name, _cell_of(name)) for name in columns]
    return _text(([cell(row[name]) for name, cell in named] for row in rows), end)


def _text(table: Iterable[Sequence[Any]], end: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(table)
    return text.getvalue()


def _cell_of(column: str) -> Callable[[Any], Any]:
    """Return what makes a cell of a column's value."""
    if column.endswith(_TIMES):
        return _time
    return _cost if column.endswith(_COSTS) else _cell


def _time(seconds: float | None) -> str | None:
    """Return a time as ``2026-09-21T14:03:21.500Z``."""
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _cost(dollars: float | None) -> str | None:
    """Return ten significant digits, without an exponent: no cost is shown as nothing."""
    return None if dollars is None else f"{Decimal(f'{dollars:.10g}'):f}"


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
