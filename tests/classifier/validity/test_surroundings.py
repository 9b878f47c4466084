from __future__ import annotations

from typing import Any

from classifier import EVIDENCE
from classifier.evidence import Evidence
from classifier.totals import TimeAccount
from classifier.validity.measurement import CheckResult, Measurement
from classifier.validity.surroundings import (
    DUPLICATE_IDENTITY,
    JUDGE_FAILED,
    USAGE_MISMATCH,
    judge_failed,
    starved,
)
from classifier.verdicts import Coverage, Health, Level, RoleVerdict, Subcategory
from tests.builders import rollout
from tests.classifier.validity.judged import call, coverage, found, level, record

# --- Tokens that the runner reports and its calls did not have ------------------------------------

CALL = call(input=4_000, output=100, cached_input_tokens=3_000)
CALLS = [CALL] * 4  # 16,000 of input, 12,000 of it cached, 400 of output


def test_a_count_that_fits_no_reading_is_suspect() -> None:
    for reported, expected in (
        (16_400, None),
        (16_000, None),  # input only
        (4_400, None),  # fresh input
        (5_600, None),  # cached input at a tenth
        (400, None),  # output only
        (4_100, None),  # the last call
        (32_800, None),  # twice as much
        (8_200, None),  # half as much
        (28_400, None),  # cached input counted twice
        (57_000, "suspect"),
        (10, "suspect"),
        (49, "suspect"),
        (110, "suspect"),  # no runner counts the output of the last call only
        (1_000_000, "suspect"),
        (0, None),
        (None, None),
    ):
        assert level(USAGE_MISMATCH, record(CALLS, total_tokens=reported)) == expected, reported


def test_a_runner_may_leave_side_calls_and_reasoning_out_or_count_a_judges() -> None:
    side = call("200+side", input=90_000, output=500)
    for calls, reported in (
        ([*CALLS, *[side] * 4], 16_400),
        ([*CALLS, *[side] * 4], 378_400),
        ([call(input=100, output=9_000, reasoning_tokens=8_900)], 200),
        ([CALL, call("200+judge", input=90_000, output=500)], 94_600),
        ([CALL, call("200+embed", input=90_000, output=0)], 94_100),
        ([CALL, call("429"), call("net")], 4_100),
    ):
        assert level(USAGE_MISMATCH, record(calls, total_tokens=reported)) is None, reported
        assert level(USAGE_MISMATCH, record(calls, total_tokens=2_000_000)) == "suspect", reported


def test_unknown_counts_are_not_compared() -> None:
    half: list[dict[str, Any]] = [
        {"input": None, "output": 100}, {"input": 100, "output": None, "output_tokens": None},
    ]  # fmt: skip
    for facts in half:
        judged = record([*CALLS, call(**facts)], total_tokens=10)
        assert found(USAGE_MISMATCH, judged) is None, facts
        assert coverage(USAGE_MISMATCH, judged) == (4, 5), facts
    for text in ("200+tool+nousage", "left", "pending", "200+media"):
        assert level(USAGE_MISMATCH, record([*CALLS, call(text)], total_tokens=10)) is None, text
    judges = record([*CALLS, call("200+judge+nousage")], total_tokens=10)
    assert level(USAGE_MISMATCH, judges) is None
    assert level(USAGE_MISMATCH, record(CALLS, total_tokens=10, gaps=1)) is None
    queued = [*CALLS, call("200+queued"), call("200+polled")]
    assert (
        level(USAGE_MISMATCH, record(queued, total_tokens=10)) == "suspect"
    )  # those cost nothing yet


def test_counts_that_say_nothing_of_the_cache_leave_room_for_it() -> None:
    silent = [call(input=4_000 + at, output=100) for at in range(10)]
    for reported, expected in (
        (10_000, None), (4_200, None), (80_000, None), (499, "suspect"), (90_000, "suspect"),
    ):  # fmt: skip
        assert level(USAGE_MISMATCH, record(silent, total_tokens=reported)) == expected, reported
    stating = [call(input=4_000 + at, output=100, cached_input_tokens=0) for at in range(10)]
    assert level(USAGE_MISMATCH, record(stating, total_tokens=10_000)) == "suspect"
    ollama = [call(input=400, output=100, api="ollama.chat")] * 3
    assert level(USAGE_MISMATCH, record(ollama, total_tokens=90_000)) is None
    assert coverage(USAGE_MISMATCH, record(ollama, total_tokens=90_000)) == (0, 3)


