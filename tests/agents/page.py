"""What was measured, as the table of docs/measurements/agents.md.

It measures nothing, and leaves the page's prose as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.agents.measure import ROOT, Measured

PAGE = ROOT / "docs" / "measurements" / "agents.md"
_SHORT = {
    "kept running until stopped": "stopped",
    "reported it": "reported",
    "hid the failure": "hidden",
    "took it for good": "accepted",
    "waited for it": "waited",
    "did not reach the failing call": "unreached",
}


def table(rows: Sequence[Measured]) -> str:
    """Return one line for each fault and one column for each agent, in the order of ``rows``."""
    agents = list(dict.fromkeys(_agent(row) for row in rows))
    faults = list(dict.fromkeys(row.fault for row in rows))
    lines = [("fault", *agents, "verdict"), ("---",) * (len(agents) + 2)]
    lines += [_line(fault, agents, [row for row in rows if row.fault == fault]) for fault in faults]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---")


def _agent(row: Measured) -> str:
    return f"{row.agent} {row.version}"


def _line(fault: str, agents: Sequence[str], rows: Sequence[Measured]) -> tuple[str, ...]:
    cells = {_agent(row): _cell(row) for row in rows}
    verdicts = dict.fromkeys(part for row in rows for part in verdict_of(row))
    return (fault, *(cells.get(agent, "–") for agent in agents), " · ".join(verdicts))


def _cell(row: Measured) -> str:
    """Return how the run ended and, in brackets, its calls; the page's prose explains the words."""
    conduct = _SHORT.get(row.conduct, row.conduct)
    return f"{f'**{conduct}**' if row.hidden else conduct} ({row.calls})"


def verdict_of(row: Measured) -> tuple[str, ...]:
    """Return health and cause, then the validity findings, worst first."""
    verdict = row.verdict
    why = verdict.subcategory or ("" if verdict.health == "healthy" else verdict.rule)
    health = f"{verdict.health} {why}".rstrip()
    return (health, *(f"{one.check} ({one.level})" for one in verdict.validity))
