"""Print comparisons of batches, and what to run again, for people and for other commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import cast

from rich.console import Console
from rich.table import Table

from truezero import models
from truezero.cli.output import escape
from truezero.printable import plural, visible

_CHANGES: dict[str, str] = {
    "broken": "red", "fixed": "green", "unmeasured_b": "yellow", "unmeasured_a": "yellow",
    "unmeasured_both": "yellow", "only_a": "dim", "only_b": "dim", "unchanged": "dim",
}  # fmt: skip
_RERUNS: dict[models.RerunName, str] = {
    "transient": "run again now",
    "fix_first": "fix first, then run again",
    "skipped": "not admitted by an open breaker",
    "undecided": "evidence is missing",
    "unmeasured": "the provider did not fail, and there is no score",
}


def print_comparison(found: models.BatchComparison, *, most: int | None) -> None:
    """Print both scores, their difference over what both measured, and what changed.

    Arguments:
        most: how many tasks are listed of each change; None lists all.
    """
    console = Console(soft_wrap=True, highlight=False)
    console.print(_sides(found))
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


def _sides(found: models.BatchComparison) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "batch", "score", "95 %", "measured"):
        table.add_column(column)
    for letter, side in (("A", found.a), ("B", found.b)):
        table.add_row(
            letter,
            escape(side.batch),
            _report_score(side.score_effective),
            _interval(side.score_ci),
            f"{side.scored} of {side.total}",
        )
    return table


def _difference(found: models.BatchComparison) -> str:
    if found.difference is None:
        return "no task was measured in both: nothing to compare"
    interval = "" if found.difference_ci is None else f" (95 % {_interval(found.difference_ci)})"
    tasks = plural(found.compared, "task")
    return (
        f"difference B - A: [bold]{found.difference:+.3f}[/bold]{interval} "
        f"over the {tasks} that both measured "
        f"({_report_score(found.score_a)} to {_report_score(found.score_b)})"
    )


def _label(change: str, found: models.BatchComparison) -> str:
    a, b = escape(found.a.batch), escape(found.b.batch)
    return {
        "broken": "broken, lower in B",
        "fixed": "fixed, higher in B",
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
        return _report_score(score.score)
    return f"{_report_score(score.score)} ({score.measured} of {score.repeats})"


def _report_score(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


# --- what to run again -----------------------------------------------------------------------


def print_reruns(found: models.Reruns, only: Sequence[str], *, most: int) -> None:
    """Print what to run again, by what is to be done first and then by cause.

    Arguments:
        only: names of lists; none prints all of them.
        most: how many rollouts are listed of one cause.
    """
    console = Console(soft_wrap=True, highlight=False)
    for name, words in _RERUNS.items():
        kind = found.kind(name)
        if only and name not in only:
            continue
        if kind.count or only:
            console.print(f"[bold]{name}[/bold]: {kind.count} ({words})")
        for group in kind.groups:
            fix = f": {escape(group.fix)}" if group.fix else ""
            console.print(f"  {escape(group.cause)}, {group.count}{fix}")
            for item in group.items[:most]:
                console.print(f"    {_item(item)}")
            if group.count > most:
                more = group.count - most
                console.print(f"    [dim]and {more} more: --ids --only {name}[/dim]")
    if found.running:
        console.print(f"[dim]{plural(found.running, 'rollout')} still running[/dim]")
    if not any(found.kind(name).count for name in _RERUNS):
        console.print(f"{escape(found.batch)}: nothing to run again")


def _item(item: models.RerunItem) -> str:
    name = item.rollout_id or f"{item.task}, repeat {item.repeat}"
    wait = "" if item.after_s is None else f" after {item.after_s:g} s"
    return escape(name) + wait


def rerun_ids(found: models.Reruns, only: Sequence[str]) -> Iterator[str]:
    """Yield the ids of the last attempts in these lists."""
    for item in _items(found, only):
        if item.rollout_id is not None:
            yield visible(item.rollout_id)


def commands(found: models.Reruns, only: Sequence[str]) -> Iterator[str]:
    """Yield a command for each repeat in these lists; ``$AGENT`` stands for the agent's own."""
    for item in _items(found, only):
        words = ["truezero", "run", "--batch", found.batch]
        if item.task is not None:
            words += ["--task", item.task]
            words += [] if item.repeat is None else ["--repeat", str(item.repeat)]
            words += ["--attempt", str(item.attempt)]
        yield visible(shlex.join([*words, "--"])) + " $AGENT"


def _items(found: models.Reruns, only: Sequence[str]) -> Iterator[models.RerunItem]:
    for name in only:
        for group in found.kind(cast("models.RerunName", name)).groups:
            yield from group.items
