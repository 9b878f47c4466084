"""The pages of batches: the list, and one batch by tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from classifier.reruns import Rerun, RerunCounts
from proxy.api.lists import file_response, in_one
from proxy.control import dashboard, reports
from proxy.control.dashboard import TaskKind, TaskOrder, judged_rollouts
from proxy.control.health import batch_episodes
from proxy.control.queries import path_of
from proxy.routing.errors import Refusal
from proxy.web import charts, format, list_pages
from proxy.web.batch_tabs import BatchTab, OpenTab
from proxy.web.context import (
    Context,
    Name,
    Number,
    PageContext,
    Text,
    page_router,
    redirect,
)
from proxy.web.list_pages import RolloutsView
from proxy.web.panels import PanelPlace
from proxy.web.tables import TableView, read_table
from truezero.printable import exclusion_words, measured_words

# --- fitness to publish: the reasons against it, with counts ------------------------------------


class Reason(NamedTuple):
    """A reason not to publish a batch yet: its count, its words, and the query of its list."""

    times: int | None
    text: str
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationCheck:
    """The fitness of a batch for publication, and the reasons against it, most severe first."""

    valid: bool
    head: str
    reasons: tuple[Reason, ...]


_OF_RERUNS = {
    Rerun.FIX_FIRST: ("failed for a cause that has to be fixed first",
                  "failed for causes that have to be fixed first"),
    Rerun.TRANSIENT: ("provider failure that can be run again now",
                  "provider failures that can be run again now"),
    Rerun.SKIPPED: ("skipped by an open breaker",) * 2,
    Rerun.UNDECIDED: ("undecided: evidence is missing",) * 2,
    Rerun.UNMEASURED: ("has no score, though no provider failed",
                   "have no score, though no provider failed"),
}  # fmt: skip


def publication_check(
    summary: Mapping[str, Any], reruns: RerunCounts, tabs: Sequence[BatchTab]
) -> PublicationCheck:
    """Check that a batch can be published, by its summary and the rollouts to run again.

    Arguments:
        tabs: of its page; one of them may list those rollouts.
    """
    return PublicationCheck(
        valid=summary["valid"],
        head=_head(summary),
        reasons=tuple(_reasons(summary, reruns, tabs)),
    )


def _head(summary: Mapping[str, Any]) -> str:
    scored, own = summary["scored"], summary.get("own_failures") or 0
    measured = measured_words(scored, summary["repeats_planned"], own)
    if own:
        failures = "agent's own failure" if own == 1 else "agents' own failures"
        measured = f"{measured}: {scored - own:,} measured, {own:,} {failures}"
    if summary["valid"]:
        return f"{measured}, and no retry was cherry-picked"
    worst, best = summary["score_worst"], summary["score_best"]
    if worst is None or best is None or worst == best:
        return measured
    return f"{measured}; the score over all of them lies between {worst:.3f} and {best:.3f}"


def _reasons(
    summary: Mapping[str, Any], reruns: RerunCounts, tabs: Sequence[BatchTab]
) -> list[Reason]:
    listed = {kind: f"?tab={tab.name}#{kind}" for tab in tabs for kind in tab.sections}
    running = reruns.running
    reasons = [Reason(running, "still running", "?tab=rollouts&running=true")] if running else []
    never = summary["never_started"]
    for name, (one, many) in _OF_RERUNS.items():
        if count := reruns.kinds[name] - (never if name is Rerun.UNMEASURED else 0):
            reasons.append(Reason(count, one if count == 1 else many, listed.get(name)))
    if never:
        reasons.append(Reason(never, "never started", listed.get(Rerun.UNMEASURED)))
    if picked := summary["retried_after_score_total"]:
        text = "run again although already scored: the first score counts"
        reasons.append(Reason(picked, text, "?tab=tasks"))
    if summary["exclusion_bias"]:
        text = exclusion_words(summary["exclusion_bias"], summary["exclusion_p"])
        reasons.append(Reason(None, text, "#check"))
    if own := (summary["diagnostics"] or {}).get("own_failure_info", 0):
        text = "failed by the agent itself, and counted: look whether it was provoked"
        reasons.append(Reason(own, text, "#check"))
    return reasons


# --- pages -------------------------------------------------------------------------------------


_COST_TABLES = ("model", "role", "upstream")
_TASK_COLUMNS = {"score": "Score", "measured": "Measured", "repeats": "Repeats and attempts"}
_TASK_FILE = {
    "task": ("task",), "score": ("score",), "measured": ("measured",), "repeats": ("repeats",),
}  # fmt: skip
_TASK_KINDS: Mapping[TaskKind, str] = {
    TaskKind.ALL: "all",
    TaskKind.GAPS: "lack a repeat",
    TaskKind.NONE: "not measured",
}
# The lists of a batch's rollouts if no filter is given: those not measured come first.
_APART = (
    ("Not measured", (("reward", "null"), ("reward", "missing"))),
    ("Measured", (("reward", "nonzero"), ("reward", "zero"))),
)

router = page_router()


@router.get("/")
async def _batches(context: Context, request: Request, page: Number = 1) -> Response:
    service = context.service
    batches = await dashboard.batch_page(service, page)
    names = [item["batch"] for item in batches.items]
    earlier = await dashboard.earlier_batches(service, names)
    sparks = {
        item["batch"]: charts.sparkline(
            [*earlier[item["batch"]], (item["batch"], item["summary"]["score_effective"])]
        )
        for item in batches.items
    }
    return await context.page(
        "batches.html",
        request,
        "batches",
        page=batches,
        sparks=sparks,
        alone=await dashboard.without_batch(service),
        in_flight=await dashboard.in_flight(service),
        unnoticed=await dashboard.unnoticed(service),
        actions=context.batch_actions,
        columns=[
            (column, {name: await column.read(service, name) for name in names})
            for column in context.batch_columns
        ],
        address=context.address(request),
        registration_required=context.registration_required,
        live="",
    )


@router.get("/ui/batches/{batch:path}")
async def _batch(
    context: Context,
    request: Request,
    batch: Name,
    tab: Text = "",
    show: TaskKind | Literal[""] = "",
    text: Text = "",
    number: Annotated[int, Query(alias="page", ge=1, le=1_000_000)] = 1,
    file: Text = "",
) -> Response:
    # An address of the first release has filters and no tab.
    implied = "rollouts" if request.query_params else "overview"
    tabs: Sequence[BatchTab] = request.app.state.batch_tabs
    chosen = next((each for each in tabs if each.name == (tab or implied)), None)
    if chosen is None:
        raise Refusal(422, "invalid", "invalid query parameter")
    if chosen.name == "tasks":
        items = request.query_params.multi_items()
        tasks = _tasks_view(items)
        if file:
            return await _tasks_file(context, batch, tasks, show, text, file)
        if (shorter := tasks.shorter(items)) is not None:
            return redirect(f"{path_of('batches', batch)}?{shorter}")
    if chosen.name == "rollouts":
        items = request.query_params.multi_items()
        rollouts = list_pages.read_view(items, batch=batch)
        if file:
            return await list_pages.rollouts_file(context.service, _lists(rollouts, batch), file)
        if (shorter := list_pages.shorter_query(rollouts, items)) is not None:
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
        address=context.address(request),
        **facts,
        **await chosen.read(OpenTab(context, request, batch, facts, tabs, show, text, number)),
        live=urlencode({"batch": batch}),
    )


async def _overview(tab: OpenTab) -> dict[str, Any]:
    service, batch, summary = tab.context.service, tab.batch, tab.facts["summary"]
    timeline = await dashboard.timeline(service, batch)
    unmeasured = summary["scoreable"] < summary["total"]
    return {
        "episodes": await batch_episodes(service, batch) if unmeasured else [],
        "chart": timeline and charts.failures(timeline.points, timeline.step_s),
        "publication": publication_check(summary, tab.facts["reruns"], tab.tabs),
        "panels": await tab.context.shown(PanelPlace.BATCH_CHECK, batch),
    }


async def _rollouts(tab: OpenTab) -> dict[str, Any]:
    """Return the lists of a batch's rollouts: as asked for, else those not measured first."""
    view = list_pages.read_view(tab.request.query_params.multi_items(), batch=tab.batch)
    lists, service = _lists(view, tab.batch), tab.context.service
    titles = ["Rollouts"] if len(lists) == 1 else [title for title, _ in _APART]
    return {
        "view": view,
        "form": view.form,
        "lists": [
            (
                title,
                each,
                *await judged_rollouts(service, each.form.parameters, fresh=True),
            )
            for title, each in zip(titles, lists, strict=True)
        ],
        "short_query": list_pages.short_query,
        "written": [name for name in list_pages.WRITTEN if name != "batch"],
        **list_pages.table_values(),
    }


