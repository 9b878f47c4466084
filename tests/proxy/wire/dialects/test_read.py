"""What a dialect reads of payloads, one after another: the rows of ``read.jsonl``.

A row names the dialect by module and constant, the payloads (as ``[event, payload]``: an event's
name stands beside it, or null), all facts that something is known of, and the totals.

``UPDATE_GOLDEN=1 pytest tests/proxy/wire/dialects/test_read.py`` rewrites what is read.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from proxy.wire.dialect import Dialect, ResponseFacts
from tests import golden, tables
from tests.tables import each

FILE = Path(__file__).with_name("read.jsonl")
ROWS = tables.lines(FILE)
NAMES = tuple(ResponseFacts.__annotations__)

Row = dict[str, Any]


def read(row: Row) -> Row:
    module, _, constant = row["dialect"].partition(".")
    dialect: Dialect = getattr(import_module(f"proxy.wire.dialects.{module}"), constant)
    reading, nothing = ResponseFacts(), ResponseFacts()
    for event, payload in row["payloads"]:
        dialect.read(reading, payload, event)
    facts = {name: getattr(reading, name) for name in NAMES}
    known = {name: value for name, value in facts.items() if value != getattr(nothing, name)}
    return {
        "facts": {
            name: sorted(map(str, value)) if isinstance(value, set | frozenset) else value
            for name, value in known.items()
        },
        "totals": list(dialect.totals(reading)),
    }


def named(row: Row) -> str:
    return f"{row['fact']} ({row['dialect']})"


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites what is read")
def test_what_is_read_is_rewritten() -> None:
    rows = [row | read(row) for row in ROWS]
    tables.write_lines(FILE, rows)


@each("row", ROWS, ids=named)
def test_a_dialect_reads_what_the_row_says(row: Row) -> None:
    assert read(row) == {name: row[name] for name in ("facts", "totals")}
