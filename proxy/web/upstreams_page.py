"""The page of upstreams: how each does, by model, by key and over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response

from proxy.control.upstreams import LONGEST_S, Timeline, TimelinePoint, UpstreamStats
from proxy.web import charts, time_range
from proxy.web.context import Context, page_router
from proxy.web.time_range import Bound

UPSTREAM_WINDOWS_S = (900, 3600, 86_400, 7 * 86_400)
MODELS, KEYS = 12, 8  # of one upstream on the page
_CHART_HEIGHT, _HEIGHT = 64, 48  # pixels: of the columns, of the lines of latencies

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLine:
    """First bytes over time as SVG paths, a stroke a step: x to 1000, y in pixels.

    ``most_s`` is the second at the top; ``label`` says it as text.
    """

    p50: str
    p95: str
    height: int
    most_s: float


@router.get("/ui/upstreams")
async def _upstreams(
    context: Context,
    request: Request,
    window: Annotated[int, Query(ge=60, le=LONGEST_S)] = UPSTREAM_WINDOWS_S[0],
    since: Bound = None,
    until: Bound = None,
) -> Response:
    chosen = time_range.read(context.dashboard.now(), window, since, until)
    report = await context.services.pages.upstreams.report(chosen.since, until=chosen.until)
    return await context.page(
        "upstreams.html",
        request,
        "upstreams",
        report=report,
        items=[(item, _chart(item, report.window.step_s), line(item)) for item in report.items],
        chosen=chosen,
        windows=UPSTREAM_WINDOWS_S,
        most_models=MODELS,
        most_keys=KEYS,
        live="",
    )


def _chart(item: UpstreamStats, step_s: int) -> charts.Chart:
    points = [
        TimelinePoint(at=point.at, calls=point.calls, failed=point.failed) for point in item.points
    ]
    return charts.chart(Timeline(step_s=step_s, points=points), answered=True, height=_CHART_HEIGHT)


def line(item: UpstreamStats) -> LatencyLine | None:
    """Lay out an upstream's first bytes over time; None where none is known."""
    known = [each.first_byte_p95_s for each in item.points if each.first_byte_p95_s is not None]
    if not known:
        return None
    most = max(known) or 1.0
    return LatencyLine(
        p50=_points([each.first_byte_p50_s for each in item.points], most),
        p95=_points([each.first_byte_p95_s for each in item.points], most),
        height=_HEIGHT,
        most_s=most,
    )


def _points(values: Sequence[float | None], most: float) -> str:
    step = 1000 / len(values)
    return "".join(
        f"M{n * step:.1f} {_HEIGHT * (1 - value / most):.1f}h{step:.1f}"
        for n, value in enumerate(values)
        if value is not None
    )
