"""The pages of causes and upstreams: each failure with its place, its begin and its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from proxy.api.lists import file_response, in_one
from proxy.control.failures import CauseStats, cause_page, unexplained_calls
from proxy.control.health import status_report
from proxy.control.queries import run_in_thread
from proxy.control.upstreams import (
    LONGEST_S,
    UpstreamStats,
    quiet_outages,
    upstream_report,
)
from proxy.web import badges, charts, format, list_pages, render
from proxy.web.context import (
    Bound,
    Context,
    PageContext,
    Text,
    TimeRange,
    page_router,
    read_time_range,
    redirect,
)
from proxy.web.panels import PanelPlace
from proxy.web.tables import read_table

# --- remedies, one sentence for a cause --------------------------------------------------------


# By the reason that a cause's name ends in, or its code.
_BY_REASON: Mapping[str, str] = {
    "context_length": "Shorten the prompt, or choose a model with a longer context.",
    "content_filter": "Look at the task: the provider's filter blocks its content.",
    "too_large": "Send smaller requests.",
    "unsupported": "Remove the parameter that the model does not support.",
    "malformed": "Correct the request that the agent builds.",
    "wrong_endpoint": "Correct the base URL or path that the agent calls.",
    "lost_state": "Send the whole conversation as the provider gave it, signatures included.",
    "wrong_shape": "Correct the gateway: it answers in the shape of another API than was asked.",
    "harness_budget": "Raise the budget that the harness sets for a rollout.",
    "harness_refusal": "Look at the harness's own relay: no provider refused this.",
    "offline": "Start the endpoint or the tunnel that the base URL leads to.",
    "signature": "Check the secret that signs requests, and this machine's clock.",
    "proxy_auth": "Give the proxy between here and the provider its credentials.",
    "stalled": "Wait for the provider, or choose another region or model.",
}
_BY_SUBCATEGORY: Mapping[str, str] = {
    "auth": "Replace the API key, or give it access to this model.",
    "quota": "Add credit or raise the plan's limit, then run the affected rollouts again.",
    "model_not_found": "Correct the model's name, or get access to it for this account.",
    "rate_limit": "Run fewer rollouts at once, or raise the limit; retrying helps.",
    "provider_error": "Wait until the provider is back; retrying helps.",
    "rejected_request": "Correct the request: the same one is rejected again.",
}
_BY_RULE: Mapping[str, str] = {
    "zero_signal": "Check that the agent calls its model through the proxy: truezero doctor.",
    "unread_answers": "Open one of the calls: what came back is no answer in any known form.",
    "empty_answers": "Look at the model's settings: its answers hold no text and no tool call.",
    "never_answered": "Raise the agent's timeout: it gives up before an answer.",
    "unexplained_rejections": "Send one of the requests by hand: the provider gives no reason.",
}


def remedy(fingerprint: str, subcategory: str | None, cause: str | None) -> str:
    """Return the remedy for a cause, as one sentence.

    Arguments:
        fingerprint: ``quota:429``, or ``suspected:`` and the rule.
        cause: ``v1:quota:openai:429:insufficient_quota``; None if none was proven.
    """
    if subcategory is None:
        rule = fingerprint.partition(":")[2]
        return _BY_RULE.get(rule, "Look at one of the rollouts.")
    reason = (cause or "").rpartition(":")[2]
    return _BY_REASON.get(reason, _BY_SUBCATEGORY[subcategory])


# --- page of causes ----------------------------------------------------------------------------


CAUSE_WINDOWS_S = (86_400, 7 * 86_400, 30 * 86_400)
LISTED = 100  # causes on the page
BATCHES = 3  # of a cause that are named
UNEXPLAINED = 50  # errors on the page
_SUSPECTED = "suspected"  # in place of the subcategory of a cause that has none

router = page_router()


@router.get("/ui/causes")
async def _causes(
    context: Context,
    request: Request,
    window: Annotated[int, Query(ge=3600, le=365 * 86_400)] = CAUSE_WINDOWS_S[1],
    since: Bound = None,
    until: Bound = None,
    text: Text = "",
    upstream: Text = "",
    model: Text = "",
    file: Text = "",
) -> Response:
    service = context.service
    view = read_table(
        request.query_params.multi_items(),
        kept=("window", "since", "until"),
        filters=("text", "subcategory", "upstream", "model"),
        columns=[*_ORDERS],
        usual_sort="recent",
        down=("rollouts", "recent", "batches", "last_seen"),
        several=("subcategory",),
    )
    if not file and (shorter := view.shorter(request.query_params.multi_items())) is not None:
        return redirect(f"/ui/causes?{shorter}" if shorter else "/ui/causes")
    chosen = read_time_range(service.now(), window, since, until)
    page = await cause_page(service, chosen.since, chosen.until)
    # Those of any time are listed, unless a time was chosen.
    struck = [each for each in page.items if each.recent or chosen.window is not None]
    wanted = {"upstream": upstream, "model": model}
    subcategories = view.values("subcategory")
    asked = [
        each
        for each in struck
        if all(value in ("", getattr(each.key, name)) for name, value in wanted.items())
        and (not subcategories or (each.key.subcategory or _SUSPECTED) in subcategories)
        and text.strip().casefold() in " ".join(filter(None, each.key)).casefold()
    ]
    listed = view.ordered(asked, _ORDERS[view.sort])
    if file:
        rows = list(map(_row, listed))
        return await file_response(
            "causes",
            list_pages.file_format(file),
            in_one(rows),
            view.file_columns(_FILE_COLUMNS, "cause"),
        )
    unexplained = await unexplained_calls(service, chosen.since, chosen.until, limit=UNEXPLAINED)
    most = max((count for each in listed for count in each.trend), default=0) or 1
    return await context.page(
        "causes.html",
        request,
        "causes",
        items=[_item(each, chosen) for each in listed[:LISTED]],
        total=len(listed),
        most=most,
        step_s=page.step_s,
        start=page.start,
        chosen=chosen,
        windows=CAUSE_WINDOWS_S,
        most_batches=BATCHES,
        unexplained=unexplained,
        badge_of=badges.of_cause,
        view=view,
        labels={
            **_LABELS,
            "recent": f"Last {format.seconds(chosen.window)}" if chosen.window else "In this time",
        },
        written=("upstream", "model"),
        choices={"subcategory": [*list_pages.CHOICES["subcategory"], _SUSPECTED]},
        files=list(list_pages.FILES),
        address=context.address(request),
        live="",
    )


def _remedy(stats: CauseStats) -> str:
    return remedy(stats.key.fingerprint, stats.key.subcategory, stats.key.cause)


# What the columns are sorted by; causes alike in it stay as they struck the window.
_ORDERS: Mapping[str, Callable[[CauseStats], Any]] = {
    "cause": lambda each: each.key.fingerprint,
    "upstream": lambda each: (each.key.upstream or "", each.key.model or ""),
    "rollouts": lambda each: each.rollouts,
    "recent": lambda each: (each.recent, each.rollouts),
    "batches": lambda each: len(each.batches),
    "last_seen": lambda each: each.last_seen,
    "remedy": _remedy,
}
_LABELS = {
    "upstream": "Upstream, model", "rollouts": "Rollouts", "recent": "", "batches": "Batches",
    "last_seen": "First, last seen", "remedy": "What to do",
}  # fmt: skip
_FILE_COLUMNS = {
    "cause": ("fingerprint", "cause", "subcategory"), "upstream": ("upstream", "model"),
    "rollouts": ("rollouts",), "recent": ("recent",), "batches": ("batches",),
    "last_seen": ("first_seen", "last_seen"), "remedy": ("remedy",),
}  # fmt: skip


def _row(stats: CauseStats) -> dict[str, Any]:
    """Return a cause as a file has it; ``recent`` are the rollouts of the time that is shown."""
    shown = {
        name: getattr(stats, name) for name in ("rollouts", "recent", "first_seen", "last_seen")
    }
    named = {"batches": " ".join(stats.batches), "remedy": _remedy(stats)}
    return {**stats.key._asdict(), **shown, **named}


@router.get("/ui/fingerprints")
async def _moved() -> Response:
    return redirect("/ui/causes")


def _item(stats: CauseStats, chosen: TimeRange) -> Mapping[str, Any]:
    key = stats.key
    where = {"upstream": key.upstream, "model": key.model}
    what = {"cause": key.cause} if key.cause else {"fingerprint": key.fingerprint}
    query = {name: value for name, value in (what | where).items() if value}
    return {
        "stats": stats,
        "key": key,
        "badge": badges.of_cause(key.subcategory),
        "code": (key.cause or "").rpartition(":")[2].removeprefix("-"),
        "remedy": _remedy(stats),
        "query": urlencode(query),
        "within": urlencode({**query, **chosen.named("since", "until")}),
    }


# --- page of upstreams -------------------------------------------------------------------------
# How each does, by model, by key and over time.


UPSTREAM_WINDOWS_S = (900, 3600, 86_400, 7 * 86_400)
MODELS, KEYS = 12, 8  # of one upstream on the page
_CHART_HEIGHT = 66  # pixels


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
