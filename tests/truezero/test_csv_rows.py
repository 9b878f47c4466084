"""Rows as CSV: times that spreadsheets and pandas read, costs without fifteen digits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from truezero.csv_rows import csv_head, csv_lines


def cell(column: str, value: Any) -> str:
    return csv_lines([column], [{column: value}], end="")


@pytest.mark.parametrize("column", ["created_at", "last_seen", "since", "as_of"])
def test_a_time_is_iso_8601_in_utc(column: str) -> None:
    written = cell(column, 1_790_000_001.5)
    assert written == "2026-09-21T14:13:21.500Z"
    assert datetime.fromisoformat(written) == datetime.fromtimestamp(1_790_000_001.5, UTC)
    assert cell(column, 1_790_000_001) == "2026-09-21T14:13:21.000Z", "all have one form"


@pytest.mark.parametrize(
    ("dollars", "written"),
    [
        (0.0, "0"),
        (0.1 + 0.2, "0.3"),
        (0.012345678901234567, "0.0123456789"),
        (2.5e-08, "0.000000025"),
        (1234.5, "1234.5"),
        (1_234_567.891, "1234567.891"),
    ],
)
def test_a_cost_has_ten_digits_and_is_never_shown_as_nothing(dollars: float, written: str) -> None:
    assert cell("cost_usd", dollars) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (["invalid", "unearned"], "invalid unearned"),
        (-0.5, "-0.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        ("=1+1", "'=1+1"),
        ("a,b", '"a,b"'),
    ],
)
def test_what_else_there_is_stays_as_it_was_reported(value: Any, written: str) -> None:
    assert cell("reward", value) == written


def test_what_is_unknown_is_empty() -> None:
    columns = ["task", "created_at", "cost_usd", "reward", "valid"]
    assert csv_lines(columns, [dict.fromkeys(columns)]) == ",,,,\r\n"
    assert csv_head(columns, end="\n") == "task,created_at,cost_usd,reward,valid\n"
