"""Layout of the drawings of runs: earlier scores, a difference, and tasks with their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from classifier.batches import Entry, Slot
from classifier.groups import Member
from proxy.control.dashboard import TaskRow
from proxy.web import badges, format
from proxy.web.badges import Badge

SPARK_WIDTH, SPARK_HEIGHT = 96, 24
_MARGIN = 3
_LEAST_SPAN = 0.1  # of scores: less is no trend
_STEPS = 4  # of the colour of a score above 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """Scores over time as a line with gaps, in pixels; ``last`` is the place of the newest."""

    path: str
    dots: Sequence[tuple[float, float]]
    last: tuple[float, float] | None
    label: str


def sparkline(scores: Sequence[tuple[str, float | None]]) -> Sparkline | None:
    """Lay out the scores of a series, oldest first; None where fewer than two are known."""
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
    """Return an SVG path; a place that is not known ends a line."""
    parts, down = [], False
    for place in places:
        if place is not None:
            parts.append(f"{'L' if down else 'M'}{place[0]:g} {place[1]:g}")
        down = place is not None
    return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference on a scale around zero, in percent of its width; ``reach`` is the scale's end.

    ``certain``: its interval does not hold zero.
    """

    reach: float
    at: float
    low: float
    high: float
    certain: bool
    label: str


def difference(value: float | None, interval: Sequence[float] | None) -> Difference | None:
    """Lay out a difference with its interval; None where either is not known."""
    if value is None or interval is None:
        return None
    low, high = interval
    most = max(abs(low), abs(high), 0.05)
    reach = next(each for each in (0.1, 0.2, 0.5, 1.0, most) if each >= most)
    certain = low > 0 or high < 0

    def place(number: float) -> float:
        return round(50 + 50 * number / reach, 2)

    return Difference(
        reach=reach,
        at=place(value),
        low=place(low),
        high=place(high),
        certain=certain,
        label=f"Difference {value:+.3f}, between {low:+.3f} and {high:+.3f} with 95 % confidence",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One attempt in a heat strip: its score from 0 to ``_STEPS``, or the badge of what it lacks.

    ``superseded``: another attempt counts in its place.
    """

    rollout_id: str
    step: int | None
    badge: Badge | None
    superseded: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One task: the mean of its measured repeats, and each repeat's attempts, oldest first."""

    task: str
    score: float | None
    measured: int
    repeats: int
    cells: Sequence[Sequence[Cell]]


NO_REWARD = Badge(
    name="not-judged", label="no reward", meaning="nothing was reported", shape=badges.DASH
)
SKIPPED = Badge(
    name="not-judged", label="skipped", meaning="not admitted by a breaker", shape=badges.DASH
)


def strip(row: TaskRow) -> Strip:
    """Lay out a task's repeats and attempts."""
    known = [each.counted.score for each in row.slots if each.counted.score is not None]
    return Strip(
        task=row.task,
        score=sum(known) / len(known) if known else None,
        measured=len(known),
        repeats=len(row.slots),
        cells=[[_cell(entry, slot, row.members) for entry in slot.attempts] for slot in row.slots],
    )


def _cell(entry: Entry, slot: Slot, members: Mapping[str, Member]) -> Cell:
    member = members[entry.rollout_id]
    badge = None if entry.score is not None else _badge(member)
    told = badge.label if badge is not None else f"score {format.reward(entry.score)}"
    superseded = slot.counted.rollout_id != entry.rollout_id
    repeat = "" if entry.repeat is None else f"repeat {entry.repeat}, "
    tried = "" if len(slot.attempts) < 2 else f"attempt {entry.attempt or 0}, "
    return Cell(
        rollout_id=entry.rollout_id,
        step=None if entry.score is None else _step(entry.score),
        badge=badge,
        superseded=superseded,
        label=f"{repeat}{tried}{told}{', superseded' if superseded else ''}",
    )


def _step(score: float) -> int:
    """Return the shade of a score: 0 for 0 and less, the last for 1 and more."""
    if score <= 0:
        return 0
    return max(1, min(_STEPS, int(score * _STEPS)))


def _badge(member: Member) -> Badge:
    entry = member.entry
    if member.skipped:
        return SKIPPED
    if entry.health is None or entry.provisional:
        return badges.OPEN
    facts = {"health": entry.health, "subcategory": entry.subcategory,
             "scoreable": entry.scoreable, "provisional": False}  # fmt: skip
    badge = badges.of_verdict(facts)
    return NO_REWARD if badge is badges.HEALTHY else badge
