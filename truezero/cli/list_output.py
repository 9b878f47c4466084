"""Print lists of rollouts and batches as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from truezero import models
from truezero.cli import call_output
from truezero.cli.output import HEALTH_STYLE, escape

if TYPE_CHECKING:
    from truezero.sdk.outcomes import KeptOutcome

_MORE = "there are more: --limit N shows more of them"


def print_rollouts(items: Sequence[models.RolloutItem], *, more: bool) -> None:
    """Print a line for each rollout.

    Arguments:
        more: whether there are others.
    """
    table = _list_table("rollout", "batch", "task", "health", "cause", "reward", "tokens", "cost",
                   "began (UTC)")  # fmt: skip
    for item in items:
        sample = "" if item.repeat is None else f" #{item.repeat}"
        table.add_row(
            escape(item.id),
            escape(item.batch or "–"),
            escape(f"{item.task}{sample}" if item.task else "–"),
            _health(item.health),
            escape(item.fingerprint or ""),
            _number(item.reward, "g"),
            _number(item.total_tokens, ",d"),
            _number(item.cost_usd, ".4f", "$"),
            _moment(item.created_at),
        )
    _print(table, len(items), "rollouts", more=more)


def print_outcomes(files: Sequence[tuple[Path, KeptOutcome | None]]) -> None:
    """Print a line for each outcome that is kept."""
    table = _list_table(
        "rollout", "batch", "task", "reported", "kept since (UTC)", "for the service"
    )
    for file, kept in files:
        if kept is None:
            table.add_row(f"[red]no outcome: {escape(file.name)}[/red]", *5 * [""])
            continue
        said = kept.outcome
        reported = said.get("status") if said.get("rewards") is None else said["rewards"]
        table.add_row(
            escape(kept.rollout_id),
            escape(str(said.get("batch") or "–")),
            escape(str(said.get("task") or "–")),
            escape(str(reported)),
            _moment(kept.kept_at),
            escape(kept.service),
        )
    _print(table, len(files), "outcomes", more=False)


def print_batches(items: Sequence[models.BatchItem], *, more: bool) -> None:
    """Print a line for each batch.

    Arguments:
        more: whether there are others.
    """
    table = _list_table("batch", "rollouts", "open", "measured", "score", "95 %", "valid", "cost",
                   "last began (UTC)")  # fmt: skip
    for item in items:
        interval = item.score_ci
        table.add_row(
            escape(item.batch),
            f"{item.rollouts:,d}",
            f"{item.pending:,d}",
            f"{item.scoreable} of {item.total}",
            _number(item.score_effective, ".3f"),
            "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
            "[green]yes[/green]" if item.valid else "[red]no[/red]",
            _number(item.cost_usd, ".4f", "$"),
            _moment(item.last_at),
        )
    _print(table, len(items), "batches", more=more)


def _list_table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table, shown: int, what: str, *, more: bool) -> None:
    console = call_output.make_console(highlight=False)
    if shown:
        console.print(table)
    else:
        console.print(f"no {what}")
    if more:
        console.print(_MORE)


def _health(health: str | None) -> str:
    style = HEALTH_STYLE.get(health or "", "dim")
    return f"[{style}]{health or '–'}[/{style}]"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{unit}{value:{form}}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
