"""Intervals: those that R, scipy and the papers give, and what they are where nothing varies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.statistics import paired_interval, score_interval, student_t, wilson

Pairs = list[tuple[float, float]]


def test_wilsons_interval_is_that_of_scipy() -> None:
    # scipy 1.17.1: stats.binomtest(7, 25).proportion_ci(method="wilson")
    assert wilson(7 / 25, 25) == pytest.approx((0.14283853950856968, 0.4757660519036158))


def test_it_holds_where_all_pass_or_none() -> None:
    # By hand: z² / (n + z²) = 0.2775 for n = 10.
    assert wilson(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_students_quantile_is_that_of_scipy() -> None:
    # scipy 1.17.1: stats.t.ppf(0.975, df)
    for df, expected in (
        (1, 12.706204736), (2, 4.302652729), (3, 3.182446305), (4, 2.776445105),
        (7, 2.364624251), (30, 2.042272456), (1000, 1.962339080),
    ):  # fmt: skip
        assert student_t(df) == pytest.approx(expected, rel=1.3e-3), df


def test_tasks_with_one_repeat_that_pass_or_fail_have_wilsons() -> None:
    assert score_interval([[1.0], [0.0], [1.0]]) == wilson(2 / 3, 3)


def test_repeats_of_a_task_count_as_many_as_they_tell() -> None:
    # NumPy 2.4.6: p (1 - p) / V = 9.0909 for the 18 repeats, V between tasks; Wilson's by that.
    tasks = [[1.0, 1, 1], [0.0, 0, 1], [0.0, 0, 0], [1.0, 0, 1], [1.0, 1, 0], [0.0, 0, 0]]
    expected = (0.1896239605776585, 0.7322696155249263)
    assert score_interval(tasks) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tasks", "independent"),
    [
        ([[1.0] * 8] * 5, 5),  # all pass: nothing tells that the repeats differ
        ([[1.0, 0.0, 1.0, 1.0]], 1),  # of one task
        ([[1.0, 0.0]] * 6, 12),  # they differ within tasks only: never more than there are
        ([[1.0] * 10, [0.0] * 10] * 20, 39),  # ten alike say no more than one
    ],
)
def test_what_repeats_that_depend_on_each_other_tell(
    tasks: list[list[float]], independent: int
) -> None:
    values = [value for rewards in tasks for value in rewards]
    expected = wilson(sum(values) / len(values), independent)
    assert score_interval(tasks) == pytest.approx(expected)


def test_rewards_between_have_students_interval_over_tasks() -> None:
    # NumPy and scipy: (-0.0183, 0.8558) over four tasks; no score is below 0.
    tasks = [[0.25, 0.5], [0.75], [1.0, 0.5, 0.25], [0.0, 0.1]]
    assert score_interval(tasks) == pytest.approx((0.0, 0.8557520763458508), abs=1e-3)
    shifted = score_interval([[reward + 5 for reward in rewards] for rewards in tasks])
    assert shifted == pytest.approx((4.9817479, 5.8557520), abs=1e-3)


def test_where_nothing_tells_the_spread_there_is_no_interval() -> None:
    tables: list[list[list[float]]] = [
        [], [[]], [[0.5]], [[0.5, 0.25]], [[0.5], [0.5]], [[1e308], [-1e308], [1e308]],
    ]  # fmt: skip
    for tasks in tables:
        assert score_interval(tasks) is None, tasks
    compared: list[Pairs] = [[], [(0.5, 0.25)], [(0.5, 0.25), (0.5, 0.25)]]
    for pairs in compared:
        assert paired_interval(pairs) is None, pairs


def pairs_of(both: int, only_first: int, only_second: int, neither: int) -> Pairs:
    return [
        *[(1.0, 1.0)] * both, *[(1.0, 0.0)] * only_first,
        *[(0.0, 1.0)] * only_second, *[(0.0, 0.0)] * neither,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        # Newcombe 1998, Statistics in Medicine 17:2635, table III, method 10.
        ((36, 2, 12, 0), (0.0569, 0.3404)),
        # Fagerland, Lydersen and Laake 2014, Statistics in Medicine 33:2850, table IX.
        ((1, 7, 1, 12), (-0.507, -0.026)),
    ],
)
def test_the_paired_interval_is_that_of_the_papers(
    table: tuple[int, int, int, int], expected: tuple[float, float]
) -> None:
    assert paired_interval(pairs_of(*table)) == pytest.approx(expected, abs=5e-4)


def test_pairs_that_all_agree_are_no_proof_of_no_difference() -> None:
    for table in ((10, 0, 0, 0), (0, 0, 0, 10), (5, 0, 0, 5)):
        low, high = paired_interval(pairs_of(*table)) or (0, 0)
        assert low == pytest.approx(-high)
        assert 0.05 < high < 0.3, table


def test_differences_of_means_have_students_interval() -> None:
    # scipy 1.17.1: stats.ttest_rel(second, first).confidence_interval()
    first, second = [0.5, 0.25, 1.0, 0.0, 0.75], [0.75, 0.25, 1.0, 0.5, 0.5]
    expected = (-0.2539286942455681, 0.45392869424556803)
    assert paired_interval(list(zip(first, second, strict=True))) == pytest.approx(
        expected, abs=2e-4
    )
    assert paired_interval([(0.0, 1.0), (1.0, 0.5)]) == (-1.0, 1.0), "no more than can be"


_TASKS = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), max_size=12)


@given(_TASKS)
def test_the_mean_lies_within_its_interval(tasks: list[list[float]]) -> None:
    values = [value for rewards in tasks for value in rewards]
    found = score_interval(tasks)
    if not values:
        assert found is None
        return
    assert found is not None
    assert 0 <= found[0] <= sum(values) / len(values) <= found[1] <= 1
    assert found[0] < found[1]
