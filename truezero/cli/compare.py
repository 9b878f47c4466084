"""`truezero compare`: two batches, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from truezero.cli.options import (
    MOST,
    connected,
    csv_option,
    json_option,
    print_csv,
    print_json,
    print_page,
    service_options,
)
from truezero.cli.text import escape, interval_words, make_console, number, print_columns
from truezero.printable import plural

if TYPE_CHECKING:
    from rich.console import Console

    from truezero import models

_CHANGES: dict[str, str] = {
    "broken": "red", "fixed": "green", "unmeasured_b": "yellow", "unmeasured_a": "yellow",
    "unmeasured_both": "yellow", "only_a": "dim", "only_b": "dim", "unchanged": "dim",
}  # fmt: skip


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@service_options
@csv_option
@json_option
@click.option(
    "--all", "everything", is_flag=True, help="List every task that differs or was not measured."
)
def compare(
    *,
    a: str,
    b: str,
    url: str | None,
    token: str | None,
    as_csv: bool,
    as_json: bool,
    everything: bool,
) -> None:
    """Compare two batches task by task: fixed, broken, not measured.

    A is the batch to compare with, B the one that is compared. Scores are over the tasks that
    both measured. --csv has a line for each task.
    """
    with connected(url, token) as client:
        found = client.compare(a, b)
    if as_csv:
        print_csv(_CSV, map(_csv_row, found.tasks))
    elif as_json:
        print_json(found)
    else:
        print_comparison(found, most=None if everything else MOST)
        print_page(client.url, "compare", a=a, b=b)


_CSV = (
    "task", "change", "difference", "score_a", "measured_a", "repeats_a", "score_b", "measured_b",
    "repeats_b",
)  # fmt: skip


def _csv_row(task: models.TaskChange) -> dict[str, Any]:
    """Return a task as the page's file has it."""
    row: dict[str, Any] = {name: getattr(task, name) for name in ("task", "change", "difference")}
    for letter, side in (("a", task.a), ("b", task.b)):
        row |= {
            f"{name}_{letter}": getattr(side, name) for name in ("score", "measured", "repeats")
        }
    return row


def print_comparison(found: models.BatchComparison, *, most: int | None) -> None:
    """Print both scores, their difference over what both measured, and what changed.

    Arguments:
        most: how many tasks are listed of each change; None lists all.
    """
    console = make_console(soft_wrap=True)
    _print_sides(console, found)
    console.print(_difference(found))
    for change, style in _CHANGES.items():
        count = found.counts.get(change, 0)
        if count:
            console.print(f"[{style}]{_label(change, found)}[/{style}]: {count}")
        if count and change != "unchanged":
            _print_tasks(console, [t for t in found.tasks if t.change == change], most)
    if found.without_task:
        console.print(
            f"{plural(found.without_task, 'rollout')} without a task compare with nothing"
        )


def _print_sides(console: Console, found: models.BatchComparison) -> None:
    rows = [
        {
            "": letter,
            "batch": escape(side.batch),
            "score": number(side.score_effective, ".3f"),
            "95 %": interval_words(side.score_ci),
            "measured": f"{side.scored} of {side.total}",
        }
        for letter, side in (("A", found.a), ("B", found.b))
    ]
    columns = ("", "batch", "score", "95 %", "measured")
    print_columns(console, columns, rows, dispensable=("95 %", "measured"))


def _difference(found: models.BatchComparison) -> str:
    if found.difference is None:
        return "no task was measured in both: nothing to compare"
    interval = (
        "" if found.difference_ci is None else f" (95 % {interval_words(found.difference_ci)})"
    )
    tasks = plural(found.compared, "task")
    return (
        f"difference B - A: [bold]{found.difference:+.3f}[/bold]{interval} "
        f"over the {tasks} that both measured "
        f"({number(found.score_a, '.3f')} to {number(found.score_b, '.3f')})"
    )


def _label(change: str, found: models.BatchComparison) -> str:
    a, b = escape(found.a.batch), escape(found.b.batch)
    return {
        "broken": "lower in B",
        "fixed": "higher in B",
        "unmeasured_a": f"not measured in A, {a}",
        "unmeasured_b": f"not measured in B, {b}",
        "unmeasured_both": "measured in neither",
        "only_a": "only in A",
        "only_b": "only in B",
        "unchanged": "unchanged",
    }[change]


def _print_tasks(console: Console, tasks: Sequence[models.TaskChange], most: int | None) -> None:
    shown = tasks if most is None else tasks[:most]
    for each in shown:
        console.print(f"  {escape(each.task)}  {_task(each.a)} → {_task(each.b)}")
    if len(shown) < len(tasks):
        console.print(f"  [dim]and {len(tasks) - len(shown)} more: --all lists them[/dim]")


def _task(score: models.TaskScore) -> str:
    if score.repeats < 2:
        return number(score.score, ".3f")
    return f"{number(score.score, '.3f')} ({score.measured} of {score.repeats})"
