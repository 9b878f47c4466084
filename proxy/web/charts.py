"""Geometry of charts, which templates draw as SVG: bars, timelines, runs and waterfalls.

Horizontal positions are in percent, so that a chart fits any width.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.control.upstreams import Latencies, TimelinePoint, UpstreamPoint, round_step
from proxy.web import badges, format
from proxy.web.badges import Badge
from truezero.printable import plural

_MIN_WIDTH = 0.6  # percent: one rollout of ten thousand is still visible


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


# --- scores ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBar:
    """A batch's score on its scale, which goes from ``low`` to ``high``; places are in percent.

    ``bounds`` from the least to the most that it can come to, ``interval`` of 95 %, ``measured``,
    and ``reported`` if that is another score. None if unknown.
    """

    low: float
    high: float
    bounds: tuple[float, float] | None
    interval: tuple[float, float] | None
    measured: float | None
    reported: float | None
    label: str


def score_bar(summary: Mapping[str, Any]) -> ScoreBar | None:
    """Lay out the score of a batch; None if nothing is known of it.

    The scale is that of the rewards: 0 to 1 or as registered, else the least to the greatest seen.
    """
    least, most = summary["score_worst"], summary["score_best"]
    measured, reported = summary["score_effective"], summary["score_reported"]
    ends = summary["reward_range"] or (0.0, 1.0)
    if least is None or most is None:
        ends = summary["reward_least"], summary["reward_greatest"]
        if None in ends:
            return None
    low, high = ends
    span = high - low or 1.0

    def place(value: float) -> float:
        return round(min(100.0, max(0.0, 100 * (value - low) / span)), 2)

    interval, bounds = summary["score_ci"], None if least is None else (least, most)
    said = [
        "nothing measured" if measured is None else f"{format.score(measured)} measured",
        "95 % interval " + " to ".join(map(format.score, interval)) if interval else "",
        "possible " + " to ".join(map(format.score, bounds)) if bounds else "",
        f"{format.score(reported)} reported" if reported not in (None, measured) else "",
    ]
    return ScoreBar(
        low=low,
        high=high,
        bounds=None if bounds is None else (place(bounds[0]), place(bounds[1])),
        interval=None if interval is None else (place(interval[0]), place(interval[1])),
        measured=None if measured is None else place(measured),
        reported=None if reported in (None, measured) else place(reported),
        label=", ".join(filter(None, said)),
    )


# --- along time --------------------------------------------------------------------------------
# Failed calls before all calls, latencies, and the same for each part of a whole.


WIDTH = 1000  # of a plot, which a page stretches
_HEIGHT, _LATENCY_HEIGHT = 120, 66  # pixels
_GAP = 0.08  # of a step, on either side of its column
_LEAST_HEIGHT = 2.2  # pixels: one failed call of a thousand is still visible
_LABELS = 5  # below a plot, roughly
_MOST_LINES = 3  # across latencies, above zero

_ALL_CALLS = Badge(name="all-calls", label="all calls", meaning="", shape=badges.SQUARE)
_P50 = Badge(name="p50", label="p50", meaning="", shape=badges.STROKE)
_P95 = Badge(name="p95", label="p95", meaning="", shape=badges.STROKE)

Point = TimelinePoint | UpstreamPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One drawing along time: SVG paths, x from 0 to ``WIDTH`` and y in pixels from the top.

    ``totals`` are what its columns come to; ``label`` has them as text.
    """

    paths: Sequence[tuple[Badge, str]]
    totals: Sequence[tuple[Badge, str]]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from ``at`` (epoch seconds) on: a value for each head, and its failed calls."""

    at: float
    values: Sequence[str]
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """A plot along time, with its values as a table.

    ``ticks`` are (percent, text) below it, ``lines`` (pixels, text) across it; ``whole`` has the
    values of all steps together.
    """

    plot: Plot
    height: int
    step_s: int
    ticks: Sequence[tuple[float, str]]
    lines: Sequence[tuple[float, str]]
    heads: Sequence[str]
    steps: Sequence[Step]
    whole: Sequence[str]

    @property
    def start(self) -> float:
        """The begin of the first step, in epoch seconds."""
        return self.steps[0].at

    @property
    def end(self) -> float:
        """The end of the last step, in epoch seconds."""
        return self.steps[-1].at + self.step_s


def failures(points: Sequence[Point], step_s: int, *, height: int = _HEIGHT) -> TimeChart:
    """Lay out failed calls, stacked by subcategory in the order of the legend, before all calls.

    Arguments:
        points: consecutive steps, oldest first.
        height: in pixels.
    """
    top = round_up(max(point.calls for point in points))
    totals = _totals(points)
    shown = [badge for badge in _legend() if totals[badge]]
    return TimeChart(
        plot=_columns(points, step_s, top, height),
        height=height,
        step_s=step_s,
        ticks=_ticks(points, step_s),
        lines=[(height * (1 - part), format.short(round(top * part))) for part in (0, 0.5, 1)],
        heads=[badge.label for badge in shown],
        steps=[
            _step_of(point, [format.number(counts[badge]) for badge in shown])
            for point, counts in ((point, _totals([point])) for point in points)
        ],
        whole=[format.number(totals[badge]) for badge in shown],
    )


def latencies(points: Sequence[UpstreamPoint], step_s: int, whole: Latencies) -> TimeChart | None:
    """Lay out the seconds to the first byte; None if none is known.

    Arguments:
        points: consecutive steps, oldest first.
        whole: the latencies of all steps together.
    """
    known = [point.first_byte_p95_s for point in points if point.first_byte_p95_s is not None]
    if not known:
        return None
    size, count = _round_lines(max(known))
    top = size * count
    paths = {
        _P95: _strokes([point.first_byte_p95_s for point in points], top),
        _P50: _strokes([point.first_byte_p50_s for point in points], top),
    }
    totals = [
        (_P50, format.seconds(whole.first_byte_p50_s)),
        (_P95, format.seconds(whole.first_byte_p95_s)),
    ]
    words = ", ".join(f"{badge.label} {value}" for badge, value in totals)
    label = f"Time to the first byte {_span(points, step_s)}: {words}"
    return TimeChart(
        plot=Plot(paths=list(paths.items()), totals=totals, label=label),
        height=_LATENCY_HEIGHT,
        step_s=step_s,
        ticks=_ticks(points, step_s),
        lines=[
            (_LATENCY_HEIGHT * (1 - n / count), f"{n * size:g} s" if n else "0")
            for n in range(count + 1)
        ],
        heads=[badge.label for badge, _ in totals],
        steps=[
            Step(
                at=point.at,
                values=[
                    format.seconds(value)
                    for value in (point.first_byte_p50_s, point.first_byte_p95_s)
                ],
                failed=0,
            )
            for point in points
        ],
        whole=[value for _, value in totals],
    )


def _legend() -> Sequence[Badge]:
    return (*badges.CAUSES.values(), _ALL_CALLS)


def _totals(points: Iterable[Point]) -> Counter[Badge]:
    """Count failed calls by the badge of their subcategory, and all calls."""
    totals: Counter[Badge] = Counter()
    for point in points:
        totals.update({badges.CAUSES[name]: count for name, count in point.failed.items()})
        totals[_ALL_CALLS] += point.calls
    return totals


def _step_of(point: Point, values: Sequence[str]) -> Step:
    return Step(at=point.at, values=values, failed=sum(point.failed.values()))


def _columns(points: Sequence[Point], step_s: int, top: int, height: int) -> Plot:
    """Draw a step's failed calls as blocks on one another, before the column of all its calls."""
    columns: dict[Badge, list[str]] = {badge: [] for badge in reversed(_legend())}
    for n, point in enumerate(points):
        y, counts = float(height), _totals([point])
        for badge in filter(counts.__getitem__, badges.CAUSES.values()):
            tall = max(_LEAST_HEIGHT, height * counts[badge] / top)
            y -= tall
            columns[badge].append(_block(n, len(points), y, tall))
        # Few calls of which one failed are seen to be more than that one.
        answered = point.calls > sum(point.failed.values())
        tall = max(height * point.calls / top, height - y + _LEAST_HEIGHT * answered)
        if point.calls:
            columns[_ALL_CALLS].append(_block(n, len(points), height - tall, tall))
    whole = _totals(points)
    totals = [(badge, format.number(whole[badge])) for badge in _legend() if whole[badge]]
    words = ", ".join(f"{count} {badge.label}" for badge, count in totals)
    return Plot(
        paths=[(badge, "".join(path)) for badge, path in columns.items() if path],
        totals=totals,
        label=f"Failed calls {_span(points, step_s)}: {words}",
    )


