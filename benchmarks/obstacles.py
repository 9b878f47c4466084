"""What stands in the way of goals beside nginx: what the kernel takes of the time they allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.rows import OURS, ROWS, Goal, Rounds, Row, median_of, reached, summarised

_HEAD = """## Why goals beside nginx are not reached

Of the CPU time that a goal allows, what the kernel takes for the same reads, writes and polls, and
for commits, and what is left for Python, its libraries and SQLite ({where}).

| | the goal allows µs | takes µs | of it in the kernel | outside it | left for that |
|---|---:|---:|---:|---:|---:|"""


def obstacles(
    rounds: Rounds, names: Mapping[str, str], shown: Callable[[float | None], str], where: str
) -> str:
    """Return, in Markdown, what goals that are not reached would leave; nothing where not measured.

    Arguments:
        names: of subjects that are called otherwise than their key.
        shown: formats a number.
        where: the machine's name on the page.
    """
    found = summarised(rounds)
    lines = [
        _line(rounds, row, goal, one, names.get(one, one), shown)
        for row in ROWS
        for goal in row.goals
        if row.number == "cpu_us" and goal.peer == "nginx" and row.key in found
        for one in OURS
        if reached(goal, found[row.key], one) is False
    ]
    known = [line for line in lines if line]
    return "\n".join((_HEAD.format(where=where), *known)) if known else ""


def _line(
    rounds: Rounds, row: Row, goal: Goal, one: str, name: str, shown: Callable[[float | None], str]
) -> str | None:
    of_figure = rounds[row.figure]
    nginx, takes = (median_of(of_figure, row.number, each) for each in (goal.peer, one))
    in_kernel = median_of(of_figure, "kernel_us", one)
    if nginx is None or takes is None or in_kernel is None:
        return None
    allowed = goal.most * nginx
    cells = (allowed, takes, in_kernel, takes - in_kernel, allowed - in_kernel)
    what = row.label.removeprefix("µs CPU per ")
    return f"| {what}, {name} | {' | '.join(map(shown, cells))} |"
