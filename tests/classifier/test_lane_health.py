"""The word of a lane: what counts, from how many calls on, since when, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from classifier.lane_health import (
    Failures,
    LaneHealth,
    LaneMinute,
    LaneTally,
    LaneWord,
    LastReference,
    RolloutCalls,
    episodes,
    lane_health,
    merged,
    vote_of,
    weighed,
)
from classifier.records import Ending, KeySource
from classifier.verdicts import Subcategory
from tests.classifier.outages import PAGE, SCENARIOS, calm_alarms, told
from tests.tables import each

NOW = 60_000.0
LAST = int(NOW // 60) - 1


def minutes(*counts: tuple[float, float], cause: str = "provider_error") -> list[LaneMinute]:
    """Consecutive minutes until the last whole one, each with votes for answers and failures.

    Answers begin three seconds into a minute, failures five.
    """
    first = LAST + 1 - len(counts)
    return [
        LaneMinute(
            minute=first + n,
            answered=answered,
            failed={cause: failed} if failed else {},
            answers=int(answered),
            failing_from=(first + n) * 60.0 + 5 if failed else None,
            last_answered_at=(first + n) * 60.0 + 3 if answered else None,
        )
        for n, (answered, failed) in enumerate(counts)
    ]


def health(*counts: tuple[float, float], **facts: Any) -> LaneHealth:
    return lane_health(minutes(*counts), NOW, **facts)


@each(
    "counts, word",
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


def test_a_key_that_dies_midway_is_degraded_for_that_minute_and_then_down() -> None:
    """As docs/guides/your-own-loop.md says of the exit codes of `truezero status`."""
    assert health((8, 8)).word == "degraded"
    assert health((8, 0), (0, 8)).word == "down"


def test_a_failing_lane_says_since_when_by_what_and_of_how_many() -> None:
    found = health((30, 0), (30, 0), (2, 28), (0, 30))
    assert (found.word, found.cause, found.since) == (
        "down",
        "provider_error",
        (LAST - 1) * 60.0 + 5,
    )
    assert (found.failures, found.votes) == (58, 60)
    assert found.share_low is not None
    assert 0.8 < found.share_low < 58 / 60


def test_a_failing_lane_says_since_its_first_failures_though_few_left_a_doubt() -> None:
    found = health((30, 0), (0, 1), (0, 2), (0, 5))
    assert (found.since, found.failures, found.votes) == ((LAST - 2) * 60.0 + 5, 8, 8)
    assert health((30, 0), (29, 1), (0, 5)).since == (LAST - 1) * 60.0 + 5, "after the answers"


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
    assert (was.since, was.until, was.word) == ((LAST - 2) * 60.0 + 5, LAST * 60.0, "down")


def test_an_outage_lasts_until_an_answer_ends_it_however_long_nobody_calls() -> None:
    old = lane_health(minutes((30, 0), (0, 30)), NOW + 3000)
    assert old.word == "down"
    assert lane_health(minutes((30, 0)), NOW + 3000).word == "unknown", "answers grow old"


def test_a_reference_that_failed_after_the_last_call_keeps_a_lane_from_being_healthy() -> None:
    failed = LastReference(at=NOW, answered=False, subcategory=Subcategory.AUTH)
    answered = LastReference(at=NOW, answered=True)
    assert health((30, 0), reference=failed).word == "unknown"
    assert health((30, 0), reference=answered).word == "healthy"
    assert health((0, 30), reference=answered).word == "down", "it is one call"
    assert health((0, 30), reference=answered).reference == answered


# --- votes: whose failure it is ---


OUTAGE: dict[str, Any] = {
    "status": 503, "ending": Ending.COMPLETE, "held": None, "key_source": KeySource.AGENT,
    "injected": False,
}  # fmt: skip


@each(
    "subcategory, facts, vote",
    [
        ("provider_error", {}, True),
        ("provider_error", {"status": None, "ending": Ending.CUT_UPSTREAM}, True),
        ("provider_error", {"status": 500}, False),
        ("rate_limit", {"status": 429}, False),
        ("model_not_found", {"status": 404}, False),
        ("auth", {"status": 401}, False),
        ("auth", {"status": 401, "key_source": KeySource.OPERATOR}, True),
        ("quota", {"status": 429, "key_source": KeySource.ADDED}, True),
        ("provider_error", {"injected": True}, None),
        ("provider_error", {"held": True, "ending": Ending.TIMED_OUT}, None),
        ("rejected_request", {"status": 400}, None),
    ],
)
def test_a_failure_votes_by_who_can_bring_it_about(
    subcategory: str, facts: dict[str, Any], vote: bool | None
) -> None:
    assert vote_of(subcategory, **OUTAGE | facts) is vote


def tally(
    minute: int,
    answering: dict[str, int] | None = None,
    failing: dict[str, int] | None = None,
    *,
    cause: str = "provider_error",
    outage: bool = True,
    answered_s: float = 50.0,
    failed_s: float = 10.0,
) -> LaneTally:
    """A minute in which rollouts were answered and failed so often; calls begin at two seconds."""
    answered, failed = answering or {}, failing or {}
    begin = minute * 60.0
    return LaneTally(
        minute=minute,
        calls=sum(answered.values()) + sum(failed.values()),
        answered=sum(answered.values()),
        failed={cause: sum(failed.values())} if failed else {},
        last_answered_at=begin + answered_s if answered else None,
        answering={name: calls for name, calls in answered.items() if name not in failed},
        failing={
            name: RolloutCalls(
                answered.get(name, 0),
                {cause: Failures(calls, outage, begin + failed_s, begin + failed_s)},
            )
            for name, calls in failed.items()
        },
    )


def votes(*tallies: LaneTally, **facts: Any) -> list[tuple[float, float]]:
    return [(each.answered, each.failures) for each in weighed(tallies, **facts)]


def test_a_rollout_has_one_vote_a_minute_however_many_calls_it_makes() -> None:
    assert votes(tally(1, {"a": 500, "b": 1}, {"c": 90, "d": 1})) == [(2, 2)]
    assert votes(tally(1, {"a": 3, "b": 1}, {"a": 1, "b": 1})) == [(1.25, 0.75)], "in parts"
    assert [each.answers for each in weighed([tally(1, {"a": 500})])] == [500]


def test_an_outage_votes_unless_one_rollout_has_it_alone_while_others_are_answered() -> None:
    alone = [tally(n, failing={"one": 2}) for n in range(3)]
    assert votes(*alone) == [(0, 1)] * 3
    assert votes(*alone[:2], tally(2, {"one": 5}, {"one": 5})) == [(0, 1), (0, 1), (0.5, 0.5)]
    others = [tally(n, {"other": 1}, {"one": 2}) for n in range(3)]
    assert votes(*others) == [(1, 0)] * 3
    before = [tally(0, {"other": 1}, {"one": 2}, answered_s=5.0), *alone[1:]]
    assert votes(*before) == [(1, 1), (0, 1), (0, 1)], "it was answered before the first failed"
    assert votes(*(tally(n, {"x": 1}, {f"r{n % 2}": 1}) for n in range(4))) == [(1, 1)] * 4


def test_what_an_agent_can_bring_about_votes_once_three_rollouts_fail_alike() -> None:
    def failing(*names: str) -> LaneTally:
        return tally(1, {"x": 1}, dict.fromkeys(names, 20), cause="rate_limit", outage=False)

    assert votes(failing("a", "b")) == [(1, 0)]
    assert votes(failing("a", "b", "c")) == [(1, 3)]


def test_a_burst_weighs_little_beside_the_few_failures_of_others() -> None:
    facts: dict[str, Any] = {"cause": "rate_limit", "outage": False}
    burst = [tally(n, failing={"burst": 9}, **facts) for n in range(6)]
    few = tally(6, failing={"burst": 9, "a": 1, "b": 1}, **facts)
    assert sum(failed for _, failed in votes(*burst, few)) == 3


def test_a_failure_beside_which_a_reference_was_answered_does_not_vote() -> None:
    both = tally(1, failing={"a": 1, "b": 1})
    assert votes(both) == [(0, 2)]
    assert votes(both, explained=lambda name, _failures: name == "a") == [(0, 1)]


def test_rows_of_several_processes_and_servers_add_up_and_a_rollout_counts_once() -> None:
    one, other = tally(1, {"a": 1, "b": 2}), tally(1, {"b": 1, "c": 1}, {"a": 1, "d": 4})
    both = merged([one, other])
    assert (both.calls, both.answered, both.failed) == (10, 5, {"provider_error": 5})
    assert votes(both) == [(2.5, 1.5)]
    assert merged([both, both]).calls == 20


def test_it_fails_since_the_first_failed_call_after_the_last_answered_one() -> None:
    begun = tally(1, {"a": 1, "b": 1}, {"c": 1}, answered_s=20.0, failed_s=21.5)
    found = lane_health(
        weighed([begun, *(tally(n, failing={"a": 1, "c": 1}) for n in (2, 3))]), 240
    )
    assert (found.word, found.since, found.answered_at) == ("down", 81.5, 80.0)


def test_failures_on_both_sides_of_the_last_answer_are_told_apart_to_the_second() -> None:
    seconds = sum(1 << second for second in (5, 20, 30, 50))
    both = Failures(4, True, 65.25, 110.75, seconds)
    assert list(both.begins()) == [65.25, 80, 90, 110.75]
    begun = LaneTally(
        minute=1, calls=9, answered=5, failed={"provider_error": 4}, last_answered_at=70.5,
        answering={"a": 5}, failing={"b": RolloutCalls(0, {"provider_error": both})},
    )  # fmt: skip
    later = [tally(n, failing={"b": 1, "c": 1}) for n in (2, 3)]
    found = lane_health(weighed([begun, *later]), 240)
    assert (found.since, found.answered_at) == (80, 70.5)
    assert [each.answered_at for each in found.episodes] == [70.5]


def test_rollouts_beyond_the_named_say_since_when_too() -> None:
    most = LaneTally(
        minute=1, calls=100, answered=60, failed={"provider_error": 40}, last_answered_at=80.0,
        answering={"a": 60}, failing={"b": RolloutCalls(0, {"provider_error": Failures(
            1, True, 61.0, 61.0, 2)})}, more_failing={"provider_error": 39},
        more_seconds={"provider_error": 1 << 2 | 1 << 25 | 1 << 40},
    )  # fmt: skip
    found = lane_health(weighed([most, tally(2, failing={"b": 1, "c": 1})]), 180)
    assert found.since == 85.0
    assert merged([most, most]).more_seconds == most.more_seconds


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


@pytest.mark.parametrize("hours", [3, pytest.param(18, marks=pytest.mark.slow)])
def test_calm_hours_raise_no_alarm(hours: int) -> None:
    assert calm_alarms(hours, seed=1)[1] == 0
