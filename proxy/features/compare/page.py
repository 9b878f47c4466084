"""The page of two batches compared, and its table as a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from classifier.batches import RewardSpan
from classifier.groups import ChangeKind, TaskChange, TaskTotal
from proxy.api.lists import file_response, in_one
from proxy.control import batches, dashboard
from proxy.control.batches import by_name
from proxy.control.queries import Service, run_in_thread
from proxy.features.compare.comparison import (
    ComparedBatches,
    by_one_repeat,
    compare,
    older_first,
    tasks_needed,
)
from proxy.web import badges, list_pages, task_charts
from proxy.web.badges import Badge
from proxy.web.context import Context, Number, Text, page_router, redirect
from proxy.web.tables import QuickFilter, TableView, read_table
from truezero import models

router = page_router()

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


_SEVERAL = "several"  # a filter beside those changes: of more than one repeat
_COLUMNS = {
    "change": "Change", "difference": "Difference", "scores": "○ A to ● B", "a": "A",
    "repeats_a": "Repeats of A", "b": "B", "repeats_b": "Repeats of B",
}  # fmt: skip
_SORTED = ("change", "difference", "a", "b")
_FILE: Mapping[str, Sequence[str]] = {
    "task": ("task",), "change": ("change",), "difference": ("difference",), "scores": (),
    "a": ("score_a", "measured_a"), "repeats_a": ("repeats_a",),
    "b": ("score_b", "measured_b"), "repeats_b": ("repeats_b",),
}  # fmt: skip


@router.get("/ui/compare")
async def _compare(
    context: Context,
    request: Request,
    a: Text = "",
    b: Text = "",
    run: Annotated[Sequence[Text], Query()] = (),
    change: models.Change | Literal["", "several"] = "",
    text: Text = "",
    page: Number = 1,
    file: Text = "",
) -> Response:
    service = context.service
    if len(run) == 2:
        first, second = await older_first(service, *run)
        return redirect("/ui/compare?" + urlencode({"a": first, "b": second}))
    view = read_table(
        request.query_params.multi_items(),
        kept=("a", "b"),
        filters=("change", "text"),
        columns=("task", *_COLUMNS),
        usual_sort="change",
        down=("a", "b", "difference"),
        sortable=("task", *_SORTED),
    )
    if not file and (shorter := view.shorter(request.query_params.multi_items())) is not None:
        return redirect(f"/ui/compare?{shorter}")
    shown: dict[str, Any] = {"comparison": None}
    if a and b:
        compared = await compare(service, a, b)
        reach = compared.rewards.bounds and compared.rewards.bounds[1] - compared.rewards.bounds[0]
        tasks = await run_in_thread(_in_view, view, compared.comparison.tasks, change, text, reach)
        if file:
            rows = await run_in_thread(lambda: list(map(_compared_row, tasks)))
            file_format = list_pages.file_format(file)
            columns = view.file_columns(_FILE, "task")
            return await file_response("compared", file_format, in_one(rows), columns)
        shown = await _shown(service, (a, b), compared, tasks, page, reach)
        shown["quick"] = _quick(view, shown["comparison"].counts, shown["several"], change)
    return await context.page(
        "compare/page.html",
        request,
        "batches",
        a=a,
        b=b,
        ticked=len(run),
        names=await dashboard.newest_batches(service),
        changes=CHANGES,
        view=view,
        labels=_COLUMNS,
        sorted=_SORTED,
        short_query=list_pages.short_query,
        files=list(list_pages.FILES),
        address=context.address(request),
        live="",
        **shown,
    )


async def _shown(
    service: Service,
    names: tuple[str, str],
    compared: ComparedBatches,
    tasks: Sequence[TaskChange],
    number: int,
    reach: float | None,
) -> dict[str, Any]:
    """Return what a page shows of two batches, and of the tasks of its view."""
    comparison, rewards = compared.comparison, compared.rewards
    begin = (number - 1) * dashboard.TASKS
    on_page = tasks[begin : begin + dashboard.TASKS]
    sides = []
    for name, side in zip(names, ("a", "b"), strict=True):
        totals = [total for each in on_page if (total := getattr(each, side)) is not None]
        rows = await dashboard.task_rows(service, name, totals)
        drawn = (task_charts.strip(row, rewards) for row in rows)
        cells = {each.total.task: each.cells for each in drawn}
        sides.append((name, await batches.summary(service, name), cells))
    interval = comparison.difference_ci
    return {
        "comparison": comparison,
        "without_task": compared.without_task,
        "needed": tasks_needed(comparison),
        "drawn": difference(comparison.difference, interval),
        "several": sum(not by_one_repeat(each, reach) for each in _changed(comparison.tasks)),
        "sides": sides,
        "span": task_charts.span_of(rewards),
        "bounded": rewards.bounds is not None,
        "page": dashboard.NumberedPage(
            items=[(each, by_one_repeat(each, reach), _pair(each, rewards)) for each in on_page],
            number=number,
            size=dashboard.TASKS,
            total=len(tasks),
        ),
    }


def _quick(
    view: TableView, counts: Mapping[str, int], several: int, change: str
) -> list[QuickFilter]:
    """Return a filter for each change that a task has, with the number of such tasks."""
    found = [(name, badge.label, counts[name]) for name, badge in CHANGES.items()]
    found.append((_SEVERAL, "by more than one repeat", several))
    return [
        QuickFilter("all", sum(counts.values()), view.query(change=None), not change),
        *(
            QuickFilter(label, count, view.query(change=name), change == name)
            for name, label, count in found
            if count
        ),
    ]


def _changed(tasks: Iterable[TaskChange]) -> Iterator[TaskChange]:
    return (each for each in tasks if each.change in (ChangeKind.BROKEN, ChangeKind.FIXED))


def _in_view(
    view: TableView, tasks: Sequence[TaskChange], change: str, text: str, reach: float | None
) -> Sequence[TaskChange]:
    """Return the tasks of a view in its order; alike ones stay by their change and name."""
    wanted = text.strip().casefold()
    if change == _SEVERAL:
        tasks = [each for each in _changed(tasks) if not by_one_repeat(each, reach)]
    elif change:
        tasks = [each for each in tasks if each.change == change]
    if wanted:
        tasks = [each for each in tasks if wanted in each.task.casefold()]
    match view.sort:
        case "change":  # those of the same change by how much
            places = {kind: place for place, kind in enumerate(ChangeKind)}
            ordered = sorted(
                tasks, key=lambda each: (places[each.change], -abs(each.difference or 0.0))
            )
            return ordered[::-1] if view.descending else ordered
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


def _pair(task: TaskChange, rewards: RewardSpan) -> tuple[float | None, float | None]:
    """Return the places of both scores on the scale of the rewards, in percent; None if unknown."""
    low, high = task_charts.span_of(rewards)
    before, after = (
        None if score is None else round(100 * (score - low) / (high - low or 1.0), 2)
        for score in (_score(task.a), _score(task.b))
    )
    return before, after


async def before(service: Service, batch: str) -> dict[str, Any] | None:
    """Return the run before a batch in its series, compared; None without one, or while it runs."""
    summary = await batches.summary(service, batch)
    found = None if summary["running"] else await dashboard.batch_before(service, batch)
    if found is None:
        return None
    name, score = found
    comparison = (await compare(service, name, batch)).comparison
    drawn = difference(comparison.difference, comparison.difference_ci)
    return {"batch": name, "score": score, "comparison": comparison, "drawn": drawn}


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
