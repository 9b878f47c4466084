"""pass@k: the paper's estimator, over what was measured."""

from __future__ import annotations

from itertools import combinations

import pytest

from classifier.statistics import PassAt, TaskRewards, pass_at, unbiased


def test_it_is_the_share_of_all_choices_of_k_that_hold_a_pass() -> None:
    for passed, of in ((0, 5), (2, 5), (5, 5), (1, 8)):
        repeats = [1] * passed + [0] * (of - passed)
        for k in range(1, of + 1):
            chosen = [max(each) for each in combinations(repeats, k)]
            assert unbiased(passed, of, k) == pytest.approx(sum(chosen) / len(chosen))


def test_each_k_says_on_how_many_tasks_it_stands() -> None:
    tried = [
        TaskRewards((1.0, 0.0, 0.0, 0.0, 1.0), 5),
        TaskRewards((0.0, 0.0), 5),  # three of its repeats were not measured
        TaskRewards((), 5),
        TaskRewards((1.0,), 1),
    ]
    found = {each.k: each for each in pass_at(tried) or ()}
    assert list(found) == [1, 2, 4, 5]
    assert (found[1].tasks, found[1].of, found[2].tasks, found[2].of) == (3, 4, 2, 3)
    assert found[1].estimate == pytest.approx((0.4 + 0 + 1) / 3)
    assert found[2].estimate == pytest.approx((0.7 + 0) / 2)
    assert found[5] == PassAt(k=5, estimate=1.0, tasks=1, of=3)


def test_what_was_measured_nowhere_is_null_and_not_zero() -> None:
    first, second = pass_at([TaskRewards((1.0,), 2), TaskRewards((0.0,), 2)]) or ()
    assert (first.estimate, second.estimate) == (0.5, None)
    assert (second.tasks, second.of) == (0, 2)


def test_without_repeats_or_without_passes_there_is_none() -> None:
    for tried in (
        [],
        [TaskRewards((1.0,), 1)],
        [TaskRewards((0.5, 1.0), 2)],
        [TaskRewards((2.0, 0.0), 2)],
    ):
        assert pass_at(tried) is None, tried
