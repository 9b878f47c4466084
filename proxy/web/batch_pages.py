"""The pages of batches: the list, and one batch by tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from classifier.figures import FIGURES
from proxy.api.lists import file_response, in_one
from proxy.control import dashboard, reports
from proxy.control.batches import by_name, unscored_groups
from proxy.control.dashboard import (
    BatchKind,
    BatchOrder,
    BatchQuery,
    ListedBatch,
    ScoreRange,
    TaskKind,
    TaskOrder,
    TaskQuery,
    judged_rollouts,
)
from proxy.control.health import batch_episodes
from proxy.control.listing import view_totals
from proxy.control.queries import Service, path_of, run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import badges, charts, format, list_pages, overview, task_charts
from proxy.web.batch_tabs import BatchTab, Items, OpenTab
from proxy.web.context import (
    Context,
    Name,
    Number,
    Text,
    page_router,
    redirect,
)
from proxy.web.list_pages import RolloutsView
from proxy.web.panels import BatchMark, PanelPlace
from proxy.web.tables import QuickFilter, TableView, read_table

# --- pages -------------------------------------------------------------------------------------


_COST_BY = ("model", "role", "upstream")
_COST_COLUMNS = {
    "cost": "Cost", "share": "Share", "unpriced": "Unpriced", "calls": "Calls", "failed": "Failed",
    "input": "Input", "output": "Output", "time": "Time",
}  # fmt: skip
# What a column is sorted by, and what it is in a file.
_COST_VALUES = {
    "cost": "cost_usd", "calls": "calls", "failed": "failures", "input": "input_tokens",
    "output": "output_tokens", "time": "seconds",
}  # fmt: skip
_TASK_COLUMNS = {
    "score": "Score", "measured": "Measured", "repeats": "Repeats and attempts",
    "gaps": "Gaps", "bounds": "Least – most", "spread": "Spread",
}  # fmt: skip
_TASK_SORTED = ("score", "measured", "repeats")
_TASK_KINDS = {"gaps": "text", "bounds": "n opt", "spread": "n opt"}  # of the others' cells
_TASK_FILE: Mapping[str, Sequence[str]] = {
    "task": ("task",), "score": ("score",), "measured": ("measured",), "repeats": ("repeats",),
    "gaps": (), "bounds": (), "spread": (),
}  # fmt: skip
# The lists of a batch's rollouts if no filter is given: those not measured come first.
_APART = (
    ("Not measured", (("reward", "null"), ("reward", "missing"))),
    ("Measured", (("reward", "nonzero"), ("reward", "zero"))),
)

router = page_router()


_BATCH_COLUMNS = {
    "valid": "Valid", "score": "Score", "interval": "Least – score – most", "measured": "Measured",
    "zeros": "Not measurements", "verdicts": "Repeats", "trend": "Trend", "cost": "Cost",
    "last": "Last rollout", "rollouts": "Rollouts", "tokens": "Tokens",
}  # fmt: skip
_BATCH_USUAL = [name for name in _BATCH_COLUMNS if name not in ("rollouts", "tokens")]
_BATCH_SORTED = ("score", "measured", "zeros", "cost", "last")
# Classes of the cells that narrow windows leave out, or that are drawn in.
_BATCH_KINDS = {
    "interval": "scorecell", "verdicts": "barcell opt", "trend": "opt", "cost": "opt",
    "last": "opt",
}  # fmt: skip
_BATCH_FILE = {
    "batch": ("batch",), "valid": ("valid",), "score": ("score_effective", "score_reported"),
    "interval": ("score_ci_low", "score_ci_high", "score_worst", "score_best"),
    "measured": ("scored", "repeats_planned"), "zeros": ("zeros", "zeros_not_measured"),
    "verdicts": (), "trend": (), "cost": ("cost_usd",), "last": ("last_at",),
    "rollouts": ("rollouts",), "tokens": ("total_tokens",),
}  # fmt: skip


def _batches_view(items: Items) -> TableView:
    return read_table(
        items,
        kept=(),
        filters=("show", "text"),
        columns=("batch", *_BATCH_COLUMNS),
        usual=_BATCH_USUAL,
        usual_sort="last",
        down=_BATCH_SORTED,
        sortable=("batch", *_BATCH_SORTED),
    )


def _batches_file(known: Sequence[ListedBatch], query: BatchQuery) -> list[dict[str, Any]]:
    return list(map(_batch_row, dashboard.batch_rows(dashboard.batches_in(known, query))))


def _batch_row(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch as a file has it."""
    summary = item["summary"]
    low, high = summary["score_ci"] or (None, None)
    zeros = summary["zeros"]
    return {
        **summary,
        "batch": item["batch"],
        "last_at": item["last_at"],
        "score_ci_low": low,
        "score_ci_high": high,
        "zeros": zeros["reported"],
        "zeros_not_measured": zeros["not_measured"],
    }


