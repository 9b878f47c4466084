"""Geometry of charts of a batch's tasks: each with its attempts, all on a map, and by score."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import stdev
from typing import NamedTuple

from classifier.batches import Entry, RewardSpan, TaskRepeat
from classifier.groups import Member, TaskTotal
from proxy.control.dashboard import TASKS, ScoreRange, TaskRow
from proxy.web import badges, format
from proxy.web.badges import Badge
from proxy.web.charts import round_up
from truezero.printable import plural

# --- a task with its attempts --------------------------------------------------------------------


_STEPS = 4  # of the colour of a score above 0, and of a task that lacks a part of its repeats
_NAMED = 3  # repeats without a score that are named; of more, their number


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One attempt in a heat strip: its shade from 0 to ``_STEPS``, or the badge of a missing one.

    ``superseded``: another attempt counts in its place.
    """

    rollout_id: str
    step: int | None
    badge: Badge | None
    superseded: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One task, and each of its repeats' attempts, oldest first.

    ``gaps`` are the repeats without a score, by the reason; ``spread`` is the standard deviation of
    the scores, None of fewer than two. ``bounds`` are the least and the most that the score of a
    task with gaps can come to, None if nobody knows.
    """

    total: TaskTotal
    cells: Sequence[Sequence[Cell]]
    gaps: Sequence[tuple[Badge, str]]
    spread: float | None
    bounds: tuple[float, float] | None


def strip(row: TaskRow, rewards: RewardSpan) -> Strip:
    """Lay out a task's repeats and attempts.

    Arguments:
        rewards: of the batch: the least and the greatest have the first and the last shade.
    """
    cells: list[list[Cell]] = []
    missing: dict[Badge, list[int | None]] = {}
    scores: list[float] = []
    span = span_of(rewards)
    for slot in row.slots:
        cells.append([_cell(entry, slot, row.members, span) for entry in slot.attempts])
        if slot.counted.score is not None:
            scores.append(slot.counted.score)
            continue
        badge = _badge(row.members[slot.counted.rollout_id])
        missing.setdefault(badge, []).append(slot.counted.repeat)
    gaps = [(badge, _repeats_words(repeats, row)) for badge, repeats in missing.items()]
    if never := row.total.repeats - len(row.slots):
        gaps.append((badges.NEVER_STARTED, f"in {plural(never, 'repeat')}"))
    return Strip(
        total=row.total,
        cells=cells,
        gaps=gaps,
        spread=stdev(scores) if len(scores) > 1 else None,
        bounds=_bounds(row.total, rewards.bounds),
    )


def span_of(rewards: RewardSpan) -> tuple[float, float]:
    """Return the scale of a batch's rewards: the possible ones, else those seen; 0 without any."""
    return rewards.bounds or (rewards.least or 0.0, rewards.greatest or 0.0)


def _repeats_words(repeats: Sequence[int | None], row: TaskRow) -> str:
    """Return ``in repeat 4``; of many, how many they are; nothing if the task has no other."""
    if row.total.repeats == 1:
        return ""
    if len(repeats) > _NAMED or None in repeats:
        return f"in {plural(len(repeats), 'repeat')}"
    return f"in repeat{'s' * (len(repeats) > 1)} {', '.join(map(str, repeats))}"


def _bounds(total: TaskTotal, rewards: tuple[float, float] | None) -> tuple[float, float] | None:
    missing = total.repeats - total.measured
    if rewards is None or not missing:
        return None
    known = (total.score or 0.0) * total.measured
    low, high = ((known + missing * each) / total.repeats for each in rewards)
    return low, high


def _cell(
    entry: Entry, slot: TaskRepeat, members: Mapping[str, Member], span: tuple[float, float]
) -> Cell:
    member = members[entry.rollout_id]
    badge = None if entry.score is not None else _badge(member)
    words = badge.label if badge is not None else f"score {format.reward(entry.score)}"
    superseded = slot.counted.rollout_id != entry.rollout_id
    repeat = "" if entry.repeat is None else f"repeat {entry.repeat}, "
    attempt = "" if len(slot.attempts) < 2 else f"attempt {entry.attempt or 0}, "
    return Cell(
        rollout_id=entry.rollout_id,
        step=None if entry.score is None else _step(entry.score, span),
        badge=badge,
        superseded=superseded,
        label=f"{repeat}{attempt}{words}{', another attempt counts' if superseded else ''}",
    )


def _step(score: float, span: tuple[float, float]) -> int:
    """Return the shade of a score: 0 for the least and less, the last for the greatest and more."""
    low, high = span
    if score <= low:
        return 0
    return _STEPS if score >= high else max(1, int((score - low) / (high - low) * _STEPS))


def _badge(member: Member) -> Badge:
    entry = member.entry
    if member.skipped:
        return badges.SKIPPED
    if entry.health is None or entry.provisional:
        return badges.RUNNING
    facts = {"health": entry.health, "subcategory": entry.subcategory,
             "scoreable": entry.scoreable, "provisional": False}  # fmt: skip
    badge = badges.of_verdict(facts)
    return badges.NOT_SCORED if badge is badges.HEALTHY else badge


