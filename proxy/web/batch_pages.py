"""The pages of batches: the list, one batch by tabs, and two compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from proxy.control.queries import path_of
from proxy.web import badges, charts, forms, list_form, publishable, render, run_charts
from proxy.web.context import Context, Name, Number, PageContext, Text, page_router, redirect
from truezero import models

_COST_TABLES = ("model", "role", "upstream")
_TASKS = 100  # of a comparison, on one page
_COPIED = 500  # ids that a page holds to be copied; of more it has the command
# What a batch's rollouts are listed by, where nothing is asked: those not measured come first.
_APART = (
    ("Not measured", (("reward", "null"), ("reward", "missing"))),
    ("Measured", (("reward", "nonzero"), ("reward", "zero"))),
)
_KINDS: Mapping[models.RerunName, tuple[str, str]] = {
    "transient": ("Run again now", "The provider failed for a while."),
    "fix_first": ("Fix first", "Each would fail again until its cause is fixed."),
    "skipped": ("Skipped", "An open breaker did not admit them."),
    "undecided": ("Undecided", "Evidence is missing, so nobody can say whether they count."),
    "unmeasured": ("Not measured", "The provider did not fail, and there is no valid score."),
}


class Tab(StrEnum):
    """The tabs of a batch's page."""

    OVERVIEW = "overview"
    ROLLOUTS = "rollouts"
    TASKS = "tasks"
    COST = "cost"
    BREAKERS = "breakers"
    AGAIN = "again"


router = page_router()


@router.get("/")
async def _batches(context: Context, request: Request, page: Number = 1) -> Response:
    found = await context.dashboard.batches(page)
    names = [item["batch"] for item in found.items]
    earlier = await context.services.reports.pages.earlier(names)
    sparks = {
        item["batch"]: run_charts.sparkline(
            [*earlier[item["batch"]], (item["batch"], item["summary"]["score_effective"])]
        )
        for item in found.items
    }
    return await context.page(
        "batches.html",
        request,
        "batches",
        page=found,
        sparks=sparks,
        alone=await context.dashboard.without_batch(),
        in_flight=await context.dashboard.in_flight(),
        unnoticed=await context.dashboard.unnoticed(),
        address=context.address(request),
        live="",
    )


@router.get("/ui/compare")
async def _compare(
    context: Context,
    request: Request,
    a: Text = "",
    b: Text = "",
    run: Annotated[Sequence[Text], Query()] = (),
    change: models.Change | Literal[""] = "",
    after: Text = "",
) -> Response:
    if len(run) == 2:
        first, second = await context.services.reports.pages.older_first(*run)
        return redirect("/ui/compare?" + urlencode({"a": first, "b": second}))
    names = await context.services.reports.pages.names()
    found = None
    if a and b:
        found = await context.services.reports.comparisons.page(
            a, b, changes=[change] if change else (), after=after or None, limit=_TASKS
        )
    return await context.page(
        "compare.html",
        request,
        "batches",
        a=a,
        b=b,
        ticked=len(run),
        names=names,
        found=found,
        drawn=found and run_charts.difference(found["difference"], found["difference_ci"]),
        changes=badges.CHANGES,
        change=change,
        query=urlencode({"a": a, "b": b}),
        after=after,
        live="",
    )


@router.get("/ui/rerun.json")
async def _rerun(context: Context, batch: Text) -> Response:
    found = await context.services.reports.reruns.of_batch(batch)
    return JSONResponse(found, headers=dict(render.HEADERS))


@router.get("/ui/batches/{batch:path}")
async def _batch(
    context: Context,
    request: Request,
    batch: Name,
    tab: Tab | Literal[""] = "",
    after: Text = "",
) -> Response:
    # An address of the first release has filters and no tab.
    implied = Tab.ROLLOUTS if request.query_params else Tab.OVERVIEW
    shown = Tab(tab) if tab else implied
    data = await context.dashboard.batch(batch)
    match shown:
        case Tab.OVERVIEW:
            more = await _overview(context, batch, data)
        case Tab.ROLLOUTS:
            more = await _rollouts(context, batch, request.query_params.multi_items())
        case Tab.TASKS:
            more = await _tasks(context, batch, after)
        case Tab.COST:
            more = {"tables": await context.services.reports.usage.tables(batch, _COST_TABLES)}
        case Tab.BREAKERS:
            more = {}
        case Tab.AGAIN:
            more = await _again(context, batch)
    return await context.page(
        f"batch_{shown.value}.html",
        request,
        "batches",
        batch=batch,
        tab=shown.value,
        **data,
        **more,
        live=urlencode({"batch": batch}),
    )


@router.post("/ui/batches/{batch:path}/breaker/reset")
async def _reset(context: Context, request: Request, batch: Name) -> Response:
    fields = await forms.fields(request)
    context.check_form(request, fields)
    await context.services.batches.reset_breaker(batch, lane=fields.get("lane") or None)
    return redirect(path_of("batches", batch) + "?tab=breakers")


async def _overview(context: PageContext, batch: str, data: Mapping[str, Any]) -> dict[str, Any]:
    timeline = await context.dashboard.timeline(batch)
    return {
        "chart": timeline and charts.chart(timeline),
        "answer": publishable.answer(data["summary"], data["reruns"]),
    }


async def _rollouts(
    context: PageContext, batch: str, items: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the lists of a batch's rollouts: as asked, else those not measured before the rest."""
    asked = [(name, value) for name, value in items if name != "tab"]
    form = list_form.read_form(asked, batch=batch)
    apart = () if form.query or form.asked.after else _APART
    lists = [(title, list_form.read_form(given, batch=batch)) for title, given in apart]
    return {
        "form": form,
        "lists": [
            (title, each, *await context.dashboard.rollouts(each.asked, fresh=True))
            for title, each in lists or [("Rollouts", form)]
        ],
    }


async def _tasks(context: PageContext, batch: str, after: str) -> dict[str, Any]:
    found = await context.services.reports.pages.tasks(batch, after=after or None)
    return {
        "strips": [run_charts.strip(row) for row in found.rows],
        "after": after,
        "next": found.next and urlencode({"tab": "tasks", "after": found.next}),
    }


async def _again(context: PageContext, batch: str) -> dict[str, Any]:
    found = await context.services.reports.reruns.of_batch(batch)
    kinds = [(name, *words, found[name], _ids(found[name])) for name, words in _KINDS.items()]
    return {
        "kinds": kinds,
        "running": found["running"],
        "total": sum(found[name]["count"] for name in _KINDS),
        "json_path": "/ui/rerun.json?" + urlencode({"batch": batch}),
        "copied": _COPIED,
    }


def _ids(kind: Mapping[str, Any]) -> list[str]:
    found = (item["rollout_id"] for group in kind["groups"] for item in group["items"])
    return [name for name in found if name is not None]
