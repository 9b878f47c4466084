"""Drawings of runs: gaps stay gaps, zeros stay zeros, attempts that do not count are told apart."""

from __future__ import annotations

from classifier.batches import Entry, task_repeats
from classifier.groups import Member
from proxy.control.dashboard import TaskRow
from proxy.web import badges, charts
from proxy.web.charts import sparkline, strip


def entry(name: str, task: str | None, repeat: int | None, score: float | None) -> Entry:
    return Entry(
        rollout_id=name, task=task, repeat=repeat, attempt=0,
        health="healthy" if score is not None else "api_error", subcategory=None,
        fingerprint=None, scoreable="no" if score is None else "yes", provisional=False,
        reward=0.0 if score is None else score, input_tokens=None, output_tokens=None,
        total_tokens=None, cost_usd=None,
    )  # fmt: skip


def test_a_night_without_a_score_is_a_gap_in_the_line() -> None:
    drawn = sparkline([("a", 0.5), ("b", 0.7), ("c", None), ("d", 0.6)])
    assert drawn is not None
    assert drawn.path.count("M") == 2
    assert drawn.path.count("L") == 1
    assert len(drawn.dots) == 3
    assert drawn.last == drawn.dots[-1]
    assert drawn.label.endswith("0.500, 0.700, –, 0.600")
    ys = [y for _, y in drawn.dots]
    assert ys[0] > ys[2] > ys[1], "a higher score is higher up"


def test_a_series_without_a_newest_score_has_no_last_dot() -> None:
    drawn = sparkline([("a", 0.5), ("b", 0.5), ("c", None)])
    assert drawn is not None
    assert drawn.last is None
    assert {y for _, y in drawn.dots} == {12.0}, "equal scores are drawn in the middle"


def test_one_score_is_no_series() -> None:
    for scores in ([], [("a", 0.5)], [("a", 0.5), ("b", None)]):
        assert sparkline(scores) is None


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
    drawn = strip(TaskRow("t", task_repeats(entries), members))
    assert (drawn.score, drawn.measured, drawn.repeats) == (0.5, 5, 10)
    cells = {cell.rollout_id: cell for repeat in drawn.cells for cell in repeat}
    steps = {name: cell.step for name, cell in cells.items() if cell.badge is None}
    assert steps == {"zero": 0, "half": 2, "little": 1, "most": 3, "one": 4}
    assert {name: cell.badge for name, cell in cells.items() if cell.step is None} == {
        "quota": badges.CAUSES["quota"], "running": badges.RUNNING, "held": badges.SKIPPED,
        "silent": charts.NO_REWARD, "spoilt": badges.SPOILT,
    }  # fmt: skip
    assert cells["half"].label == "repeat 1, score 0.5"


def test_an_attempt_in_whose_place_another_counts_is_pale() -> None:
    entries = [entry("first", "t", 0, None), entry("second", "t", 0, 1.0)._replace(attempt=1)]
    members = {each.rollout_id: Member(each) for each in entries}
    ((first, second),) = strip(TaskRow("t", task_repeats(entries), members)).cells
    assert (first.superseded, second.superseded) == (True, False)
    assert first.label == "repeat 0, attempt 0, undecided, another attempt counts"
    assert second.label == "repeat 0, attempt 1, score 1"


def test_a_later_attempt_at_what_had_a_score_is_the_pale_one() -> None:
    entries = [entry("first", "t", 0, 0.0), entry("second", "t", 0, 1.0)._replace(attempt=1)]
    members = {each.rollout_id: Member(each) for each in entries}
    ((first, second),) = strip(TaskRow("t", task_repeats(entries), members)).cells
    assert (first.superseded, second.superseded) == (False, True)
    assert second.label == "repeat 0, attempt 1, score 1, another attempt counts"