def test_it_is_about_rollouts_with_calls_and_a_count() -> None:
    assert coverage(USAGE_MISMATCH, record(CALLS)) is None
    assert coverage(USAGE_MISMATCH, record([], total_tokens=10)) is None
    assert coverage(USAGE_MISMATCH, record(CALLS, total_tokens=10, usage_channel="none")) is None
    assert coverage(USAGE_MISMATCH, record(CALLS, running=True)) is None
    assert coverage(USAGE_MISMATCH, record([call("429")], total_tokens=10)) is None


def test_the_finding_tells_both_counts() -> None:
    finding = found(USAGE_MISMATCH, record(CALLS, total_tokens=10))
    assert finding is not None
    assert finding.sentence == (
        "the runner reports 10 tokens; its calls had 16,400 (16,000 of input, 400 of output)"
    )
    assert finding.evidence == ("x0", "x1", "x2", "x3")
    assert finding.about == {"reported": 10, "input": 16_000, "output": 400}


# --- Judges and users whose calls failed ----------------------------------------------------------

HEALTHY = RoleVerdict(health=Health.HEALTHY, rule="healthy", total_requests=2)


def dead(subcategory: Subcategory | None = Subcategory.AUTH, **said: Any) -> RoleVerdict:
    facts: dict[str, Any] = {
        "health": Health.API_ERROR,
        "rule": "all_failed",
        "subcategory": subcategory,
        "total_requests": 3,
        "failed_requests": 3,
        "evidence": ("j0", "j1", "j2"),
    }
    return RoleVerdict(**facts | said)


def examined(**roles: RoleVerdict) -> CheckResult | None:
    facts = Evidence.of(rollout("200+tool 200"), EVIDENCE)
    return judge_failed(Measurement.of(facts, roles=roles, time=TimeAccount()))


def test_a_score_does_not_stand_on_a_dead_judge_or_user() -> None:
    for role in ("judge", "Judge-2", "grader", "verifier", "user", "user_simulator", "evaluator",
                 "reward-model"):  # fmt: skip
        looked = examined(**{role: dead()})
        assert looked is not None, role
        assert looked.finding is not None, role
        assert (looked.finding.check, looked.finding.level) == (JUDGE_FAILED, Level.INVALID), role


def test_the_level_is_that_of_the_worst_role() -> None:
    suspected = dead(None, health=Health.SUSPECTED_API_ERROR, rule="empty_answers")
    rejected = dead(Subcategory.REJECTED_REQUEST)
    for roles, expected in (
        ({"judge": HEALTHY}, None),
        ({"judge": HEALTHY, "user": dead()}, Level.INVALID),
        ({"summarizer": dead()}, Level.SUSPECT),
        ({"summarizer": dead(), "judge": dead()}, Level.INVALID),
        ({"judge": suspected}, Level.INVALID),
        ({"judge": rejected}, Level.SUSPECT),  # what was rejected may be the agent's answer
        ({"judge": dead(health=Health.UNDECIDED)}, None),
        ({"judge": dead(health=Health.NOT_JUDGED)}, None),
    ):
        looked = examined(**roles)
        assert looked is not None
        assert (looked.finding.level if looked.finding else None) is expected, roles


def test_the_finding_says_of_whom_and_why() -> None:
    empty = dead(
        None, health=Health.SUSPECTED_API_ERROR, rule="empty_answers", total_requests=2,
        failed_requests=0, evidence=("u0",),
    )  # fmt: skip
    looked = examined(user=empty, judge=dead(failed_requests=2), tool=HEALTHY)
    assert looked is not None
    finding = looked.finding
    assert finding is not None
    assert finding.sentence == (
        "role judge did not reach its model in 2 of 3 calls (auth); role user did not reach its "
        "model in 2 of 2 calls (empty_answers)"
    )
    assert (finding.calls, finding.of) == (4, 7)
    assert finding.evidence == ("j0", "j1", "j2", "u0")
    assert finding.about == {"roles": {"judge": "auth", "user": "empty_answers"}}


def test_calls_of_an_undecided_role_are_not_covered() -> None:
    undecided = RoleVerdict(health=Health.UNDECIDED, rule="undecided", total_requests=3)
    looked = examined(judge=undecided, user=HEALTHY)
    assert looked is not None
    assert looked.coverage == Coverage(looked=2, of=5)
    assert examined() is None


def test_no_finding_names_more_than_ten_calls() -> None:
    looked = examined(judge=dead(evidence=tuple(f"j{n}" for n in range(30))))
    assert looked is not None
    assert looked.finding is not None
    assert looked.finding.evidence == tuple(f"j{n}" for n in range(20, 30))


