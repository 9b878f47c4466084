"""The table that `truezero drill` prints: how an agent reacted to each failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from truezero import models
from truezero.cli.output import HEALTH_STYLE, escape
from truezero.runner.drills import SPOILT, Drilled


def print_table(drilled: Sequence[Drilled], console: Console) -> None:
    """Print all results as a table, and a summary of hidden failures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("fault", no_wrap=True)
    table.add_column("reaction", overflow="fold")
    for name in ("exit", "output", "calls", "retries", "sec", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for one in drilled:
        table.add_row(
            one.drill,
            f"[red]{one.conduct}[/red]" if one.hidden else one.conduct,
            str(one.exit_code),
            f"{one.output_bytes}+{one.error_bytes}",
            str(one.calls),
            str(one.retries),
            f"{one.seconds:.1f}",
            "?" if one.wasted_s is None else f"{one.wasted_s:.1f}",
            " · ".join((_short(one.verdict), *one.findings)),
        )
    console.print(table)
    for line in _lessons(drilled):
        console.print(escape(line))


def _short(verdict: models.Verdict) -> str:
    style = HEALTH_STYLE[verdict.health]
    why = verdict.subcategory or ("" if verdict.health == "healthy" else verdict.rule)
    return f"[{style}]{verdict.health}[/{style}] {why}".rstrip()


def _spoils(verdict: models.Verdict) -> bool:
    return any(finding.level != "info" for finding in verdict.validity)


def _lessons(drilled: Sequence[Drilled]) -> Iterator[str]:
    hidden = [one for one in drilled if one.hidden]
    failures = ", ".join(one.drill for one in hidden if one.drill not in SPOILT)
    spoilt = ", ".join(one.drill for one in hidden if one.drill in SPOILT)
    missed = ", ".join(
        one.drill for one in hidden if one.verdict.health == "healthy" and not _spoils(one.verdict)
    )
    if failures:
        yield f"Failures hidden behind exit code 0: {failures}."
    elif not {one.drill for one in drilled} <= SPOILT:
        yield "No failure was hidden."
    if spoilt:
        yield f"Spoilt answers taken for good: {spoilt}."
    if missed:
        yield f"Judged healthy nevertheless: {missed}."