@router.get("/")
async def _batches(
    context: Context,
    request: Request,
    page: Number = 1,
    show: Text = "",
    text: Text = "",
    file: Text = "",
) -> Response:
    service, items = context.service, request.query_params.multi_items()
    view = _batches_view(items)
    if not file and (shorter := view.shorter(items)) is not None:
        return redirect(f"/?{shorter}" if shorter else "/")
    marks = [(each, await each.read(service)) for each in context.batch_marks]
    marked = next((words for mark, words in marks if mark.name == show), None)
    if marked is None and show not in ("", *BatchKind):
        raise Refusal(422, "invalid", f"show: {show!r} is no kind of batches")
    query = BatchQuery(
        kind=BatchKind.ALL if marked is not None or not show else BatchKind(show),
        among=marked,
        order=BatchOrder(view.sort),
        descending=view.descending,
        text=text,
    )
    if file:
        known = await dashboard.known_batches(service)
        rows = await run_in_thread(_batches_file, known, query)
        columns = view.file_columns(_BATCH_FILE, "batch")
        return await file_response("batches", list_pages.file_format(file), in_one(rows), columns)
    batches = await dashboard.batch_page(service, page, query)
    sparks = {
        item["batch"]: charts.sparkline(
            [*batches.earlier[item["batch"]], (item["batch"], item["summary"]["score_effective"])]
        )
        for item in batches.items
    }
    return await context.page(
        "batches.html",
        request,
        "batches",
        page=batches,
        view=view,
        labels=_BATCH_COLUMNS,
        sorted=_BATCH_SORTED,
        kinds=_BATCH_KINDS,
        quick=_quick_batches(view, batches.counts, marks, show),
        marks=marks,
        files=list(list_pages.FILES),
        sparks=sparks,
        actions=context.batch_actions,
        address=context.address(request),
        registration_required=context.registration_required,
        live="",
    )


def _quick_batches(
    view: TableView,
    counts: Mapping[BatchKind, int],
    marks: Sequence[tuple[BatchMark, Mapping[str, str]]],
    show: str,
) -> list[QuickFilter]:
    """Return the kinds of batches that a list can show; one without a batch is left out."""
    labels = {BatchKind.ALL: "All", BatchKind.INVALID: "Not valid", BatchKind.RUNNING: "Running"}
    found = [(kind.value, label, counts[kind]) for kind, label in labels.items()]
    found += [(mark.name, mark.label, len(words)) for mark, words in marks]
    return [
        QuickFilter(
            label, count, view.query(show=None if name == "all" else name), name == (show or "all")
        )
        for name, label, count in found
        if count or name in ("all", show)
    ]


