"""The page of causes: each with its place, its trend, its begin and its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from proxy.api.lists import file_response, in_one
from proxy.features.failures.control import CauseStats, cause_page, unexplained_calls
from proxy.web import badges, format, list_pages
from proxy.web.context import (
    Bound,
    Context,
    Text,
    TimeRange,
    page_router,
    read_time_range,
    redirect,
)
from proxy.web.remedies import remedy
from proxy.web.tables import QuickFilter, TableView, read_table

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
        "failures/causes.html",
        request,
        "causes",
        items=[_item(each, chosen) for each in listed[:LISTED]],
        total=len(listed),
        rollouts=sum(each.rollouts for each in listed),
        quick=_quick(view, struck),
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


def _quick(view: TableView, listed: Sequence[CauseStats]) -> list[QuickFilter]:
    """Return a filter for each subcategory that there is, with its number of causes."""
    counts = Counter(each.key.subcategory or _SUSPECTED for each in listed)
    chosen = view.values("subcategory")
    return [
        QuickFilter("All", len(listed), view.query(subcategory=None), not chosen),
        *(
            QuickFilter(
                name.replace("_", " "), count, view.query(subcategory=name), chosen == [name]
            )
            for name, count in counts.most_common()
        ),
    ]


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
