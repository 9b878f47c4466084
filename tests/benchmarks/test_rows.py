"""What is made of the rounds: medians, comparisons inside a round, and goals."""

from __future__ import annotations

from benchmarks.rows import Goal, Round, reached, summary, value

ROUNDS: list[Round] = [
    {"truezero": {"cpu_us": 40.0}, "nginx": {"cpu_us": 10.0}},
    {"truezero": {"cpu_us": 90.0}, "nginx": {"cpu_us": 30.0}},
    {"truezero": {"cpu_us": 50.0}, "nginx": {"cpu_us": 10.0}, "litellm": {"cpu_us": 5000.0}},
]


def test_a_ratio_is_the_median_of_ratios_inside_a_round() -> None:
    assert value(summary(ROUNDS, "cpu_us", ("nginx",)), "compared", "nginx") == 4.0


def test_a_peer_that_was_never_measured_is_unknown_and_not_zero() -> None:
    found = summary(ROUNDS, "cpu_us", ("portkey",))
    assert value(found, "compared", "portkey") is None
    assert reached(Goal(most=1, said="", peer="portkey"), found) is None