@router.get("/ui/batches/{batch:path}")
async def _batch(
    context: Context,
    request: Request,
    batch: Name,
    tab: Text = "",
    number: Annotated[int, Query(alias="page", ge=1, le=1_000_000)] = 1,
    file: Text = "",
) -> Response:
    # An address of the first release has filters and no tab.
    implied = "rollouts" if request.query_params else "overview"
    tabs: Sequence[BatchTab] = request.app.state.batch_tabs
    chosen = next((each for each in tabs if each.name == (tab or implied)), None)
    if chosen is None:
        raise Refusal(422, "invalid", "invalid query parameter")
    items = request.query_params.multi_items()
    if file and chosen.file is not None:
        return await chosen.file(context.service, items, batch, file)
    if chosen.shorter is not None and (shorter := chosen.shorter(items, batch)) is not None:
        return redirect(f"{path_of('batches', batch)}?{shorter}")
    facts = await dashboard.batch_detail(context.service, batch)
    return await context.page(
        chosen.template,
        request,
        "batches",
        batch=batch,
        tab=chosen.name,
        tabs=tabs,
        marks={each.name: each.mark and await each.mark(context.service, batch) for each in tabs},
        facts=facts,
        address=context.address(request),
        **facts,
        **await chosen.read(OpenTab(context, request, batch, facts, tabs, number)),
        live=urlencode({"batch": batch}),
    )


async def _overview(tab: OpenTab) -> dict[str, Any]:
    service, batch, summary = tab.context.service, tab.batch, tab.facts["summary"]
    timeline = await dashboard.timeline(service, batch)
    unmeasured = summary["scoreable"] < summary["total"]
    groups = await unscored_groups(service, batch) if summary["scored"] < summary["total"] else ()
    kinds = tab.facts["reruns"].kinds
    rows = overview.todo(summary, groups, kinds, batch=batch, request=tab.request, tabs=tab.tabs)
    return {
        "episodes": await batch_episodes(service, batch) if unmeasured else [],
        "chart": timeline and charts.failures(timeline.points, timeline.step_s),
        "todo": rows,
        "todo_zeros": sum(summary["zeros"]["by_cause"].values()),
        "todo_repeats": sum(row.repeats for row in rows),
        "objections": overview.objections(summary),
        "squares": overview.squares(summary),
        "panels": await tab.context.shown(PanelPlace.BATCH_CHECK, batch),
    }


async def _rollouts(tab: OpenTab) -> dict[str, Any]:
    """Return the lists of a batch's rollouts: as asked for, else those not measured first."""
    view = list_pages.read_view(tab.items, batch=tab.batch)
    lists, service = _lists(view, tab.batch), tab.context.service
    titles = ["Rollouts"] if len(lists) == 1 else [title for title, _ in _APART]
    return {
        "view": view,
        "form": view.form,
        "lists": [
            (
                title,
                each,
                *await judged_rollouts(
                    service, each.form.parameters, fresh=True, asked="asked" in view.columns
                ),
            )
            for title, each in zip(titles, lists, strict=True)
        ],
        "totals": list_pages.totals_words(await view_totals(service, view.form.parameters))
        if len(lists) == 1 and list_pages.form_filters(view)
        else None,
        "quick": _quick_rollouts(view, tab.facts["summary"]),
        "short_query": list_pages.short_query,
        "written": [name for name in list_pages.WRITTEN if name != "batch"],
        **list_pages.table_values(),
    }


async def _rollouts_file(service: Service, items: Items, batch: str, ending: str) -> Response:
    lists = _lists(list_pages.read_view(items, batch=batch), batch)
    return await list_pages.rollouts_file(service, lists, ending)


def _shorter_rollouts(items: Items, batch: str) -> str | None:
    return list_pages.shorter_query(list_pages.read_view(items, batch=batch), items)


def _quick_rollouts(view: RolloutsView, summary: Mapping[str, Any]) -> list[QuickFilter]:
    """Return filters that show what figures of the batch count."""
    asked = list_pages.short_query(view.form.query_items)
    filters = (
        ("All", "rollouts"), ("Zeros that are none", "zeros.not_measured"),
        ("Measured", "scored"), ("Running", "running"), ("Skipped", "skipped"),
    )  # fmt: skip
    found = []
    for label, name in filters:
        figure = FIGURES[name]
        count = summary
        for step in name.split("."):
            count = count[step]
        query = list_pages.short_query(figure.query() or ())
        if count or name == "rollouts":
            address = list_pages.short_query([*view.kept, *(figure.query() or ())])
            found.append(QuickFilter(label, cast("int", count), address, asked == query))
    return found


