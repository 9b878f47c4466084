"""The page of upstreams: each key and model as it is now, since when, what to do; and over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response

from classifier.attribution import OPERATORS
from classifier.fingerprints import Lane
from classifier.lane_health import LaneWord
from classifier.verdicts import Subcategory
from proxy.api.lists import file_response, in_one
from proxy.control.health import AGENTS_OWN
from proxy.control.queries import run_in_thread
from proxy.control.upstreams import (
    LONGEST_S,
    LaneStats,
    UpstreamStats,
    WindowReport,
    lane_points,
    quiet_lanes,
    upstream_report,
)
from proxy.web import charts, list_pages, render
from proxy.web.context import (
    Bound,
    Context,
    PageContext,
    Text,
    page_router,
    read_time_range,
    redirect,
)
from proxy.web.panels import LaneColumn, LaneMark
from proxy.web.remedies import remedy
from proxy.web.tables import QuickFilter, TableView, read_table

UPSTREAM_WINDOWS_S = (900, 3600, 86_400, 7 * 86_400)
LANES = 100  # on the page
_CHART_HEIGHT = 66  # pixels
_QUIET_S = 300.0  # without a call, from which on it is said


# --- one row a key and model ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One key and model as it is now.

    ``tone`` and ``word`` are a pill's; ``since`` is when it began to fail (epoch seconds, None if
    that is longer ago than is kept or it does not), ``cause`` why; ``failed`` of ``calls`` are
    without the agents' own bad requests. ``marks`` are those of features, by column.
    """

    stats: LaneStats
    tone: str
    word: str
    cause: str | None
    since: float | None
    answered_at: float | None
    calls: int
    failed: Mapping[str, int]
    marks: Mapping[str, Sequence[LaneMark]]

    @property
    def name(self) -> str:
        """The lane as people read it."""
        return self.stats.place.name

    @property
    def fails(self) -> bool:
        """True if it is failing."""
        return self.tone in ("bad", "warn")

    @property
    def failures(self) -> int:
        """Failed calls, without rejected requests."""
        return sum(self.failed.values()) - self.failed.get(Subcategory.REJECTED_REQUEST, 0)

    @property
    def waiting(self) -> int:
        """Calls in flight for far longer than usual."""
        return self.stats.now.health.waiting if self.stats.now else 0

    @property
    def in_flight(self) -> int:
        """Calls in flight."""
        return self.stats.now.open if self.stats.now else 0

    @property
    def whose(self) -> str:
        """The owner of the failure, in a word; empty if it does not fail."""
        if not self.fails:
            return ""
        if self.cause is None:
            return "not known"
        if self.cause in OPERATORS:
            return "operator's"
        return "agent's" if self.cause == Subcategory.REJECTED_REQUEST else "provider's"

    @property
    def remedy(self) -> str:
        """The remedy, as a sentence; empty if nothing is to be done."""
        if self.fails and self.cause is not None:
            return remedy(self.cause, self.cause, None)
        return "Look at the calls that have no answer yet." if self.waiting else ""


def _lane_row(stats: LaneStats, marks: Mapping[str, Sequence[LaneMark]]) -> LaneRow:
    now = stats.now
    tone, word = _state(stats)
    # Of a lane that was not called in the time that is shown, the calls that its health is from.
    earlier = now if now is not None and not stats.calls else None
    failed = earlier.failed if earlier else stats.failed
    cause = since = None
    if now and now.fails:
        cause, since = now.health.cause, now.health.since
    elif word == "failed":
        cause = max(failed, key=failed.__getitem__, default=None)
    return LaneRow(
        stats=stats,
        tone=tone,
        word=word,
        cause=cause,
        since=since,
        answered_at=_answered_at(stats),
        calls=earlier.calls if earlier else stats.calls,
        failed=failed,
        marks=marks,
    )


def _answered_at(stats: LaneStats) -> float | None:
    return stats.answered_at or (stats.now.health.answered_at if stats.now else None)


def _state(stats: LaneStats) -> tuple[str, str]:
    """Return the tone and the word: of its health, else what its last call came to."""
    now = stats.now
    if now is not None and now.fails:
        return ("bad" if now.health.word is LaneWord.DOWN else "warn"), now.health.word.value
    if now is not None and now.health.waiting:
        return "warn", f"{now.health.waiting:,} hang"
    if now is not None and now.health.word is LaneWord.HEALTHY:
        return "good", "healthy"
    answered_at = _answered_at(stats)
    if (stats.failed_at or 0.0) > (answered_at or 0.0) or (now and now.failed and not answered_at):
        return "warn", "failed"
    if answered_at is not None:
        return "", "answered"
    return ("run", "in flight") if now and now.open else ("", "not known")


