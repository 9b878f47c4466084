from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import fsum, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.statistics import (
    Cluster,
    Exclusion,
    Interval,
    PassAt,
    Passed,
    Repeat,
    TaskMean,
    Zeros,
    exclusion_of,
    fisher_p,
    holm,
    interval_of,
    paired_interval,
    pass_at_of,
    permutation_p,
    student_t,
    unbiased,
    wilson,
)
from tests.tables import each

# --- Exclusions that bias a mean are found, honest ones are not -----------------------------------

# scipy 1.17.1: stats.fisher_exact([[a, b], [c, d]]).pvalue
FISHER = (
    ((8, 2, 1, 5), 0.034965034965034975),
    ((3, 0, 0, 3), 0.10000000000000002),
    ((10, 10, 10, 10), 1.0),
    ((1, 9, 11, 3), 0.0027594561852200836),
    ((0, 12, 30, 170), 0.22354975131607097),
    ((40, 2, 300, 500), 1.4405622623464975e-14),
    ((500, 500, 450, 550), 0.02820356890423392),
    ((5, 0, 1, 4), 0.047619047619047616),
    ((2000, 3000, 2100, 2900), 0.04412145224842155),
)

# scipy 1.17.1: stats.permutation_test((one, other), difference of means, two-sided), exact with
# n_resamples=inf; the last three with 999,999, 999,999 and 99,999 resamples, rng=1.
PERMUTED = (
    ([0, 0.25, 0.25, 0, 0.5], [0.75, 1, 1, 0.75, 0.5, 1], 0.008658008658008658, 1e-12),
    ([0.5, 0.25, 0.75, 0.5, 1], [0.5, 0.75, 0.25, 0.5, 1, 0.5], 1.0, 1e-12),
    (
        [0, 0, 0.25, 0, 0.25, 0, 0.5],
        [0.5, 0.75, 0.25, 1, 0.75, 0.5, 1, 0.75],
        0.003108003108003108,
        1e-12,
    ),
    ([0, 0.25, 0.5] * 8, [0.25, 0.5, 0.75, 0.5] * 8, 0.000032, 0.0005),
    ([0, 0.25, 0.5, 0.5] * 4, [0.25, 0.5, 0.75, 0.25] * 6, 0.110592, 0.015),
    ([0, 0.25, 0.5, 0.25] * 75, [0.25, 0.5, 0.25, 0, 0.25, 0.5] * 60, 0.00332, 0.001),
)


def test_fishers_p_is_that_of_scipy() -> None:
    for table, expected in FISHER:
        assert isclose(fisher_p(*table), expected, rel_tol=1e-6), table


@each("one, other, expected, within", PERMUTED)
def test_the_permutations_p_is_that_of_scipy(
    one: list[float], other: list[float], expected: float, within: float
) -> None:
    found = permutation_p(one, other)
    assert abs(found - expected) <= within
    assert permutation_p(other, one) == found


def test_holm_adjusts_as_in_his_paper() -> None:
    """Each p times the number of those not smaller, never below the one before, at most 1."""
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert {lane: round(p, 6) for lane, p in adjusted.items()} == {
        "d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06
    }  # fmt: skip
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def exclusion(repeats: Iterable[Repeat]) -> Exclusion:
    """Test what is excluded of these: one comparison for each lane."""
    tasks: dict[str, list[Repeat]] = {}
    zeros: Counter[tuple[bool, bool]] = Counter()
    for one in repeats:
        tasks.setdefault(one.task, []).append(one)
        zeros[one.excluded, one.known == 0] += one.known is not None
    means = [
        TaskMean(fsum(kept) / len(kept), frozenset(one.lane for one in of if one.excluded))
        for of in tasks.values()
        if len(of) > 1 and (kept := [one.score for one in of if one.score is not None])
    ]
    return exclusion_of(
        means, Zeros(zeros[True, True], zeros[True, False], zeros[False, True], zeros[False, False])
    )


Strikes = Callable[[random.Random, float, float], bool]


def _batch(strikes: Strikes, *, tasks: int = 60, repeats: int = 8, seed: int = 1) -> Exclusion:
    """Play a batch of tasks from hard to easy; excluded is what ``strikes`` says.

    Arguments:
        strikes: whether the provider fails a repeat, by its task's ease and its reward.
    """
    rng = random.Random(seed)
    return exclusion(
        Repeat(f"t{task}", "openai/gpt-5", None if struck else reward, struck, reward)
        for task in range(tasks)
        for _ in range(repeats)
        for reward in [float(rng.random() < task / tasks)]
        for struck in [strikes(rng, task / tasks, reward)]
    )


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 8))]
)
def test_honest_outages_are_not_flagged_even_where_all_of_them_are_zeros(seed: int) -> None:
    """They strike at random, and what they strike is reported as 0."""
    rng = random.Random(seed)
    repeats = [
        Repeat(f"t{task}", "openai/gpt-5", None if struck else reward, struck, shown)
        for task in range(40)
        for _ in range(8)
        for struck in [rng.random() < 0.08]
        for reward in [float(rng.random() < task / 40)]
        for shown in [0.0 if struck else reward]
    ]
    found = exclusion(repeats)
    assert found.bias is False
    assert found.fisher_p is not None


