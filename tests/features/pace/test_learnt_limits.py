"""The law of learnt limits, by its figures."""

from __future__ import annotations

import math
from typing import Any

import pytest

from proxy.features.pace import learnt_limits as law
from proxy.features.pace.learnt_limits import LearntLimit

RATES = (0.2, 1.0, 20.0, 1_000.0)


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_falls_by_a_tenth_and_is_the_same_again_after_its_recovery(rate: float) -> None:
    recovery = law.recovery_s(rate)
    assert recovery == pytest.approx(20.0 + 10.0 / rate)
    assert law.rate_after(rate, 0.0) == pytest.approx(0.9 * rate)
    assert law.rate_after(rate, recovery) == pytest.approx(rate)
    assert law.rate_after(rate, 2 * recovery) == pytest.approx(1.1 * rate)


@pytest.mark.parametrize("rate", RATES)
def test_by_twice_its_recovery_all_of_the_limit_is_used_and_no_more(rate: float) -> None:
    steps, until = 10_000, 2 * law.recovery_s(rate)
    used = sum(law.rate_after(rate, until * (n + 0.5) / steps) for n in range(steps))
    assert used * until / steps == pytest.approx(rate * until)


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_that_is_passed_without_a_429_doubles_in_each_twenty_seconds(rate: float) -> None:
    at = 2 * law.recovery_s(rate)
    for doubled in range(1, 6):
        assert law.rate_after(rate, at + 20.0 * doubled) == pytest.approx(1.1 * rate * 2**doubled)


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_never_falls_as_time_passes(rate: float) -> None:
    rates = [law.rate_after(rate, since / 4) for since in range(2_500)]
    assert rates == sorted(rates)


def test_a_replicas_clock_that_is_behind_makes_no_rate_lower_than_right_after_a_429() -> None:
    assert law.rate_after(20.0, -5.0) == law.rate_after(20.0, 0.0)


def test_what_was_learnt_is_forgotten_after_ten_minutes_without_a_429() -> None:
    learnt = LearntLimit(8.0, at=100.0)
    assert learnt.rate(700.0) < math.inf
    assert learnt.at_once(700.0) == 68.0
    assert (learnt.rate(700.1), learnt.at_once(700.1)) == (math.inf, math.inf)


def test_calls_at_once_rise_by_one_in_ten_seconds() -> None:
    assert [law.at_once_after(4.0, since) for since in (0, 10, 20)] == [4.0, 5.0, 6.0]


def test_what_was_learnt_last_holds() -> None:
    earlier, later = LearntLimit(8.0, at=1.0), LearntLimit(4.0, at=2.0)
    assert earlier.precedes(later)
    assert not later.precedes(earlier)
    assert not later.precedes(later)


def test_a_pause_doubles_from_half_a_second_to_eight() -> None:
    pauses, pause = [], 0.0
    for _ in range(6):
        pause = law.pause_after(pause)
        pauses.append(pause)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_the_third_429_in_a_row_is_in_vain() -> None:
    assert [law.in_vain(refusals) for refusals in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("under_way", "peak", "shown"), [(0, 0, 2), (1, 0, 2), (7, 3, 7), (3, 7, 7)]
)
def test_calls_at_once_are_never_fewer_than_were_let_in(
    under_way: float, peak: float, shown: float
) -> None:
    assert law.shown_at_once(under_way, peak) == shown


@pytest.mark.parametrize(
    ("at_once", "latency_s", "number"),
    [(16, 2.0, False), (17, 0.1, True), (2, 2.1, True), (100, 60.0, True)],
)
def test_a_429_tells_of_a_number_if_calls_are_many_or_slow(
    at_once: float, latency_s: float, *, number: bool
) -> None:
    assert law.tells_number(at_once, latency_s) is number


@pytest.mark.parametrize(
    ("refusals", "episode_s", "stands"), [(0, 1.9, True), (2, 1.9, True), (3, 0.1, False)]
)
def test_a_number_stands_if_a_call_is_let_in_soon(
    refusals: int, episode_s: float, *, stands: bool
) -> None:
    assert law.number_stands(refusals, episode_s) is stands
    assert not law.number_stands(refusals, 2.0), "a window's end may have been waited for"


def test_five_calls_tell_a_rate_and_later_ones_take_two_and_a_half_seconds() -> None:
    assert law.tells_rate(5, 0.1, first=True)
    assert not law.tells_rate(4.9, 60.0, first=True)
    assert law.tells_rate(5, 2.5, first=False)
    assert not law.tells_rate(500, 2.4, first=False)


def test_a_lane_never_stands_still() -> None:
    assert (law.at_least(0.0), law.at_least(3.0)) == (0.2, 3.0)


def between(
    mean: float,
    met: float = 20.0,
    *,
    since_s: float = 60.0,
    episode_s: float = 0.5,
    was_free: bool = False,
) -> float:
    """The rate that an episode teaches, by default of a limit that was neared slowly."""
    return law.rate_between(
        mean, met, since_s=since_s, episode_s=episode_s, before=20.0, was_free=was_free
    )


@pytest.mark.parametrize(
    ("mean", "how", "rate"),
    [
        (19.0, {}, 20.0),
        (18.0, {"since_s": 20.0}, 19.0),  # near, and too soon after the one before: half way
        (18.0, {"episode_s": 3.0}, 19.0),  # a window's end was waited for
        (10.0, {}, 15.0),  # far from what was let in
        (10.0, {"since_s": 10.0, "was_free": True}, 15.0),
        (10.0, {"since_s": 10.0}, 10.0),  # the mean of twenty calls
        (2.0, {"since_s": 5.0}, 0.5 * 2.0 + 0.5 * 20.0),  # fewer count by how many they are
        (50.0, {}, 20.0),  # never above the rate at which the 429 came
    ],
)
def test_a_limit_that_was_neared_slowly_is_the_rate_of_its_429_else_the_mean_counts(
    mean: float, how: dict[str, Any], rate: float
) -> None:
    assert between(mean, **how) == pytest.approx(rate)


@pytest.mark.parametrize("since_s", [5.0, 60.0, 700.0])
@pytest.mark.parametrize("episode_s", [0.5, 3.0])
@pytest.mark.parametrize("was_free", [True, False])
def test_of_a_429_at_no_rate_the_mean_alone_tells(
    since_s: float, episode_s: float, was_free: bool
) -> None:
    assert between(10.0, math.inf, since_s=since_s, episode_s=episode_s, was_free=was_free) == 10.0


def test_the_same_429s_teach_rates_that_are_nearly_the_same() -> None:
    assert law.same_rate(20.0, 20.9)
    assert not law.same_rate(20.0, 22.0)
