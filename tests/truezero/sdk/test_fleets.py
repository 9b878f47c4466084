"""Fleets on a lane in an outage: what is measured, what is wasted, and how all come back."""

from __future__ import annotations

import pytest

from tests.truezero.sdk.fleets import DEAD, DOWN, Fault, Fleet, Played, limited, outages, play

BEGIN_S = 60.0
MOST_AFTER = 1.2
MANY = [
    pytest.param(64, marks=pytest.mark.slow),
    pytest.param(512, marks=[pytest.mark.slow, pytest.mark.whole]),
]


def tasks(agents: int, rounds: int) -> int:
    return max(30, agents * rounds)


def all_measured(played: Played) -> bool:
    return played.measured == len(played.results)


@pytest.mark.parametrize("lasts_s", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("agents", [1, 8, *MANY])
def test_an_outage_costs_no_measurement_and_few_calls(agents: int, lasts_s: float) -> None:
    until = BEGIN_S + lasts_s
    fleet = Fleet(agents=agents, tasks=tasks(agents, 12), script=outages((BEGIN_S, until)))
    played = play(fleet)
    assert all_measured(played)
    minutes = range(int(lasts_s // 60) + 1)
    wasted = [played.wasted(BEGIN_S + 60 * n, BEGIN_S + 60 * n + 60) for n in minutes]
    assert wasted[0] <= 8
    assert max(wasted[1:], default=0) <= 2
    back_at = min(each.at for each in played.calls if each.answered and each.at >= until)
    assert back_at - until <= 60 + 1, "the next probe"
    steady = played.begun(0, BEGIN_S)
    assert played.begun(back_at, back_at + 60) <= MOST_AFTER * steady, "no thundering herd"
    running = sum(not each.answered and not each.late for each in played.calls)
    assert running <= max(agents, 4), "each that ran meets it once"


@pytest.mark.slow
@pytest.mark.parametrize("lasts_s", [60.0, 180.0])
@pytest.mark.parametrize("agents", [8, 64])
def test_a_lane_that_is_waited_for_is_healthy_within_a_probe_of_the_outages_end(
    agents: int, lasts_s: float
) -> None:
    until = BEGIN_S + lasts_s
    script = outages((BEGIN_S, until))
    played = play(Fleet(agents=agents, tasks=tasks(agents, 20), script=script, watched=True))
    words = {word for at, word in played.words if BEGIN_S + 60 < at < until}
    assert words == {"down"} or lasts_s == 60.0
    back_at = min(each.at for each in played.calls if each.answered and each.at >= until)
    later = [word for at, word in played.words if at > back_at + 60 + 5]
    assert set(later) == {"healthy"}, "a minute's votes after its answer"


@pytest.mark.slow
@pytest.mark.parametrize("lasts_s", [5.0, 60.0, 180.0])
@pytest.mark.parametrize("agents", [2, 16, 128])
def test_no_outage_within_patience_costs_a_measurement(agents: int, lasts_s: float) -> None:
    script = outages((BEGIN_S, BEGIN_S + lasts_s))
    assert all_measured(play(Fleet(agents=agents, tasks=tasks(agents, 12), script=script)))


@pytest.mark.parametrize("agents", [1, 2, pytest.param(32, marks=pytest.mark.slow), *MANY])
def test_a_lane_that_comes_and_goes_costs_no_measurement(agents: int) -> None:
    flaps = outages(*((BEGIN_S + 20 * n, BEGIN_S + 20 * n + 10) for n in range(12)))
    assert all_measured(play(Fleet(agents=agents, tasks=tasks(agents, 12), script=flaps)))


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("agents", [1, 2, 8, *MANY])
def test_a_rate_limit_costs_no_measurement(agents: int, states: bool) -> None:
    script = limited(agents * 6, states=states)
    assert all_measured(play(Fleet(agents=agents, tasks=tasks(agents, 8), script=script)))


@pytest.mark.parametrize("agents", [8, *MANY])
def test_a_dead_key_costs_its_own_tasks_a_try_each_and_nobody_else_a_wait(agents: int) -> None:
    def script(_at: float, key: str) -> Fault | None:
        return DEAD if key == "dead" else None

    played = play(Fleet(agents=agents, tasks=100, dead=50, script=script))
    assert played.measured == 50
    assert [ran.attempts for ran in played.results] == [1] * 100
    alone = play(Fleet(agents=agents, tasks=100, script=outages()))
    assert played.took_s < 1.2 * alone.took_s


@pytest.mark.parametrize("agents", [8, *MANY])
def test_one_key_of_two_that_is_down_for_a_while_costs_no_measurement(agents: int) -> None:
    def script(at: float, key: str) -> Fault | None:
        return DOWN if key == "dead" and at < 120 else None

    assert all_measured(play(Fleet(agents=agents, tasks=100, dead=50, script=script)))


def test_an_outage_that_outlasts_patience_ends_all_at_once_and_says_so() -> None:
    played = play(Fleet(agents=8, tasks=40, script=outages((0.0, 1e9)), max_wait_s=100.0))
    assert 100.0 <= played.took_s < 102.0
    said = {ran.given_up for ran in played.results}
    down = "openai/gpt-5 has answered nobody since 1970-01-01T00:00:00Z (provider_error)"
    assert said == {f"{down}: not waited for longer than 100 s (max_wait_s); run it again"}
    tried = [ran.attempts for ran in played.results]
    assert sum(tried) <= 2 * 8 + 8, "those that began before it was known, and the probes"
    assert 0 in tried, "the rest is not tried at all"


@pytest.mark.parametrize("bad", [1, 3])
def test_tasks_that_all_fail_at_the_end_of_a_batch_end_it_within_minutes(bad: int) -> None:
    fleet = Fleet(agents=8, tasks=64, script=outages(), bad=frozenset(range(64 - bad, 64)))
    played = play(fleet)
    assert played.measured == 64 - bad
    healthy_s = play(Fleet(agents=8, tasks=64, script=outages())).took_s
    assert played.took_s - healthy_s < 240, "a minute of belief, and three tries a minute apart"
