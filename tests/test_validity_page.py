"""The examples of ``docs/concepts/validity.md`` are found as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.judging_pages import verdict_on

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "validity.md"


def tables() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table of the page: its first column's name, and the rows' cells."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        yield f"{head[0]}, {head[1]}", rows


TABLES = dict(tables())


def test_every_example_is_found_as_the_page_says() -> None:
    for calls, finding, _ in TABLES["calls, finding"]:
        verdict = verdict_on(calls.strip("`"))
        found = [f"`{each.check} {each.level.value}`" for each in verdict.validity]
        assert verdict.health.value == "healthy", calls
        assert finding in (found or ["`none`"]), (calls, found)