def test_failures_that_follow_hard_tasks_are_flagged() -> None:
    found = _batch(lambda rng, ease, _: rng.random() < 0.5 * (1 - ease) ** 3)
    assert found.bias is True
    first = found.comparisons[0]
    assert first.mean < first.other_mean
    assert found.p == first.p < 0.01


def test_failures_that_follow_low_scores_are_flagged() -> None:
    found = _batch(lambda rng, _, reward: reward == 0 and rng.random() < 0.25)
    assert found.bias is True
    assert found.fisher_p is not None
    assert found.fisher_p < 1e-6


def _repeats(pattern: Iterable[str]) -> list[Repeat]:
    """Read a text for each task: ``1`` and ``0`` are kept rewards, ``x`` an excluded repeat."""
    return [
        Repeat(f"t{at}", "up/m", None if each == "x" else float(each), each == "x")
        for at, text in enumerate(pattern)
        for each in text
    ]


def test_nothing_is_said_of_too_little() -> None:
    for pattern in (
        [],
        ["11", "01"] * 9,  # no exclusion
        ["x1"] * 4 + ["11"] * 9,  # four tasks on one side
        ["x1"] * 9 + ["11"] * 4,
        ["x", "1"] * 9,  # no repeats
        ["xx"] * 9 + ["11"] * 9,  # nothing was kept of what was struck
    ):
        found = exclusion(_repeats(pattern))
        assert (found.bias, found.p) == (None, None), pattern
    assert exclusion(_repeats(["x0"] * 5 + ["11"] * 5)).p == 2 / 252


def test_each_lane_is_compared_with_tasks_that_had_no_exclusion_and_pays_for_the_others() -> None:
    hard = _repeats(["x0"] * 5 + ["11"] * 5)
    other = [
        Repeat(f"u{at}", "down/m", score, score is None) for at in range(5) for score in (None, 1.0)
    ]
    found = exclusion([*hard, *other])
    by_lane = {each.lane: each for each in found.comparisons}
    assert by_lane["up/m"].p == 4 / 252
    assert by_lane["down/m"].p == 1.0
    assert [each.other_tasks for each in found.comparisons] == [5, 5]
    assert found.bias is False


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12),
)
def test_a_p_is_a_probability_and_the_same_every_time(one: list[float], other: list[float]) -> None:
    p = permutation_p(one, other)
    assert 0 < p <= 1
    assert permutation_p(one, other) == p


# --------------------------------------------------------------------------------------------------
# Intervals: those that R, scipy and the papers give, and what they are where nothing varies

Pairs = list[tuple[float, float]]


def score_interval(tasks: Iterable[Sequence[float]]) -> Interval | None:
    """Return the interval of the mean over these tasks' rewards."""
    known = [rewards for rewards in tasks if rewards]
    every = [reward for rewards in known for reward in rewards]
    return interval_of(
        [Cluster(len(rewards), sum(rewards)) for rewards in known],
        binary={*every} <= {0.0, 1.0}, bounded=all(0 <= reward <= 1 for reward in every),
    )  # fmt: skip


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


@each(
    "tasks, independent",
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


@each(
    "table, expected",
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


# --- pass@k: the paper's estimator, over what was measured ----------------------------------------


def test_it_is_the_share_of_all_choices_of_k_that_hold_a_pass() -> None:
    for passed, of in ((0, 5), (2, 5), (5, 5), (1, 8)):
        repeats = [1] * passed + [0] * (of - passed)
        for k in range(1, of + 1):
            chosen = [max(each) for each in combinations(repeats, k)]
            assert unbiased(passed, of, k) == pytest.approx(sum(chosen) / len(chosen))


def test_each_k_says_on_how_many_tasks_it_stands() -> None:
    # Three repeats of the second one were not measured, and none of the third.
    tried = [Passed(5, 5, 2), Passed(5, 2, 0), Passed(5, 0, 0), Passed(1, 1, 1)]
    found = {each.k: each for each in pass_at_of(tried) or ()}
    assert list(found) == [1, 2, 4, 5]
    assert (found[1].tasks, found[1].of, found[2].tasks, found[2].of) == (3, 4, 2, 3)
    assert found[1].estimate == pytest.approx((0.4 + 0 + 1) / 3)
    assert found[2].estimate == pytest.approx((0.7 + 0) / 2)
    assert found[5] == PassAt(k=5, estimate=1.0, tasks=1, of=3)


def test_what_was_measured_nowhere_is_null_and_not_zero() -> None:
    first, second = pass_at_of([Passed(2, 1, 1), Passed(2, 1, 0)]) or ()
    assert (first.estimate, second.estimate) == (0.5, None)
    assert (second.tasks, second.of) == (0, 2)


def test_without_repeats_there_is_none() -> None:
    assert pass_at_of([]) is pass_at_of([Passed(1, 1, 1)]) is None
