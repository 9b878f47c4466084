"""What was measured, as the table of docs/measurements/agents.md.

It measures nothing, and leaves the page's prose as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.agents.measure import ROOT, Measured

PAGE = ROOT / "docs" / "measurements" / "agents.md"
_MARKED = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- /measured -->)", re.DOTALL)
_HEAD = (
    "| agent | fault | what it did | exit | calls | retries | seconds | hidden | verdict |",
    "|---|---|---|--:|--:|--:|--:|---|---|",
)


def table(rows: Sequence[Measured]) -> str:
    """One line each, in their order."""
    return "\n".join((*_HEAD, *(_line(row) for row in rows)))


def _line(row: Measured) -> str:
    cells = (
        f"{row.agent} {row.version}",
        row.fault,
        row.conduct,
        str(row.exit_code),
        str(row.calls),
        "–" if row.retries is None else str(row.retries),
        f"{row.seconds:.1f}",
        {True: "**yes**", False: "no", None: "–"}[row.hidden],
        verdict_of(row),
    )
    return f"| {' | '.join(cells)} |"


def verdict_of(row: Measured) -> str:
    """Health and cause, and what was found of a measurement, the worst first."""
    verdict = row.verdict
    why = verdict.subcategory or ("" if verdict.health == "healthy" else verdict.rule)
    health = f"{verdict.health} {why}".rstrip()
    return " · ".join((health, *(f"{one.check} ({one.level})" for one in verdict.validity)))


def rewritten(page: str, when: str, rows: Sequence[Measured]) -> str:
    """The page with this table in the place of the one before.

    Raises:
        ValueError: the page has no place for it.
    """
    text, places = _MARKED.subn(lambda _: f"{when}\n\n{table(rows)}\n", page)
    if places != 1:
        raise ValueError("the page has no place marked for the table")
    return text
