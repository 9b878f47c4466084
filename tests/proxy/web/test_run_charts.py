"""Scores of a series along time: gaps stay gaps."""

from __future__ import annotations

from proxy.web.charts import sparkline


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