def _lists(view: RolloutsView, batch: str) -> list[RolloutsView]:
    """Return the view, or the two that it stands for if nothing is filtered or sorted."""
    if view.form.query or view.form.parameters.after:
        return [view]
    return [replace(view, form=list_pages.read_form(filters, batch=batch)) for _, filters in _APART]


def _tasks_view(items: Sequence[tuple[str, str]]) -> TableView:
    return read_table(
        items,
        kept=("tab",),
        filters=("show", "text"),
        columns=("task", *_TASK_COLUMNS),
        usual_sort="measured",
        down=("repeats",),
    )


async def _tasks(tab: OpenTab) -> dict[str, Any]:
    view = _tasks_view(tab.request.query_params.multi_items())
    kind, order = TaskKind(tab.show or "all"), TaskOrder(view.sort)
    page = await dashboard.task_page(
        tab.context.service,
        tab.batch,
        kind=kind,
        order=order,
        descending=view.descending,
        text=tab.text,
        number=tab.number,
    )
    rewards, bounds = page.rewards, page.rewards.bounds
    span = bounds or (rewards.least or 0.0, rewards.greatest or 0.0)
    return {
        "strips": [charts.strip(row, span) for row in page.rows],
        "span": span,
        "bounded": bounds is not None,
        "tasks": page,
        "view": view,
        "show": kind,
        "kinds": {
            **_TASK_KINDS,
            TaskKind.ZERO: f"score {format.reward(span[0])}",
            TaskKind.BETWEEN: "between",
            TaskKind.ONE: f"score {format.reward(span[1])}",
        },
        "labels": _TASK_COLUMNS,
        "files": list(list_pages.FILES),
    }


