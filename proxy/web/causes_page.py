"""The page of causes: what fails rollouts, where, since when, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from proxy.control.alerts import CauseStats
from proxy.web import badges, mending, time_range
from proxy.web.context import Context, page_router, redirect
from proxy.web.time_range import Bound, TimeRange

CAUSE_WINDOWS_S = (86_400, 7 * 86_400, 30 * 86_400)
LISTED = 100  # causes on the page
BATCHES = 3  # of a cause that are named

router = page_router()


@router.get("/ui/causes")
async def _causes(
    context: Context,
    request: Request,
    window: Annotated[int, Query(ge=3600, le=365 * 86_400)] = CAUSE_WINDOWS_S[1],
    since: Bound = None,
    until: Bound = None,
) -> Response:
    chosen = time_range.read(context.dashboard.now(), window, since, until)
    page = await context.services.pages.causes.page(chosen.since, chosen.until)
    # Those of any time are listed, unless a time was chosen.
    shown = [each for each in page.items if each.recent or chosen.window is not None]
    most = max((count for each in shown for count in each.trend), default=0) or 1
    return await context.page(
        "causes.html",
        request,
        "causes",
        items=[_item(each, chosen) for each in shown[:LISTED]],
        found=len(shown),
        most=most,
        step_s=page.step_s,
        start=page.start,
        chosen=chosen,
        windows=CAUSE_WINDOWS_S,
        most_batches=BATCHES,
        live="",
    )


@router.get("/ui/fingerprints")
async def _moved() -> Response:
    return redirect("/ui/causes")


def _item(found: CauseStats, chosen: TimeRange) -> Mapping[str, Any]:
    key = found.key
    where = {"upstream": key.upstream, "model": key.model}
    what = {"cause": key.cause} if key.cause else {"fingerprint": key.fingerprint}
    query = {name: value for name, value in (what | where).items() if value}
    return {
        "stats": found,
        "key": key,
        "badge": badges.of_cause(key.subcategory),
        "code": (key.cause or "").rpartition(":")[2].removeprefix("-"),
        "advice": mending.advice(key.fingerprint, key.subcategory, key.cause),
        "query": urlencode(query),
        "within": urlencode({**query, **chosen.named("since", "until")}),
    }
