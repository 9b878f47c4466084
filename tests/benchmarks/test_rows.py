"""What is made of the rounds: medians, comparisons inside a round, and goals."""

from __future__ import annotations

import pytest

from benchmarks.rows import Goal, Round, reached, summarised, summary, value

ROUNDS: list[Round] = [
    {"truezero": {"cpu_us": 40.0}, "nginx": {"cpu_us": 10.0}},
    {"truezero": {"cpu_us": 90.0}, "nginx": {"cpu_us": 30.0}},
    {"truezero": {"cpu_us": 50.0}, "nginx": {"cpu_us": 10.0}, "litellm": {"cpu_us": 5000.0}},
]


def test_a_ratio_is_the_median_of_ratios_inside_a_round() -> None:
    assert value(summary(ROUNDS, "cpu_us", ("nginx",)), "compared", "nginx") == 4.0


def test_a_peer_that_was_in_one_round_only_is_compared_in_that_one() -> None:
    found = summary(ROUNDS, "cpu_us", ("nginx", "litellm"))
    assert value(found, "compared", "litellm") == 0.01
    assert value(found, "medians", "litellm") == 5000.0


def test_a_peer_that_was_never_measured_is_unknown_and_not_zero() -> None:
    found = summary(ROUNDS, "cpu_us", ("portkey",))
    assert value(found, "compared", "portkey") is None
    assert reached(Goal(most=1, said="", peer="portkey"), found) is None


def test_times_are_compared_by_their_difference() -> None:
    found = summary(ROUNDS, "cpu_us", ("nginx",), "+")
    assert value(found, "compared", "nginx") == 40.0


@pytest.mark.parametrize(("most", "is_reached"), [(4.0, True), (3.9, False)])
def test_a_goal_against_a_peer_is_about_the_ratio(most: float, is_reached: bool) -> None:
    found = summary(ROUNDS, "cpu_us", ("nginx",))
    assert reached(Goal(most=most, said="", peer="nginx"), found) is is_reached


def test_a_goal_without_a_peer_is_about_our_own_number() -> None:
    found = summary(ROUNDS, "cpu_us")
    assert reached(Goal(most=50, said=""), found)
    assert not reached(Goal(most=49, said=""), found)


def test_a_round_in_which_all_failed_tells_nothing() -> None:
    found = summarised({"exchange": [{"truezero": {"cpu_us": None}}, {}]})
    assert value(found["exchange.cpu_us"], "medians", "truezero") is None