_TONES = ("bad", "warn", "run", "", "good")
# What the columns are sorted by.
_ORDERS: Mapping[str, Callable[[LaneRow], Any]] = {
    "lane": lambda row: row.name,
    "now": lambda row: (-_TONES.index(row.tone), row.waiting, row.failures),
    "since": lambda row: row.since or row.stats.failed_at,
    "answered": lambda row: row.answered_at,
    "failed": lambda row: row.failures,
    "cause": lambda row: row.cause,
    "whose": lambda row: row.whose,
    "in_flight": lambda row: row.in_flight,
    "first_byte": lambda row: row.stats.latencies.first_byte_p95_s,
    "asked": lambda row: _asked_at(row.stats),
    "remedy": lambda row: row.remedy,
}
_LABELS = {
    "now": "Now", "since": "Failing since", "answered": "Last answer", "failed": "Failed",
    "cause": "Causes", "whose": "Whose", "in_flight": "In flight",
    "first_byte": "First byte p50 / p95", "asked": "Proxy asked", "remedy": "What to do",
}  # fmt: skip
_USUAL = ("now", "since", "answered", "failed", "whose", "in_flight")
_DOWN = ("now", "since", "answered", "failed", "in_flight", "first_byte", "asked")


def _asked_at(stats: LaneStats) -> float | None:
    reference = stats.now.health.reference if stats.now else None
    return reference.at if reference else None


def _file_row(row: LaneRow) -> dict[str, Any]:
    """Return a row as a file has it; times in epoch seconds."""
    place, latencies = row.stats.place, row.stats.latencies
    return {
        "upstream": place.upstream, "model": place.model, "key": place.key,
        "key_from": row.stats.key_from, "now": row.word, "since": row.since,
        "answered_at": row.answered_at, "failed": row.failures, "calls": row.calls,
        "cause": row.cause, "whose": row.whose or None, "in_flight": row.in_flight,
        "first_byte_p50_s": latencies.first_byte_p50_s,
        "first_byte_p95_s": latencies.first_byte_p95_s, "asked_at": _asked_at(row.stats),
        "remedy": row.remedy or None,
        **{name: "; ".join(each.text for each in of) or None for name, of in row.marks.items()},
    }  # fmt: skip


_FILE_COLUMNS: Mapping[str, Sequence[str]] = {
    "lane": ("upstream", "model", "key", "key_from"), "answered": ("answered_at",),
    "failed": ("failed", "calls", "cause"), "asked": ("asked_at",),
    "first_byte": ("first_byte_p50_s", "first_byte_p95_s"),
}  # fmt: skip


def _quick(
    view: TableView, rows: Sequence[LaneRow], columns: Sequence[LaneColumn]
) -> list[QuickFilter]:
    """Return the filters at hand, with the rows that each shows."""
    counts = {
        "failing": sum(row.fails for row in rows),
        "hanging": sum(bool(row.waiting) for row in rows),
        **{each.name: sum(bool(row.marks[each.name]) for row in rows) for each in columns},
    }
    labels = {"failing": "Failing", "hanging": "Hanging", **{e.name: e.label for e in columns}}
    chosen = view.values("only")
    return [
        QuickFilter("All", len(rows), view.query(only=None), not chosen),
        *(
            QuickFilter(labels[name], count, view.query(only=name), chosen == [name])
            for name, count in counts.items()
            if count or name == "failing"
        ),
    ]


def _kept(row: LaneRow, only: str) -> bool:
    return {"": True, "failing": row.fails, "hanging": bool(row.waiting)}.get(
        only, bool(row.marks.get(only))
    )


# --- pages ---------------------------------------------------------------------------------------


router = page_router()


