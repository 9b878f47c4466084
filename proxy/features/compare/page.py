"""The page of two batches compared, and its table as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from classifier.groups import TaskChange, TaskTotal
from proxy.api.lists import file_response, in_one
from proxy.control import dashboard
from proxy.control.batches import by_name
from proxy.control.queries import run_in_thread
from proxy.features.compare.comparison import compare, comparison_page, older_first
from proxy.web import badges, list_pages
from proxy.web.badges import Badge
from proxy.web.context import Context, Text, page_router, redirect
from proxy.web.tables import QuickFilter, TableView, read_table
from truezero import models

router = page_router()

_TASKS = 100  # on one page
# The change of a task from one batch to another (`classifier.groups.ChangeKind`).
CHANGES: Mapping[str, Badge] = {
    "broken": Badge(name="broken", label="lower", meaning="scored lower in B", shape=badges.DOWN),
    "fixed": Badge(name="fixed", label="higher", meaning="scored higher in B", shape=badges.UP),
    "unmeasured_b": Badge(
        name="undecided", label="not measured in B", meaning="B has no score", shape=badges.FRAME
    ),
    "unmeasured_a": Badge(
        name="undecided", label="not measured in A", meaning="A has no score", shape=badges.FRAME
    ),
    "unmeasured_both": Badge(
        name="undecided",
        label="measured in neither",
        meaning="neither has a score",
        shape=badges.FRAME,
    ),
    "only_a": Badge(name="not-judged", label="only in A", meaning="B lacks it", shape=badges.DASH),
    "only_b": Badge(name="not-judged", label="only in B", meaning="A lacks it", shape=badges.DASH),
    "unchanged": Badge(
        name="open", label="unchanged", meaning="the same score in both", shape=badges.DOT
    ),
}


@router.get("/ui/compare")
async def _compare(
    context: Context,
    request: Request,
    a: Text = "",
    b: Text = "",
    run: Annotated[Sequence[Text], Query()] = (),
    change: models.Change | Literal[""] = "",
    text: Text = "",
    after: Text = "",
    file: Text = "",
) -> Response:
    if len(run) == 2:
        first, second = await older_first(context.service, *run)
        return redirect("/ui/compare?" + urlencode({"a": first, "b": second}))
    view = read_table(
        request.query_params.multi_items(),
        kept=("a", "b"),
        filters=("change", "text"),
        columns=("task", *_COMPARED),
        usual_sort="change",
        down=("a", "b", "difference"),
    )
    if not file and (shorter := view.shorter(request.query_params.multi_items())) is not None:
        return redirect(f"/ui/compare?{shorter}")

    def chosen(tasks: Sequence[TaskChange]) -> Sequence[TaskChange]:
        wanted = text.strip().casefold()
        if wanted:
            tasks = [each for each in tasks if wanted in each.task.casefold()]
        return _in_order(view, tasks)

    if a and b and file:
        compared = await compare(context.service, a, b)
        tasks = [each for each in compared.comparison.tasks if change in ("", each.change)]
        rows = await run_in_thread(lambda: list(map(_compared_row, chosen(tasks))))
        return await file_response(
            "compared",
            list_pages.file_format(file),
            in_one(rows),
            view.file_columns(_COMPARED_FILE, "task"),
        )
    names = await dashboard.newest_batches(context.service)
    comparison = None
    if a and b:
        comparison = await comparison_page(
            context.service,
            a,
            b,
            changes=[change] if change else (),
            ordered=chosen,
            after=after or None,
            limit=_TASKS,
        )
    return await context.page(
        "compare/page.html",
        request,
        "batches",
        a=a,
        b=b,
        ticked=len(run),
        names=names,
        comparison=comparison,
        drawn=comparison and difference(comparison["difference"], comparison["difference_ci"]),
        changes=CHANGES,
        quick=_quick(view, comparison["counts"], change) if comparison else (),
        view=view,
        labels=_COMPARED,
        after=after,
        files=list(list_pages.FILES),
        address=context.address(request),
        live="",
    )


def _quick(view: TableView, counts: Mapping[str, int], change: str) -> list[QuickFilter]:
    """Return a filter for each change that a task has, with the number of such tasks."""
    return [
        QuickFilter("all", sum(counts.values()), view.query(change=None), not change),
        *(
            QuickFilter(badge.label, counts[name], view.query(change=name), change == name)
            for name, badge in CHANGES.items()
            if counts[name]
        ),
    ]


_COMPARED = {"change": "Change", "a": "A", "b": "B", "difference": "Difference"}  # columns
_COMPARED_FILE = {
    "task": ("task",), "change": ("change",), "difference": ("difference",),
    "a": ("score_a", "measured_a", "repeats_a"), "b": ("score_b", "measured_b", "repeats_b"),
}  # fmt: skip


def _in_order(view: TableView, tasks: Sequence[TaskChange]) -> Sequence[TaskChange]:
    """Sort compared tasks; alike ones stay by their change and name."""
    match view.sort:
        case "change":
            return tasks[::-1] if view.descending else tasks
        case "task":
            return view.ordered(tasks, lambda each: by_name(each.task))
        case "difference":
            return view.ordered(tasks, lambda each: each.difference)
    return view.ordered(tasks, lambda each: _score(each.a if view.sort == "a" else each.b))


def _score(task: TaskTotal | None) -> float | None:
    return None if task is None else task.score


def _compared_row(task: TaskChange) -> dict[str, Any]:
    row: dict[str, Any] = {
        "task": task.task, "change": CHANGES[task.change].label,
        "difference": task.difference,
    }  # fmt: skip
    for side, total in (("a", task.a), ("b", task.b)):
        row[f"score_{side}"] = _score(total)
        row[f"measured_{side}"] = 0 if total is None else total.measured
        row[f"repeats_{side}"] = 0 if total is None else total.repeats
    return row


# --- a difference, drawn ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference on a scale around zero, in percent of its width; ``reach`` is the scale's end.

    ``certain``: its interval does not hold zero.
    """

    reach: float
    at: float
    low: float
    high: float
    certain: bool
    label: str


def difference(value: float | None, interval: Sequence[float] | None) -> Difference | None:
    """Lay out a difference with its interval; None if either is unknown."""
    if value is None or interval is None:
        return None
    low, high = interval
    most = max(abs(low), abs(high), 0.05)
    reach = next(each for each in (0.1, 0.2, 0.5, 1.0, most) if each >= most)
    certain = low > 0 or high < 0

    def place(number: float) -> float:
        return round(50 + 50 * number / reach, 2)

    return Difference(
        reach=reach,
        at=place(value),
        low=place(low),
        high=place(high),
        certain=certain,
        label=f"Difference {value:+.3f}, between {low:+.3f} and {high:+.3f} with 95 % confidence",
    )