def _block(n: int, steps: int, y: float, tall: float) -> str:
    step = WIDTH / steps
    x, width = step * (n + _GAP), step * (1 - 2 * _GAP)
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{tall:.1f}h-{width:.1f}z"


def _strokes(values: Sequence[float | None], top: float) -> str:
    step = WIDTH / len(values)
    return "".join(
        f"M{n * step:.1f} {_LATENCY_HEIGHT * (1 - value / top):.1f}h{step:.1f}"
        for n, value in enumerate(values)
        if value is not None
    )


def round_up(most: int) -> int:
    """Return the top of a scale: the next round number whose half is whole."""
    size = 1
    while most > 20 * size:
        size *= 10
    return next(part * size for part in (2, 4, 6, 8, 10, 12, 14, 16, 20) if part * size >= most)


def _round_lines(most: float) -> tuple[float, int]:
    """Return a round distance of lines across a scale, and how many reach over ``most``."""
    size = 10.0 ** math.floor(math.log10(most / _MOST_LINES)) if most > 0 else 1.0
    size = next(size * part for part in (1, 2, 5, 10) if size * part * _MOST_LINES >= most)
    return size, max(1, math.ceil(most / size - 1e-9))


def _ticks(points: Sequence[Point], step_s: int) -> list[tuple[float, str]]:
    every = max(1, round(len(points) / _LABELS))
    # The last label would overflow the edge.
    labelled = range(0, max(1, len(points) - every // 2), every)
    return [(100 * n / len(points), format.clock(points[n].at, step_s * every)) for n in labelled]


def _span(points: Sequence[Point], step_s: int) -> str:
    return f"from {format.moment(points[0].at)} to {format.moment(points[-1].at + step_s)}"


# --- earlier scores ----------------------------------------------------------------------------


SPARK_WIDTH, SPARK_HEIGHT = 96, 24
_MARGIN = 3
_LEAST_SPAN = 0.1  # of scores: less is no trend


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """Scores over time as a line with gaps, in pixels; ``last`` is the place of the newest."""

    path: str
    dots: Sequence[tuple[float, float]]
    last: tuple[float, float] | None
    label: str


def sparkline(scores: Sequence[tuple[str, float | None]]) -> Sparkline | None:
    """Lay out the scores of a series, oldest first; None if fewer than two are known."""
    known = [score for _, score in scores if score is not None]
    if len(known) < 2:
        return None
    low, high = min(known), max(known)
    missing = max(0.0, _LEAST_SPAN - (high - low))
    low, high = low - missing / 2, high + missing / 2
    step = (SPARK_WIDTH - 2 * _MARGIN) / (len(scores) - 1)
    places: list[tuple[float, float] | None] = [
        None
        if score is None
        else (
            round(_MARGIN + n * step, 1),
            round(SPARK_HEIGHT - _MARGIN - (SPARK_HEIGHT - 2 * _MARGIN) * (score - low)
                  / (high - low), 1),
        )
        for n, (_, score) in enumerate(scores)
    ]  # fmt: skip
    return Sparkline(
        path=_path(places),
        dots=[place for place in places if place is not None],
        last=places[-1],
        label="Scores of this series, oldest first: "
        + ", ".join(format.score(score) for _, score in scores),
    )


def _path(places: Sequence[tuple[float, float] | None]) -> str:
    """Return an SVG path; an unknown place ends a line."""
    parts, down = [], False
    for place in places:
        if place is not None:
            parts.append(f"{'L' if down else 'M'}{place[0]:g} {place[1]:g}")
        down = place is not None
    return "".join(parts)


# --- a rollout's calls along time ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallBar:
    """One call in a waterfall; positions in percent, times in seconds.

    ``findings`` are those that the call shows, by badge and check. ``wait`` is the position and
    width of the pause after a failed call, ``retry_of`` the number of the call that this one
    repeats.
    """

    number: int
    call: Mapping[str, Any]
    badge: Badge
    offset_s: float
    x: float
    width: float
    first_byte: float | None
    wait: tuple[float, float] | None
    waited_s: float | None
    retry_of: int | None
    evidence: bool
    findings: Sequence[tuple[Badge, str]]


def waterfall(
    calls: Sequence[Mapping[str, Any]],
    evidence: Iterable[str],
    *,
    now: float,
    details: Mapping[str, Mapping[str, Any]] | None = None,
    findings: Sequence[Mapping[str, Any]] = (),
) -> list[WaterfallBar]:
    """Lay out a rollout's calls along time.

    Arguments:
        now: epoch seconds, at which bars of calls in flight end.
        details: the calls to return, by id, with all their known fields; None is all.
        findings: the validity findings of the verdict; each marks its calls.
    """
    if not calls:
        return []
    start = min(call["started_at"] for call in calls)
    end = max(_ended(call, now) for call in calls)
    scale = 100 / max(end - start, 1e-6)
    proof, repeated = frozenset(evidence), _repeats(calls)
    following = [*calls[1:], None]
    return [
        _waterfall_bar(
            call if details is None else details[call["id"]],
            number=1 + n,
            start=start,
            scale=scale,
            ended=_ended(call, now),
            pause_until=after["started_at"] if after else None,
            retry_of=None if (place := repeated[n]) is None else 1 + place,
            evidence=call["id"] in proof,
            findings=[
                (badges.LEVELS[finding["level"]], finding["check"])
                for finding in findings
                if call["id"] in finding["evidence"]
            ],
        )
        for n, (call, after) in enumerate(zip(calls, following, strict=True))
        if details is None or call["id"] in details
    ]


def _ended(call: Mapping[str, Any], now: float) -> float:
    started: float = call["started_at"]
    if call["ending"] is None:
        return max(now, started)
    return started + float(call["duration_s"] or 0)


def _waterfall_bar(
    call: Mapping[str, Any],
    *,
    number: int,
    start: float,
    scale: float,
    ended: float,
    pause_until: float | None,
    retry_of: int | None,
    evidence: bool,
    findings: Sequence[tuple[Badge, str]],
) -> WaterfallBar:
    x = (call["started_at"] - start) * scale
    width = (ended - call["started_at"]) * scale
    waited = None
    if call["subcategory"] is not None and pause_until is not None and pause_until > ended:
        waited = pause_until - ended
    return WaterfallBar(
        number=number,
        call=call,
        badge=badges.of_call(call),
        offset_s=call["started_at"] - start,
        x=min(x, 99.5),
        width=max(width, 0.5),
        first_byte=call["first_byte_s"] * scale if call["first_byte_s"] else None,
        wait=None if waited is None else (x + width, waited * scale),
        waited_s=waited,
        retry_of=retry_of,
        evidence=evidence,
        findings=findings,
    )


def _repeats(calls: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """Return for each call the index of the earlier failed call whose request it repeats."""
    failed: dict[str, int] = {}
    repeated: list[int | None] = []
    for n, call in enumerate(calls):
        digest = call["request_digest"]
        repeated.append(failed.get(digest) if digest else None)
        if digest and call["subcategory"] is not None:
            failed[digest] = n
    return repeated


TIMELINE_HEIGHT = 34  # pixels of the calls of one role
_FAILED_FROM, _ANSWERED_FROM = 0, 12  # pixels from the top: failures stand out
_STROKE = 1.6  # of `WIDTH`


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimeline:
    """All calls of a rollout, each a stroke at the second it began, by role.

    ``rows`` has for each role the SVG paths, x from 0 to ``WIDTH`` and y in pixels, and a label;
    ``ticks`` are (percent, text); ``legend`` counts calls by badge.
    """

    rows: Mapping[str, tuple[Sequence[tuple[Badge, str]], str]]
    ticks: Sequence[tuple[float, str]]
    legend: Sequence[tuple[Badge, int]]


def call_timeline(calls: Sequence[Mapping[str, Any]], *, now: float) -> CallTimeline:
    """Lay out all calls of a rollout along time.

    Arguments:
        now: epoch seconds, at which calls in flight end.
    """
    start = min(call["started_at"] for call in calls)
    span = max(max(_ended(call, now) for call in calls) - start, 1e-6)
    places: defaultdict[str, defaultdict[Badge, set[int]]] = defaultdict(lambda: defaultdict(set))
    counts: defaultdict[str, Counter[Badge]] = defaultdict(Counter)
    for call in calls:
        badge = badges.of_call(call)
        places[call["role"]][badge].add(round(WIDTH * (call["started_at"] - start) / span))
        counts[call["role"]][badge] += 1
    step_s = round_step(span / _LABELS)
    return CallTimeline(
        rows={
            role: (
                [(badge, _ticked(badge, at)) for badge, at in of.items()],
                _words(role, counts[role], span),
            )
            for role, of in places.items()
        },
        ticks=[
            (100 * n * step_s / span, format.seconds(n * step_s))
            for n in range(math.floor(0.97 * span / step_s) + 1)
        ],
        legend=sum(counts.values(), Counter()).most_common(),
    )


def _ticked(badge: Badge, places: Collection[int]) -> str:
    top = _ANSWERED_FROM if badge == badges.HEALTHY else _FAILED_FROM
    return "".join(f"M{x} {top}h{_STROKE}V{TIMELINE_HEIGHT}h-{_STROKE}z" for x in sorted(places))


def _words(role: str, counts: Counter[Badge], span_s: float) -> str:
    named = {badges.HEALTHY: "answered"}
    parts = [f"{count:,} {named.get(badge, badge.label)}" for badge, count in counts.most_common()]
    calls = f"{plural(counts.total(), 'call')} of the {role} over {format.seconds(span_s)}"
    return f"{calls}: {', '.join(parts)}"
