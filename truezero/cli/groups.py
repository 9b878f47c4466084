"""`truezero groups`: a batch's rollouts by task, for trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from truezero.cli import gone
from truezero.cli.options import (
    batch_argument,
    connected,
    json_option,
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
    as_json: bool,
    min_valid: int,
) -> None:
    """Print a batch's rollouts by task: measured, to run again, to drop."""
    with connected(url, token) as client:
        found = client.groups(name, min_valid=min_valid)
    if as_json:
        print_json(found)
    else:
        print_groups(found)
        print_page(client.url, "batches", name, tab="tasks")


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
