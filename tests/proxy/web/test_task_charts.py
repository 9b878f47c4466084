"""Drawings of tasks: zeros stay zeros, gaps are told apart, and each score is in one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from classifier.batches import Entry, RewardSpan, task_repeats
from classifier.groups import Member, TaskTotal
from proxy.control.dashboard import TaskRow
from proxy.web import badges, task_charts
from proxy.web.task_charts import Strip, score_chart, strip, task_map


def entry(name: str, task: str | None, repeat: int | None, score: float | None) -> Entry:
    return Entry(
        rollout_id=name, task=task, repeat=repeat, attempt=0,
        health="healthy" if score is not None else "api_error", subcategory=None,
        fingerprint=None, scoreable="no" if score is None else "yes", provisional=False,
        reward=0.0 if score is None else score, input_tokens=None, output_tokens=None,
        total_tokens=None, cost_usd=None,
    )  # fmt: skip


def drawn_of(
    entries: Sequence[Entry], members: Mapping[str, Member], total: TaskTotal | None = None
) -> Strip:
    total = total or TaskTotal("t", 1, 1, 1.0)
    return strip(TaskRow(total, task_repeats(entries), members), RewardSpan(0.0, 1.0))


def test_a_strip_shows_scores_by_shade_and_the_rest_by_shape() -> None:
    entries = [
        entry("zero", "t", 0, 0.0),
        entry("half", "t", 1, 0.5),
        entry("little", "t", 2, 0.01),
        entry("most", "t", 3, 0.99),
        entry("one", "t", 4, 1.0),
        entry("quota", "t", 5, None)._replace(subcategory="quota"),
        entry("running", "t", 6, None)._replace(health=None),
        entry("held", "t", 7, None),
        entry("silent", "t", 8, None)._replace(health="healthy", scoreable="yes", reward=None),
        entry("spoilt", "t", 9, None)._replace(health="healthy"),
    ]
    members = {each.rollout_id: Member(each, skipped=each.rollout_id == "held") for each in entries}
    drawn = drawn_of(entries, members, TaskTotal("t", 12, 5, 0.5))
    assert drawn.gaps == [
        (badges.CAUSES["quota"], "in repeat 5"), (badges.RUNNING, "in repeat 6"),
        (badges.SKIPPED, "in repeat 7"), (badges.NOT_SCORED, "in repeat 8"),
        (badges.SPOILT, "in repeat 9"), (badges.NEVER_STARTED, "in 2 repeats"),
    ]  # fmt: skip
    assert drawn.spread == pytest.approx(0.4950, abs=1e-4)
    assert drawn.bounds == pytest.approx((2.5 / 12, 9.5 / 12))
    cells = {cell.rollout_id: cell for repeat in drawn.cells for cell in repeat}
    steps = {name: cell.step for name, cell in cells.items() if cell.badge is None}
    assert steps == {"zero": 0, "half": 2, "little": 1, "most": 3, "one": 4}
    assert {name: cell.badge for name, cell in cells.items() if cell.step is None} == {
        "quota": badges.CAUSES["quota"], "running": badges.RUNNING, "held": badges.SKIPPED,
        "silent": badges.NOT_SCORED, "spoilt": badges.SPOILT,
    }  # fmt: skip
    assert cells["half"].label == "repeat 1, score 0.5"


def test_an_attempt_in_whose_place_another_counts_is_pale() -> None:
    entries = [entry("first", "t", 0, None), entry("second", "t", 0, 1.0)._replace(attempt=1)]
    members = {each.rollout_id: Member(each) for each in entries}
    ((first, second),) = drawn_of(entries, members).cells
    assert (first.superseded, second.superseded) == (True, False)
    assert first.label == "repeat 0, attempt 0, undecided, another attempt counts"
    assert second.label == "repeat 0, attempt 1, score 1"


def test_a_later_attempt_at_what_had_a_score_is_the_pale_one() -> None:
    entries = [entry("first", "t", 0, 0.0), entry("second", "t", 0, 1.0)._replace(attempt=1)]
    members = {each.rollout_id: Member(each) for each in entries}
    ((first, second),) = drawn_of(entries, members).cells
    assert (first.superseded, second.superseded) == (False, True)
    assert second.label == "repeat 0, attempt 1, score 1, another attempt counts"


def test_repeats_without_a_score_are_named_or_counted() -> None:
    entries = [entry(f"r{n}", "t", n, None)._replace(subcategory="auth") for n in range(4)]
    members = {each.rollout_id: Member(each) for each in entries}
    of = TaskTotal("t", 4, 0, None)
    assert drawn_of(entries[:3], members, of).gaps[0][1] == "in repeats 0, 1, 2"
    assert drawn_of(entries, members, of).gaps[0][1] == "in 4 repeats"
    alone = drawn_of(entries[:1], members, TaskTotal("t", 1, 0, None))
    assert alone.gaps == [(badges.CAUSES["auth"], "")]
    assert (alone.spread, alone.bounds) == (None, (0.0, 1.0))


def test_nobody_knows_the_bounds_of_rewards_without_a_range() -> None:
    of = TaskRow(TaskTotal("t", 2, 1, 7.0), [], {})
    assert strip(of, RewardSpan(7.0, 7.0)).bounds is None
    assert strip(of, RewardSpan(7.0, 7.0, (0.0, 10.0))).bounds == (3.5, 8.5)


def total(number: int, repeats: int, measured: int, score: float | None = 0.0) -> TaskTotal:
    return TaskTotal(f"task-{number}", repeats, measured, score)


def dashes(path: str, pitch: int) -> int:
    """Count the cells of a path of the map, each one dash of its lines."""
    return sum((int(each.partition("h")[2]) + 1) // pitch for each in path[1:].split("M"))


@pytest.mark.parametrize("tasks", [1, 57, 58, 400, 12_500, 30_000])
def test_each_task_is_a_cell_of_the_map_and_each_line_leads_to_its_page(tasks: int) -> None:
    every = [total(n, 4, 4 - n % 5) for n in range(tasks)]
    drawn = task_map(every)
    assert drawn is not None
    cells = {level: dashes(path, drawn.pitch) for level, path in drawn.paths}
    each = -(-tasks // task_charts.CELLS)  # tasks in a cell
    assert cells.pop(0) == -(-tasks // each)
    if each == 1:
        assert cells == {n: len(every[n::5]) for n in range(1, min(tasks, 5))}
    in_line = drawn.width // drawn.pitch * each
    assert [line.page for line in drawn.lines] == [1 + n // 100 for n in range(0, tasks, in_line)]
    counted = [line.label.rpartition(": ")[2].split()[0] for line in drawn.lines]
    lacking = sum(int(each.replace(",", "")) for each in counted)
    assert lacking == sum(n % 5 > 0 for n in range(tasks))
    assert drawn.width <= 800
    assert drawn.height <= 70 * drawn.pitch


def test_a_batch_without_tasks_has_no_map_and_one_without_scores_no_columns() -> None:
    assert task_map([]) is None
    assert score_chart([total(0, 1, 0, None)], (0.0, 1.0)) is None


@pytest.mark.parametrize(
    ("scores", "span"),
    [
        ([0.0, 0.05, 0.1, 0.999, 1.0], (0.0, 1.0)),
        ([-3.0, 0.0, 5.0], (-3.0, 5.0)),
        ([123_456_789_012.0, 123_456_789_013.0], (123_456_789_012.0, 123_456_789_013.0)),
        ([7.0, 7.0], (7.0, 7.0)),
        ([-1.0, 2.0], (0.0, 1.0)),
    ],
)
def test_each_score_is_in_the_one_column_whose_range_holds_it(
    scores: list[float], span: tuple[float, float]
) -> None:
    drawn = score_chart([total(n, 1, 1, score) for n, score in enumerate(scores)], span)
    assert drawn is not None
    for column in drawn.columns:
        assert column.tasks == sum(map(column.scores.holds, scores))
        assert 0 <= column.tall <= 100
    assert sum(column.tasks for column in drawn.columns) == len(scores)
