"""Exclusions that bias a mean are found, honest ones are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from classifier.statistics import Exclusion, Repeat, exclusion, fisher_p, holm, permutation_p

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


def test_the_permutations_p_is_that_of_scipy() -> None:
    for one, other, expected, within in PERMUTED:
        assert abs(permutation_p(one, other) - expected) <= within, (one, other)
        assert permutation_p(other, one) == permutation_p(one, other)


def test_holm_adjusts_as_in_his_paper() -> None:
    """Each p times the number of those not smaller, never below the one before, at most 1."""
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert {lane: round(p, 6) for lane, p in adjusted.items()} == {
        "d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06
    }  # fmt: skip
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


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


def test_honest_outages_are_not_flagged_even_where_all_of_them_are_zeros() -> None:
    """They strike at random, and what they strike is reported as 0."""
    for seed in range(8):
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
        assert found.bias is False, (seed, found)
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
