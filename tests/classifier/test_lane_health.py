"""The word of a lane: what counts, from how many calls on, since when, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from classifier.lane_health import (
    LaneFailure,
    LaneHealth,
    LaneMinute,
    LaneWord,
    LastReference,
    episodes,
    lane_failures,
    lane_health,
)
from classifier.records import Ending, KeySource
from classifier.verdicts import Subcategory
from tests.classifier.outages import PAGE, SCENARIOS, calm_alarms, told

NOW = 60_000.0
LAST = int(NOW // 60) - 1


def minutes(*counts: tuple[float, float], cause: str = "provider_error") -> list[LaneMinute]:
    """Consecutive minutes until the last whole one, each answered and failed calls."""
    first = LAST + 1 - len(counts)
    return [
        LaneMinute(minute=first + n, answered=answered, failed={cause: failed} if failed else {})
        for n, (answered, failed) in enumerate(counts)
    ]


def health(*counts: tuple[float, float], **facts: Any) -> LaneHealth:
    return lane_health(minutes(*counts), NOW, **facts)


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ([], "unknown"),
        ([(4, 0)], "unknown"),
        ([(5, 0)], "healthy"),
        ([(0, 3)], "unknown"),
        ([(0, 4)], "down"),
        ([(50, 3)], "healthy"),
        ([(20, 5)], "healthy"),
        ([(10, 8)], "degraded"),
        ([(1000, 40)], "healthy"),
        ([(1000, 120)], "degraded"),
    ],
)
def test_a_word_needs_a_floor_of_calls_and_a_share_beyond_doubt(
    counts: list[tuple[float, float]], word: str
) -> None:
    assert health(*counts).word == word


def test_a_failing_lane_says_since_when_by_what_and_of_how_many() -> None:
    found = health((30, 0), (30, 0), (2, 28), (0, 30))
    assert (found.word, found.cause, found.since) == ("down", "provider_error", (LAST - 1) * 60.0)
    assert (found.failures, found.calls) == (58, 60)
    assert found.share_low is not None
    assert 0.8 < found.share_low < 58 / 60


def test_a_failing_lane_says_since_its_first_failures_though_few_left_a_doubt() -> None:
    found = health((30, 0), (0, 1), (0, 2), (0, 5))
    assert (found.since, found.failures, found.calls) == ((LAST - 2) * 60.0, 8, 8)
    assert health((30, 0), (29, 1), (0, 5)).since == LAST * 60.0, "one of thirty is as usual"


def test_calls_in_flight_are_not_all_failing_because_failures_end_first() -> None:
    failed = {"rate_limit": 5.0}
    alone = [LaneMinute(minute=LAST, failed=failed)]
    assert lane_health(alone, NOW).word == "down"
    among = [LaneMinute(minute=LAST, failed=failed, pending=200)]
    assert lane_health(among, NOW).word == "unknown", "nothing was answered yet"


def test_it_is_over_once_answers_in_a_row_cannot_be_chance() -> None:
    outage = [(30, 0), (0, 30), (0, 30)]
    assert health(*outage, (4, 0)).word == "down"
    assert health(*outage, (5, 0)).word == "healthy"
    partial = [(30, 0), (20, 10), (20, 10), (20, 10)]
    assert health(*partial, (6, 0)).word == "degraded", "a third fails: six answers say little"
    assert health(*partial, (30, 0)).word == "healthy"
    (was,) = episodes(minutes(*outage, (5, 0)))
    assert (was.since, was.until, was.word) == ((LAST - 2) * 60.0, LAST * 60.0, "down")


def test_an_outage_lasts_until_an_answer_ends_it_however_long_nobody_calls() -> None:
    old = lane_health(minutes((30, 0), (0, 30)), NOW + 3000)
    assert (old.word, old.last_at) == ("down", LAST * 60.0)
    assert lane_health(minutes((30, 0)), NOW + 3000).word == "unknown", "answers grow old"


def test_a_reference_that_failed_after_the_last_call_keeps_a_lane_from_being_healthy() -> None:
    failed = LastReference(at=NOW, answered=False, subcategory=Subcategory.AUTH)
    answered = LastReference(at=NOW, answered=True)
    assert health((30, 0), reference=failed).word == "unknown"
    assert health((30, 0), reference=answered).word == "healthy"
    assert health((0, 30), reference=answered).word == "down", "it is one call"
    assert health((0, 30), reference=answered).reference == answered


# --- whose failure it is ---


def failure(n: int, rollout: str = "", **facts: Any) -> LaneFailure:
    said: dict[str, Any] = {"subcategory": Subcategory.PROVIDER_ERROR, "status": 503} | facts
    return LaneFailure(rollout_id=rollout or f"r{n}", at=NOW + n, **said)


BETWEEN = [(NOW + 2.5, "other")]


@pytest.mark.parametrize(
    "facts",
    [
        {"injected": True},
        {"held": True, "ending": Ending.TIMED_OUT},
        {"subcategory": Subcategory.REJECTED_REQUEST, "status": 400},
    ],
)
def test_what_the_agents_or_the_runner_caused_counts_never(facts: dict[str, Any]) -> None:
    assert lane_failures([failure(n, **facts) for n in range(10)], []) == []


def test_an_outage_counts_unless_one_rollout_has_it_alone_while_others_are_answered() -> None:
    alone = [failure(n, "one") for n in range(5)]
    assert lane_failures(alone, []) == alone
    assert lane_failures(alone, [(NOW + 2.5, "one")]) == alone
    assert lane_failures(alone, BETWEEN) == []
    both = [failure(n, f"r{n % 2}") for n in range(4)]
    assert lane_failures(both, BETWEEN) == both


@pytest.mark.parametrize(
    "facts",
    [
        {"subcategory": Subcategory.RATE_LIMIT, "status": 429},
        {"subcategory": Subcategory.MODEL_NOT_FOUND, "status": 404},
        {"subcategory": Subcategory.AUTH, "status": 401, "key_source": KeySource.AGENT},
        {"status": 500},
    ],
)
def test_what_an_agent_can_bring_about_counts_once_three_rollouts_fail_alike(
    facts: dict[str, Any],
) -> None:
    two = [failure(n, f"r{n % 2}", **facts) for n in range(20)]
    assert lane_failures(two, []) == []
    three = [failure(n, f"r{n % 3}", **facts) for n in range(21)]
    assert lane_failures(three, BETWEEN) == three


def test_a_burst_weighs_little_beside_the_few_failures_of_others() -> None:
    limit: dict[str, Any] = {"subcategory": Subcategory.RATE_LIMIT, "status": 429}
    burst = [failure(n, "burst", **limit) for n in range(50)]
    few = [failure(60, "a", **limit), failure(61, "b", **limit)]
    assert len(lane_failures([*burst, *few], [])) == 3


def test_the_operators_dead_key_counts_from_one_rollout_on() -> None:
    dead: dict[str, Any] = {"subcategory": Subcategory.AUTH, "status": 401}
    own = [failure(n, "one", key_source=KeySource.OPERATOR, **dead) for n in range(4)]
    assert lane_failures(own, []) == own


# --- measured on a simulated clock ---


# Of each kind those that are told soonest and latest; the others are played by `make all`.
OFTEN = {0, 3, 6, 7, 9, 15, 19, 21, 24, 27, 30}
QUICK = [n for n, each in enumerate(SCENARIOS) if each.cause and "two hours" not in each.name]
AGENTS = [n for n, each in enumerate(SCENARIOS) if each.cause is None]


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in QUICK]
)
def test_an_outage_is_told(seed: int) -> None:
    scenario = SCENARIOS[seed]
    found, early = told(scenario, seed, 2400.0)
    assert early == 0
    assert found is not None
    assert found.health.word in (LaneWord.DEGRADED, LaneWord.DOWN)
    assert found.health.cause == scenario.cause
    line = f"| {scenario.kind} | {scenario.name} | {found.after_s:.0f} s | {found.calls} |"
    assert line in PAGE.read_text("utf-8"), "python -m tests.classifier.outages"


@pytest.mark.parametrize("length_s", [400.0, pytest.param(2400.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", AGENTS)
def test_nothing_is_told_of_what_an_agent_does(seed: int, length_s: float) -> None:
    assert told(SCENARIOS[seed], seed, length_s) == (None, 0)


@pytest.mark.parametrize("hours", [6, pytest.param(18, marks=pytest.mark.slow)])
def test_calm_hours_raise_no_alarm(hours: int) -> None:
    assert calm_alarms(hours, seed=1)[1] == 0