async def _tasks_file(
    context: PageContext,
    batch: str,
    view: TableView,
    show: TaskKind | Literal[""],
    text: str,
    ending: str,
) -> Response:
    file_format = list_pages.file_format(ending)
    kind, order = TaskKind(show or "all"), TaskOrder(view.sort)
    tasks = await dashboard.listed_tasks(
        context.service, batch, kind=kind, order=order, descending=view.descending, text=text
    )
    columns = view.file_columns(_TASK_FILE, "task")
    rows = [{name: getattr(each, name) for name in columns} for each in tasks]
    return await file_response("tasks", file_format, in_one(rows), columns)


async def _cost(tab: OpenTab) -> dict[str, Any]:
    return {
        "tables": await reports.usage_tables(tab.context.service, tab.batch, _COST_TABLES),
        "panels": await tab.context.shown(PanelPlace.BATCH_COST, tab.batch),
    }


TABS = (
    BatchTab(name="overview", label="Overview", template="batch_overview.html", read=_overview),
    BatchTab(name="rollouts", label="Rollouts", template="batch_rollouts.html", read=_rollouts),
    BatchTab(name="tasks", label="Tasks", template="batch_tasks.html", read=_tasks),
    BatchTab(name="cost", label="Cost", template="batch_cost.html", read=_cost),
)
"""The kernel's own tabs, in their order; those of features follow them."""
