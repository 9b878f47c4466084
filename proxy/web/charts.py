"""Geometry of charts, which templates draw as SVG.

Horizontal positions are in percent, so that a chart fits any width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from proxy.control.upstreams import Timeline, TimelinePoint
from proxy.web import badges, format
from proxy.web.badges import HEALTHY, Badge
from truezero.printable import plural

_MIN_WIDTH = 0.6  # percent: one rollout of ten thousand is still visible
_CHART_HEIGHT = 120  # pixels
_LABELS = 5  # below a timeline, roughly


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a bar; ``x`` and ``width`` in percent."""

    badge: Badge
    count: int
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Counts side by side; ``label`` has them as text."""

    segments: Sequence[Segment]
    total: int
    label: str


def bar(counts: Iterable[tuple[Badge, int]], noun: str) -> Bar:
    """Lay counts out as a bar; small ones are widened to stay visible."""
    nonzero = [(badge, count) for badge, count in counts if count]
    total = sum(count for _, count in nonzero)
    widths = [max(_MIN_WIDTH, 100 * count / total) for _, count in nonzero]
    scale = 100 / sum(widths) if widths else 1
    segments, x = [], 0.0
    for (badge, count), width in zip(nonzero, widths, strict=True):
        segments.append(Segment(badge=badge, count=count, x=x, width=width * scale))
        x += width * scale
    parts = ", ".join(f"{count:,} {badge.label}" for badge, count in nonzero)
    return Bar(segments=segments, total=total, label=f"{plural(total, noun)}: {parts}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One count in a column; ``y`` and ``height`` in pixels from the top."""

    badge: Badge
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One step of a timeline; ``x`` and ``width`` in percent."""

    at: float
    calls: int
    blocks: Sequence[Block]
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Failures over time as stacked columns.

    ``ticks`` are (percent, text) below it, ``lines`` (pixels, count) across it; ``totals`` the
    count of each badge.
    """

    columns: Sequence[Column]
    height: int
    step_s: int
    most: int
    ticks: Sequence[tuple[float, str]]
    lines: Sequence[tuple[float, int]]
    totals: Sequence[tuple[Badge, int]]
    calls: int
    label: str


def chart(timeline: Timeline, *, answered: bool = False, height: int = _CHART_HEIGHT) -> Chart:
    """Lay out a timeline's failures, stacked by subcategory in the order of the legend.

    Arguments:
        answered: answered calls stand on top of them.
        height: in pixels.
    """
    points = timeline.points
    stacks = [_stack(point, answered=answered) for point in points]
    most = max((sum(stack.values()) for stack in stacks), default=0)
    top = _round_up(most)
    width = 100 / len(points)
    totals: Counter[Badge] = Counter()
    for stack in stacks:
        totals.update(stack)
    legend = [(badge, totals[badge]) for badge in (*badges.CAUSES.values(), HEALTHY)]
    legend = [(badge, count) for badge, count in legend if count]
    columns = [
        Column(
            at=point.at,
            calls=point.calls,
            blocks=_blocks(stack, top, height),
            x=n * width,
            width=width,
        )
        for n, (point, stack) in enumerate(zip(points, stacks, strict=True))
    ]
    return Chart(
        columns=columns,
        height=height,
        step_s=timeline.step_s,
        most=most,
        ticks=_ticks(timeline),
        lines=[(height * (1 - part), round(top * part)) for part in (0.5, 1.0)],
        totals=legend,
        calls=sum(point.calls for point in points),
        label=_chart_label(timeline, legend, answered=answered),
    )


def _stack(point: TimelinePoint, *, answered: bool) -> dict[Badge, int]:
    stack = {badge: point.failed.get(name, 0) for name, badge in badges.CAUSES.items()}
    if answered:
        stack[HEALTHY] = point.calls - sum(point.failed.values())
    return {badge: count for badge, count in stack.items() if count}


def _blocks(stack: Mapping[Badge, int], top: int, whole: int) -> list[Block]:
    blocks, bottom = [], float(whole)
    for badge, count in stack.items():
        height = max(1.5, whole * count / top)
        bottom -= height
        blocks.append(Block(badge=badge, count=count, y=bottom, height=height))
    return blocks


def _round_up(most: int) -> int:
    """Return the top of a scale: the next round number whose half is whole."""
    size = 1
    while most > 20 * size:
        size *= 10
    return next(part * size for part in (2, 4, 6, 8, 10, 12, 14, 16, 20) if part * size >= most)


def _ticks(timeline: Timeline) -> list[tuple[float, str]]:
    points = timeline.points
    every = max(1, round(len(points) / _LABELS))
    # The last label would overflow the edge.
    labelled = range(0, max(1, len(points) - every // 2), every)
    step = timeline.step_s * every
    return [(100 * n / len(points), format.clock(points[n].at, step)) for n in labelled]


def _chart_label(timeline: Timeline, totals: Sequence[tuple[Badge, int]], *, answered: bool) -> str:
    first, last = timeline.points[0].at, timeline.points[-1].at + timeline.step_s
    counts = ", ".join(f"{count:,} {badge.label}" for badge, count in totals) or "none"
    noun = "Calls" if answered else "Failed calls"
    return f"{noun} from {format.moment(first)} to {format.moment(last)}: {counts}"
