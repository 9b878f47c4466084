"""`truezero groups`: a batch's rollouts by task, for trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from truezero.cli import gone
from truezero.cli.options import (
    batch_argument,
    connected,
    csv_option,
    json_option,
    print_csv,
    print_json,
    print_page,
    service_options,
)
from truezero.cli.text import escape, make_console, print_columns, score_words

if TYPE_CHECKING:
    from truezero import models


@click.command()
@batch_argument
@service_options
@csv_option
@json_option
@gone.option("--method", type=str, instead="trainers compute advantages")
@click.option(
    "--min-valid",
    type=click.IntRange(min=1),
    default=2,
    help="Drop groups that cannot reach this many measured rollouts.",
)
def groups(
    *,
    name: str,
    url: str | None,
    token: str | None,
    as_csv: bool,
    as_json: bool,
    min_valid: int,
) -> None:
    """Print a batch's rollouts by task: measured, to run again, to drop."""
    with connected(url, token) as client:
        found = client.groups(name, min_valid=min_valid)
    if as_csv:
        print_csv(_CSV, map(_csv_row, found))
    elif as_json:
        print_json(found)
    else:
        print_groups(found)
        print_page(client.url, "batches", name, tab="tasks")


_CSV = (
    "task", "wanted", "measured", "baseline", "std", "resample", "drop", "settled", "final",
)  # fmt: skip


def _csv_row(group: models.Group) -> dict[str, Any]:
    return {**{name: getattr(group, name, None) for name in _CSV}, "measured": sum(group.valid)}


def print_groups(groups: Sequence[models.Group]) -> None:
    """Print a line for each task: how many of its repeats count, and what becomes of the group."""
    rows = [
        {
            "task": escape(group.task),
            "measured": f"{sum(group.valid)} of {group.wanted}",
            "baseline": score_words(group.baseline),
            "std": score_words(group.std),
            "run again": str(group.resample or "–"),
            "": _state(group),
        }
        for group in groups
    ]
    columns = ("task", "measured", "baseline", "std", "run again", "")
    print_columns(make_console(), columns, rows, dispensable=("std", "baseline"))


def _state(group: models.Group) -> str:
    if group.drop:
        return "[red]drop[/red]"
    return "" if group.settled else "[dim]running[/dim]"