# --- Tasks that timed out while the provider was waited for ---------------------------------------

Seconds = tuple[float | None, float | None, float | None]  # provider, lost, agent


def starved_examined(
    seconds: Seconds, calls: str = "200+tool*4", status: str = "task_timeout"
) -> CheckResult | None:
    provider_s, lost_s, agent_s = seconds
    facts = Evidence.of(rollout(calls, status=status), EVIDENCE)
    time = TimeAccount(provider_s=provider_s, lost_s=lost_s, agent_s=agent_s)
    return starved(Measurement.of(facts, roles={}, time=time))


def starved_level(seconds: Seconds, calls: str = "200+tool*4") -> str | None:
    looked = starved_examined(seconds, calls)
    assert looked is not None
    return None if looked.finding is None else looked.finding.level.value


def test_a_timeout_is_the_providers_where_little_came_for_most_of_the_time() -> None:
    for seconds, calls, expected in (
        ((300, 0, 700), "200+tool*4", None),  # 80 tokens in 300 s, but the agent took longer
        ((500, 0, 500), "200+tool*4", None),
        ((501, 0, 499), "200+tool*4", "suspect"),
        ((15, 0, 5), "200+tool*4", "info"),  # 80 tokens in 15 s: a model at work
        ((5, 600, 395), "503*3 200+tool*4", "suspect"),  # lost to failures
        ((10, 10, 5), "503 200+tool*4", "info"),
        ((900, 0, 100), "left", "suspect"),  # nothing came at all
        ((900, 0, 100), "200+tool 200+tool+nousage", "info"),  # nobody counted what came
        ((900, 0, 100), "200+tool left+text", "suspect"),
    ):
        assert starved_level(seconds, calls) == expected, (seconds, calls)


def test_the_finding_tells_where_the_time_went() -> None:
    looked = starved_examined((1800, 200, 400), "503 200+tool*2 200[5-900]")
    assert looked is not None
    finding = looked.finding
    assert finding is not None
    assert finding.sentence == (
        "the task timed out after 2,400 s, of which the provider took 1,800 s and its failures "
        "200 s for 60 tokens of output"
    )
    assert finding.about == {
        "provider_s": 1800, "lost_s": 200, "agent_s": 400, "output_tokens": 60,
    }  # fmt: skip
    assert set(finding.evidence) == {"x0", "x1", "x2", "x3"}
    looked = starved_examined((900, 0, 100), "200+tool*20 200+tool+nousage[30-800]")
    assert looked is not None
    assert looked.finding is not None
    assert looked.finding.sentence == (
        "the task timed out after 1,000 s, of which the provider took 900 s"
    )
    assert len(looked.finding.evidence) == 10
    assert "x20" in looked.finding.evidence


def test_only_timeouts_whose_time_is_known_are_looked_at() -> None:
    assert starved_examined((900, 0, 100), status="success") is None
    assert starved_examined((900, 0, 100), calls="") is None
    unknown: list[Seconds] = [(None, 0, 100), (900, None, 100), (900, 0, None)]
    for seconds in unknown:
        looked = starved_examined(seconds)
        assert looked == CheckResult(coverage=Coverage(looked=0, of=4)), seconds


# --- Two runs in one rollout ----------------------------------------------------------------------

BEGUN = call(begun_elsewhere=True)
OWN = call(begun_elsewhere=False)


def test_a_message_begun_twice_from_two_addresses_is_suspect() -> None:
    for calls, expected in (
        ([OWN, OWN], None),
        ([OWN, BEGUN], "suspect"),
        ([OWN, call()], None),
        ([OWN, call("200+side", begun_elsewhere=True)], None),  # titles begin alike
    ):
        assert level(DUPLICATE_IDENTITY, record(calls)) == expected, [
            x.begun_elsewhere for x in calls
        ]


def test_the_finding_counts_the_calls() -> None:
    finding = found(DUPLICATE_IDENTITY, record([OWN, OWN, BEGUN]))
    assert finding is not None
    assert finding.sentence == (
        "1 of 3 calls began with a message that another address had begun with before: two runs "
        "may share this rollout"
    )
    assert finding.evidence == ("x2",)


def test_calls_whose_first_message_was_not_seen_are_not_covered() -> None:
    assert coverage(DUPLICATE_IDENTITY, record([OWN, call()])) == (1, 2)
    assert coverage(DUPLICATE_IDENTITY, record([call("429")])) is None
