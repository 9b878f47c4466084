"""The geometry of pictures: counts and times in, places and sizes out; templates draw them as SVG.

It reads no clock and no table. Across, everything is in percent, so that a picture fits any width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.control.timeline import Timeline
from proxy.web import badges, format
from proxy.web.badges import Badge

_LEAST = 0.6  # percent: one rollout of ten thousand is still seen
_CHART_HEIGHT = 120  # pixels
_LABELS = 5  # below a timeline, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a bar; ``x`` and ``width`` in percent."""

    mark: Badge
    count: int
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Counts side by side; ``label`` says them in words."""

    segments: Sequence[Segment]
    total: int
    label: str


def bar(counts: Iterable[tuple[Badge, int]], what: str) -> Bar:
    """Counts as a bar; small ones are widened to be seen."""
    found = [(mark, count) for mark, count in counts if count]
    total = sum(count for _, count in found)
    wide = [max(_LEAST, 100 * count / total) for _, count in found]
    scale = 100 / sum(wide) if wide else 1
    segments, x = [], 0.0
    for (mark, count), width in zip(found, wide, strict=True):
        segments.append(Segment(mark=mark, count=count, x=x, width=width * scale))
        x += width * scale
    told = ", ".join(f"{count:,} {mark.label}" for mark, count in found)
    return Bar(segments=segments, total=total, label=f"{format.plural(total, what)}: {told}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One count in a column; ``y`` and ``height`` in pixels from the top."""

    mark: Badge
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One moment of a timeline; ``x`` and ``width`` in percent."""

    at: float
    calls: int
    blocks: Sequence[Block]
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Failures over time as stacked columns.

    ``ticks`` are (percent, text) below it, ``lines`` (pixels, count) across it; ``totals``
    what each mark counts in all.
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


def chart(timeline: Timeline) -> Chart:
    """A timeline's failures, stacked by subcategory in the order of every legend."""
    moments = timeline.moments
    most = max((sum(moment.failed.values()) for moment in moments), default=0)
    top = _round_up(most)
    width = 100 / len(moments)
    totals = [
        (mark, sum(moment.failed.get(name, 0) for moment in moments))
        for name, mark in badges.CAUSES.items()
    ]
    seen = [(mark, count) for mark, count in totals if count]
    columns = [
        Column(
            at=moment.at,
            calls=moment.calls,
            blocks=_blocks(moment.failed, top),
            x=n * width,
            width=width,
        )
        for n, moment in enumerate(moments)
    ]
    return Chart(
        columns=columns,
        height=_CHART_HEIGHT,
        step_s=timeline.step_s,
        most=most,
        ticks=_ticks(timeline),
        lines=[(_CHART_HEIGHT * (1 - part), round(top * part)) for part in (0.5, 1.0)],
        totals=seen,
        calls=sum(moment.calls for moment in moments),
        label=_chart_label(timeline, seen),
    )


def _blocks(failed: Mapping[str, int], top: int) -> list[Block]:
    blocks, bottom = [], float(_CHART_HEIGHT)
    for name, mark in badges.CAUSES.items():
        if count := failed.get(name, 0):
            height = max(1.5, _CHART_HEIGHT * count / top)
            bottom -= height
            blocks.append(Block(mark=mark, count=count, y=bottom, height=height))
    return blocks


def _round_up(most: int) -> int:
    """The next round number whose half is whole: the top of a scale."""
    size = 1
    while most > 20 * size:
        size *= 10
    return next(part * size for part in (2, 4, 6, 8, 10, 12, 14, 16, 20) if part * size >= most)


def _ticks(timeline: Timeline) -> list[tuple[float, str]]:
    moments = timeline.moments
    every = max(1, round(len(moments) / _LABELS))
    # The last one would hang over the edge.
    shown = range(0, max(1, len(moments) - every // 2), every)
    step = timeline.step_s * every
    return [(100 * n / len(moments), format.clock(moments[n].at, step)) for n in shown]


def _chart_label(timeline: Timeline, seen: Sequence[tuple[Badge, int]]) -> str:
    first, last = timeline.moments[0].at, timeline.moments[-1].at + timeline.step_s
    told = ", ".join(f"{count:,} {mark.label}" for mark, count in seen) or "none"
    return f"Failed calls from {format.moment(first)} to {format.moment(last)}: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallBar:
    """One call in a waterfall; places in percent of the whole, times in seconds.

    ``wait`` is the place and width of the pause after a failed call; ``retry_of`` the
    number of the call that it repeats.
    """

    number: int
    call: Mapping[str, Any]
    mark: Badge
    offset_s: float
    x: float
    width: float
    first_byte: float | None
    wait: tuple[float, float] | None
    waited_s: float | None
    retry_of: int | None
    evidence: bool


def waterfall(
    calls: Sequence[Mapping[str, Any]], evidence: Iterable[str], *, now: float, first: int = 1
) -> list[WaterfallBar]:
    """A rollout's calls, each where it stands in time.

    Arguments:
        now: epoch seconds, where a call in flight ends for now.
        first: the number of the first of these calls.
    """
    if not calls:
        return []
    start = min(call["started_at"] for call in calls)
    end = max(_ended(call, now) for call in calls)
    scale = 100 / max(end - start, 1e-6)
    proof, repeated = frozenset(evidence), _repeats(calls)
    following = [*calls[1:], None]
    return [
        _stripe(
            call,
            number=first + n,
            start=start,
            scale=scale,
            ended=_ended(call, now),
            pause_until=after["started_at"] if after else None,
            retry_of=None if (place := repeated[n]) is None else first + place,
            evidence=call["id"] in proof,
        )
        for n, (call, after) in enumerate(zip(calls, following, strict=True))
    ]


def _ended(call: Mapping[str, Any], now: float) -> float:
    started: float = call["started_at"]
    if call["ending"] is None:
        return max(now, started)
    return started + float(call["duration_s"] or 0)


def _stripe(
    call: Mapping[str, Any],
    *,
    number: int,
    start: float,
    scale: float,
    ended: float,
    pause_until: float | None,
    retry_of: int | None,
    evidence: bool,
) -> WaterfallBar:
    x = (call["started_at"] - start) * scale
    width = (ended - call["started_at"]) * scale
    waited = None
    if call["subcategory"] is not None and pause_until is not None and pause_until > ended:
        waited = pause_until - ended
    return WaterfallBar(
        number=number,
        call=call,
        mark=badges.of_call(call),
        offset_s=call["started_at"] - start,
        x=min(x, 99.5),
        width=max(width, 0.5),
        first_byte=call["first_byte_s"] * scale if call["first_byte_s"] else None,
        wait=None if waited is None else (x + width, waited * scale),
        waited_s=waited,
        retry_of=retry_of,
        evidence=evidence,
    )


def _repeats(calls: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """For each call the place of the earlier failed call whose request it repeats."""
    failed: dict[str, int] = {}
    found: list[int | None] = []
    for n, call in enumerate(calls):
        digest = call["request_digest"]
        found.append(failed.get(digest) if digest else None)
        if digest and call["subcategory"] is not None:
            failed[digest] = n
    return found