def _lists(view: RolloutsView, batch: str) -> list[RolloutsView]:
    """Return the view, or the two that it stands for if nothing is filtered or sorted."""
    if view.form.query or view.form.parameters.after:
        return [view]
    return [replace(view, form=list_pages.read_form(filters, batch=batch)) for _, filters in _APART]


def _tasks_view(items: Items) -> TableView:
    return read_table(
        items,
        kept=("tab",),
        filters=("show", "score", "text"),
        columns=("task", *_TASK_COLUMNS),
        usual_sort="measured",
        down=("repeats",),
        sortable=("task", *_TASK_SORTED),
    )


def _tasks_query(view: TableView) -> TaskQuery:
    kind, score, text = (next(iter(view.values(name)), "") for name in ("show", "score", "text"))
    if kind not in ("", *TaskKind):
        raise Refusal(422, "invalid", f"show: {kind!r} is none of {', '.join(TaskKind)}")
    return TaskQuery(
        kind=TaskKind(kind or "all"),
        scores=_score_range(score) if score else None,
        text=text,
        order=TaskOrder(view.sort),
        descending=view.descending,
    )


def _score_range(text: str) -> ScoreRange:
    """Read scores as an address has them: ``0.25..0.3``, or without one of both."""
    low, dots, high = text.partition("..")
    try:
        found = ScoreRange(float(low) if low else None, float(high) if high else None)
    except ValueError:
        dots = ""
    if not dots:
        raise Refusal(422, "invalid", "score: two numbers, as in 0.25..0.3, or one of them")
    return found


def _written_range(scores: ScoreRange) -> str:
    return "..".join("" if each is None else f"{each:g}" for each in scores)


async def _tasks(tab: OpenTab) -> dict[str, Any]:
    view = _tasks_view(tab.items)
    query = _tasks_query(view)
    page = await dashboard.task_page(tab.context.service, tab.batch, tab.number, query)
    span = task_charts.span_of(page.rewards)
    labels = {
        TaskKind.ALL: "all",
        TaskKind.GAPS: "lack a repeat",
        TaskKind.NONE: "not measured",
        TaskKind.ZERO: f"score {format.reward(span[0])}",
        TaskKind.BETWEEN: "between",
        TaskKind.ONE: f"score {format.reward(span[1])}",
    }
    return {
        "strips": [task_charts.strip(row, page.rewards) for row in page.items],
        "map": await run_in_thread(task_charts.task_map, page.every),
        "chart": await run_in_thread(task_charts.score_chart, page.every, span),
        "written_range": _written_range,
        "chosen_scores": query.scores,
        "missing": [
            (badge, count)
            for badge, count in badges.parts(tab.facts["summary"])
            if count and badge not in (badges.MEASURED, badges.OWN)
        ],
        "span": span,
        "bounded": page.rewards.bounds is not None,
        "tasks": page,
        "view": view,
        "quick": [
            QuickFilter(
                label,
                page.counts[each],
                view.query(show=None if each is TaskKind.ALL else each.value),
                each is query.kind,
            )
            for each, label in labels.items()
            if page.counts[each]
        ],
        "short_query": list_pages.short_query,
        "labels": _TASK_COLUMNS,
        "sorted": _TASK_SORTED,
        "kinds": _TASK_KINDS,
        "files": list(list_pages.FILES),
    }


async def _tasks_file(service: Service, items: Items, batch: str, ending: str) -> Response:
    file_format, view = list_pages.file_format(ending), _tasks_view(items)
    tasks = await dashboard.listed_tasks(service, batch, _tasks_query(view))
    columns = view.file_columns(_TASK_FILE, "task")
    rows = [{name: getattr(each, name) for name in columns} for each in tasks]
    return await file_response("tasks", file_format, in_one(rows), columns)