# --- all tasks, on a map -------------------------------------------------------------------------


CELLS = 12_800  # on a map, at most: beyond, one stands for several tasks that follow each other
_PITCHES = ((4, 200), (8, 100), (14, 57))  # pixels of a cell, and how many are in a line


class MapLine(NamedTuple):
    """A line of the map: its label, and the page of the list by name on which it begins."""

    label: str
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMap:
    """All tasks of a batch in the order of their names, one cell each, in lines from the left.

    ``paths`` are SVG paths that draw one dash a cell, each with its level: 0 for all tasks; drawn
    over it, 1 to ``_STEPS`` for tasks that lack more and more of their repeats. Lengths are in
    pixels.
    """

    pitch: int
    width: int
    height: int
    paths: Sequence[tuple[int, str]]
    lines: Sequence[MapLine]
    label: str


def task_map(every: Sequence[TaskTotal]) -> TaskMap | None:
    """Lay out all tasks; None without any."""
    if not every:
        return None
    each_cell = -(-len(every) // CELLS)
    levels = list(map(_lacks, every))
    cells = (
        levels
        if each_cell == 1
        else [max(levels[at : at + each_cell]) for at in range(0, len(levels), each_cell)]
    )
    pitch, across = next(
        each for each in _PITCHES if len(cells) > 5 * each[1] or each is _PITCHES[-1]
    )
    paths: dict[int, list[str]] = {}
    for y, line in enumerate(cells[at : at + across] for at in range(0, len(cells), across)):
        runs = [(0, 0, len(line))]
        for level, alike in groupby(range(len(line)), line.__getitem__):
            of_run = list(alike)
            runs += [(level, of_run[0], len(of_run))] if level else []
        for level, x, run in runs:
            path = paths.setdefault(level, [])
            path.append(f"M{x * pitch} {y * pitch + pitch // 2}h{run * pitch - 1}")
    lines = [
        _map_line(every, levels, at, at + across * each_cell)
        for at in range(0, len(every), across * each_cell)
    ]
    return TaskMap(
        pitch=pitch,
        width=min(len(cells), across) * pitch,
        height=len(lines) * pitch,
        paths=[(level, "".join(paths[level])) for level in sorted(paths)],
        lines=lines,
        label=f"{plural(len(every), 'task')} in the order of their names, "
        f"{sum(level > 0 for level in levels):,} with a gap",
    )


def _lacks(task: TaskTotal) -> int:
    """Return the part of its repeats that a task lacks, from 0 to ``_STEPS``, which is all."""
    return -(-_STEPS * (task.repeats - task.measured) // task.repeats) if task.repeats else 0


def _map_line(every: Sequence[TaskTotal], levels: Sequence[int], begin: int, end: int) -> MapLine:
    first, last = every[begin].task, every[min(end, len(every)) - 1].task
    lacking = sum(level > 0 for level in levels[begin:end])
    return MapLine(f"{first} to {last}: {lacking:,} with a gap", 1 + begin // TASKS)


# --- tasks by score ------------------------------------------------------------------------------


_COLUMNS = 20


class ScoreColumn(NamedTuple):
    """Tasks whose scores are in a range; ``tall``: percent of the chart's height."""

    scores: ScoreRange
    tasks: int
    tall: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChart:
    """A batch's tasks by their scores; ``top`` is the number of tasks of a full column."""

    columns: Sequence[ScoreColumn]
    top: int
    low: float
    high: float


def score_chart(every: Sequence[TaskTotal], span: tuple[float, float]) -> ScoreChart | None:
    """Lay out the scores of tasks; None if none has one.

    Arguments:
        span: the least and the greatest reward.
    """
    scores = [each.score for each in every if each.score is not None]
    if not scores:
        return None
    low, high = span
    # As an address has them, so that a column counts what its link lists.
    inner = [float(f"{low + (high - low) * n / _COLUMNS:.6g}") for n in range(1, _COLUMNS)]
    edges = sorted({each for each in inner if low < each < high})
    counts = Counter(bisect_right(edges, score) for score in scores)
    top = round_up(max(counts.values()))
    ranges = [ScoreRange(*each) for each in zip([None, *edges], [*edges, None], strict=True)]
    return ScoreChart(
        columns=[
            ScoreColumn(each, counts[n], 100 * counts[n] / top, _range_words(each, counts[n]))
            for n, each in enumerate(ranges)
        ],
        top=top,
        low=low,
        high=high,
    )


def _range_words(scores: ScoreRange, tasks: int) -> str:
    low, high = map(format.reward, scores)
    if scores.low is None:
        words = "any score" if scores.high is None else f"score below {high}"
    else:
        words = f"score {low} and more" if scores.high is None else f"score {low} to {high}"
    return f"{words}: {plural(tasks, 'task')}"
