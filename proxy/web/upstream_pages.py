"""The pages of upstreams, by model, by key and over time, and the page of lanes' health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Request, Response

from proxy.control.health import status_report
from proxy.control.queries import run_in_thread
from proxy.control.upstreams import LONGEST_S, UpstreamStats, quiet_outages, upstream_report
from proxy.web import charts, render
from proxy.web.context import (
    Bound,
    Context,
    PageContext,
    page_router,
    read_time_range,
    redirect,
)
from proxy.web.panels import PanelPlace

UPSTREAM_WINDOWS_S = (900, 3600, 86_400, 7 * 86_400)
MODELS, KEYS = 12, 8  # of one upstream on the page
_CHART_HEIGHT = 66  # pixels


router = page_router()


@router.get("/ui/upstreams")
async def _upstreams(
    context: Context,
    request: Request,
    window: Annotated[int, Query(ge=60, le=LONGEST_S)] = UPSTREAM_WINDOWS_S[0],
    since: Bound = None,
    until: Bound = None,
) -> Response:
    chosen = read_time_range(context.service.now(), window, since, until)
    report = await upstream_report(context.service, chosen.since, until=chosen.until)
    lanes = [] if chosen.until is not None else (await status_report(context.service)).items
    outages = [] if chosen.until is not None else await quiet_outages(context.service, report)
    return await context.page(
        "upstreams.html",
        request,
        "upstreams",
        report=report,
        outages=outages,
        open={} if chosen.until is not None else report.open,
        panels=[] if chosen.until is not None else await context.shown(PanelPlace.UPSTREAM),
        lanes={
            name: [each.to_dict() for each in lanes if each.place.upstream == name]
            for name in {each.place.upstream for each in lanes}
        },
        items=[(item, _charts(item, report.window.step_s)) for item in report.items],
        chosen=chosen,
        windows=UPSTREAM_WINDOWS_S,
        most_models=MODELS,
        most_keys=KEYS,
        live="",
    )


def _charts(item: UpstreamStats, step_s: int) -> Mapping[str, charts.TimeChart | None]:
    models = [(name or "no model named", points) for name, points in item.model_points]
    return {
        "calls": charts.failures(item.points, step_s, height=_CHART_HEIGHT),
        "latencies": charts.latencies(item.points, step_s, item.stats.latencies),
        "models": charts.multiples(models, step_s),
        "keys": charts.multiples(item.key_points, step_s),
    }


@router.get("/ui/status")
async def _status() -> Response:
    return redirect("/status")


async def status_page(
    context: PageContext, request: Request, report: Mapping[str, Any], short: bool
) -> Response | None:
    """Render the health of lanes as a page, if the request asks for one.

    Arguments:
        short: the form for everybody, without the navigation that others have.
    """
    accept = request.headers.get("accept", "").lower()
    if "text/html" not in [part.partition(";")[0].strip() for part in accept.split(",")]:
        return None
    if short:
        now = context.service.now()
        page: Response = await run_in_thread(render.page, "status.html", report=report, now=now)
    else:
        page = await context.page("status.html", request, "status", report=report, live="")
    page.headers["vary"] = "accept"
    return page
