"""Prints verdicts as tables and sentences for people.

It computes nothing: what it shows, the service said.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truezero import models

HEALTH_STYLE = {
    "healthy": "green",
    "api_error": "red",
    "suspected_api_error": "yellow",
    "not_judged": "dim",
    "undecided": "magenta",
}


def headline(verdict: models.Verdict) -> str:
    """Health and reason in one coloured line."""
    style = HEALTH_STYLE[verdict.health]
    reason = escape(_reason(verdict).removeprefix(verdict.health).strip())
    return f"[{style}]{verdict.health}[/{style}] {reason}"


def _reason(verdict: models.Verdict) -> str:
    if verdict.error:
        return verdict.error
    if verdict.recovered_requests:
        return f"({verdict.recovered_requests} failed call(s), recovered)"
    reached = verdict.health == "healthy" and verdict.total_requests
    return "" if reached else f"({verdict.rule})"


def print_verdict(verdict: models.Verdict, calls: Sequence[models.Exchange]) -> None:
    """One rollout: the verdict, its facts, and each call."""
    console = Console()
    console.print(f"[bold]{escape(verdict.rollout_id)}[/bold]  {headline(verdict)}")
    facts = {
        "rule": verdict.rule,
        "fingerprint": verdict.fingerprint,
        "lane": verdict.lane,
        "scoreable": verdict.scoreable,
        "retry": f"{'yes' if verdict.retry.eligible else 'no'}: {verdict.retry.reason}",
        "tokens": _tokens(verdict),
        "warnings": ", ".join(verdict.warnings) or None,
        "provisional": "yes: the runner has not reported" if verdict.provisional else None,
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value is not None:
            grid.add_row(f"[dim]{name}[/dim]", escape(value))
    console.print(grid)
    if calls:
        console.print(_calls_table(calls, set(verdict.evidence)))


def _tokens(verdict: models.Verdict) -> str | None:
    if verdict.total_tokens is None:
        return None
    return f"{verdict.input_tokens} in, {verdict.output_tokens} out"


def _calls_table(calls: Sequence[models.Exchange], evidence: set[str]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("call", "status", "ending", "model", "tokens", "seconds", "cause", ""):
        table.add_column(column)
    for call in calls:
        table.add_row(
            escape(call.id[-8:]),
            str(call.status or "–"),
            call.ending or "in flight",
            escape(call.model or "–"),
            f"{_shown(call.input_total)} / {_shown(call.output_total)}",
            "–" if call.duration_s is None else f"{call.duration_s:.2f}",
            escape(" ".join(filter(None, (call.subcategory, call.error_code)))),
            "evidence" if call.id in evidence else "",
        )
    return table


def _shown(count: int | None) -> str:
    return "?" if count is None else str(count)
