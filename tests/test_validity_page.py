"""``docs/concepts/validity.md`` matches the checks and what judging finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from classifier.validity import CHECKS
from tests.test_docs import verdict_on

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "validity.md"


def tables() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table of the page: its first column's name, and the rows' cells."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        yield f"{head[0]}, {head[1]}", rows


TABLES = dict(tables())


def test_the_page_lists_every_check_and_whether_agents_can_cause_it() -> None:
    listed = [(row[0], row[-1]) for row in TABLES["check, finds"]]
    can = {True: "yes", False: "no"}
    assert listed == [(f"`{check.name}`", can[check.agent_can_cause]) for check in CHECKS]


def test_every_check_says_what_it_covers() -> None:
    rows = TABLES["check, a call is covered where"]
    covered = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(covered) == sorted(check.name for check in CHECKS)


def test_every_example_is_found_as_the_page_says() -> None:
    for calls, finding, _ in TABLES["calls, finding"]:
        verdict = verdict_on(calls.strip("`"))
        found = [f"`{each.check} {each.level.value}`" for each in verdict.validity]
        assert verdict.health.value == "healthy", calls
        assert finding in (found or ["`none`"]), (calls, found)