def _cost_view(items: Items) -> tuple[str, TableView]:
    """Return the view of a table of costs, and what it is by."""
    by = list_pages.last(items, "by") or _COST_BY[0]
    if by not in _COST_BY:
        raise Refusal(422, "invalid", f"by: {by!r} is none of {', '.join(_COST_BY)}")
    view = read_table(
        items,
        kept=("tab", "by"),
        filters=("text",),
        columns=("name", *_COST_COLUMNS),
        usual_sort="cost",
        down=tuple(_COST_COLUMNS),
        sortable=("name", "unpriced", *_COST_VALUES),
    )
    return by, view


def _unpriced(item: Mapping[str, Any]) -> int:
    """Return how many calls have no known cost, of those that used tokens."""
    return cast("int", item["billable_calls"] - item["cost_known_calls"])


def _costs(view: TableView, by: str, items: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Return the rows of a table of costs; one without a name comes last by name."""
    wanted = next(iter(view.values("text")), "").strip().casefold()
    if wanted:
        items = [each for each in items if wanted in (each[by] or "").casefold()]
    if view.sort == "name":
        return view.ordered(items, lambda each: each[by] and by_name(each[by]))
    if view.sort == "unpriced":
        return view.ordered(items, _unpriced)
    return view.ordered(items, lambda each: each[_COST_VALUES[view.sort]])


async def _cost(tab: OpenTab) -> dict[str, Any]:
    by, view = _cost_view(tab.items)
    tables = await reports.usage_tables(tab.context.service, tab.batch, _COST_BY)
    return {
        "by": by,
        "whole": tables[by]["sum"],
        "shown": _costs(view, by, tables[by]["items"]),
        "unpriced": _unpriced,
        "values": _COST_VALUES,
        "view": view,
        "labels": _COST_COLUMNS,
        "short_query": list_pages.short_query,
        "files": list(list_pages.FILES),
        "quick": [
            QuickFilter(
                f"By {name}",
                len(tables[name]["items"]),
                view.query(by=None if name == _COST_BY[0] else name),
                name == by,
            )
            for name in _COST_BY
        ],
        "panels": await tab.context.shown(PanelPlace.BATCH_COST, tab.batch),
    }


async def _cost_file(service: Service, items: Items, batch: str, ending: str) -> Response:
    file_format = list_pages.file_format(ending)
    by, view = _cost_view(items)
    rows = (await reports.usage_tables(service, batch, [by]))[by]["items"]
    of: Mapping[str, Sequence[str]] = {
        **{name: (value,) for name, value in _COST_VALUES.items()},
        "name": (by,), "share": (), "unpriced": ("billable_calls", "cost_known_calls"),
    }  # fmt: skip
    shown = list(_costs(view, by, rows))
    return await file_response("costs", file_format, in_one(shown), view.file_columns(of, "name"))


def _cost_words(summary: Mapping[str, Any]) -> str | None:
    """Return the cost of a batch's calls; "at least" if some have no known price."""
    if summary["cost_usd"] is None:
        return None
    unknown = summary["calls"] > summary["cost_known_calls"]
    return ("at least " if unknown else "") + format.dollars(summary["cost_usd"])


TABS = (
    BatchTab(name="overview", label="Overview", template="batch_overview.html", read=_overview),
    BatchTab(
        name="rollouts",
        label="Rollouts",
        template="batch_rollouts.html",
        read=_rollouts,
        count=lambda facts: format.number(facts["summary"]["rollouts"]),
        shorter=_shorter_rollouts,
        file=_rollouts_file,
    ),
    BatchTab(
        name="tasks",
        label="Tasks",
        template="batch_tasks.html",
        read=_tasks,
        count=lambda facts: format.number(facts["named_tasks"]) if facts["named_tasks"] else None,
        shorter=lambda items, _: _tasks_view(items).shorter(items),
        file=_tasks_file,
    ),
    BatchTab(
        name="cost",
        label="Cost",
        template="batch_cost.html",
        read=_cost,
        count=lambda facts: _cost_words(facts["summary"]),
        shorter=lambda items, _: _cost_view(items)[1].shorter(items),
        file=_cost_file,
    ),
)
"""The kernel's own tabs, in their order; those of features follow them."""