@router.get("/ui/upstreams")
async def _upstreams(
    context: Context,
    request: Request,
    window: Annotated[int, Query(ge=60, le=LONGEST_S)] = UPSTREAM_WINDOWS_S[0],
    since: Bound = None,
    until: Bound = None,
    file: Text = "",
    lane: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    service, items = context.service, request.query_params.multi_items()
    chosen = read_time_range(service.now(), window, since, until)
    report = await upstream_report(service, chosen.since, until=chosen.until)
    lanes = await run_in_thread(report.lanes)
    marks: dict[str, Mapping[Lane, Sequence[LaneMark]]] = {}
    if chosen.until is None:
        lanes = [*await quiet_lanes(service, report, lanes), *lanes]
        marks = {each.name: await each.read(service) for each in context.lane_columns}
    added = [each for each in context.lane_columns if marks.get(each.name)]
    all_columns = [*_LABELS, *(each.name for each in added)]
    view = read_table(
        items,
        kept=("window", "since", "until", "lane"),
        filters=("text", "upstream", "model", "key", "only"),
        columns=["lane", *all_columns],
        usual=_usual(lanes, added),
        usual_sort="now",
        down=_DOWN,
    )
    if not file and (shorter := view.shorter(items)) is not None:
        return redirect(f"/ui/upstreams?{shorter}" if shorter else "/ui/upstreams")
    rows = [
        _lane_row(each, {name: of.get(_lane_of(each), ()) for name, of in marks.items()})
        for each in lanes
    ]
    wanted = [row for row in rows if _matches(row, view)]
    order = _ORDERS.get(view.sort) or (lambda row: [*row.marks.get(view.sort, ())] or None)
    ordered = view.ordered(sorted(wanted, key=lambda row: (-row.calls, row.name)), order)
    if file:
        names = {**{name: (name,) for name in all_columns}, **_FILE_COLUMNS}
        return await file_response(
            "upstreams", list_pages.file_format(file), in_one([_file_row(row) for row in ordered]),
            [*dict.fromkeys(view.file_columns(names, "lane"))],
        )  # fmt: skip
    return await context.page(
        "upstreams.html",
        request,
        "upstreams",
        report=report,
        rows=ordered[:LANES],
        total=len(ordered),
        opened=_opened(lane, ordered, report),
        lane=lane,
        quick=_quick(view, rows, added),
        failing=[row for row in rows if row.fails],
        labels={**_LABELS, **{each.name: each.label for each in added}},
        marked=[each.name for each in added],
        items=[(item, _charts(item, report.window.step_s)) for item in report.items],
        chosen=chosen,
        windows=UPSTREAM_WINDOWS_S,
        view=view,
        files=list(list_pages.FILES),
        address=context.address(request),
        agents_own=AGENTS_OWN,
        quiet_s=_QUIET_S,
        live="",
    )


def _usual(lanes: Sequence[LaneStats], added: Sequence[LaneColumn]) -> list[str]:
    asked = ["asked"] if any(_asked_at(each) for each in lanes) else []
    return [*_USUAL, *asked, *(each.name for each in added), "remedy"]


def _lane_of(stats: LaneStats) -> Lane:
    upstream, model, key, _ = stats.place
    return Lane(upstream=upstream, model=model, key=key and key.removeprefix("key-"))


def _matches(row: LaneRow, view: TableView) -> bool:
    place = row.stats.place._asdict()
    text = " ".join(view.values("text")).casefold().split()
    found = f"{row.name} {row.stats.key_from or ''} {row.word} {row.cause or ''}".casefold()
    return (
        all(word in found for word in text)
        and all(
            place[name] in view.values(name) for name in ("upstream", "model", "key")
            if view.values(name)
        )
        and _kept(row, next(iter(view.values("only")), ""))
    )  # fmt: skip


def _opened(
    lane: str, rows: Sequence[LaneRow], report: WindowReport
) -> Mapping[str, charts.TimeChart | None]:
    """Return the chart of the row that an address opens; none if no row is of that name."""
    for row in rows:
        if row.name == lane and row.stats.calls:
            points = lane_points(report.window, row.stats.steps)
            return {lane: charts.failures(points, report.window.step_s, height=_CHART_HEIGHT)}
    return {}


def _charts(item: UpstreamStats, step_s: int) -> Mapping[str, charts.TimeChart | None]:
    return {
        "calls": charts.failures(item.points, step_s, height=_CHART_HEIGHT),
        "latencies": charts.latencies(item.points, step_s, item.stats.latencies),
    }


@router.get("/ui/status")
async def _status() -> Response:
    return redirect("/ui/upstreams")


async def status_page(
    context: PageContext, request: Request, report: Mapping[str, Any], short: bool
) -> Response | None:
    """Render the short form of lanes' health as a page, if the request asks for one.

    Arguments:
        short: the form for everybody; others are led to the page of upstreams.
    """
    accept = request.headers.get("accept", "").lower()
    if "text/html" not in [part.partition(";")[0].strip() for part in accept.split(",")]:
        return None
    if not short:
        return redirect("/ui/upstreams")
    now = context.service.now()
    page: Response = await run_in_thread(render.page, "status.html", report=report, now=now)
    page.headers["vary"] = "accept"
    return page
