from __future__ import annotations

from typing import Any

from classifier import EVIDENCE
from classifier.evidence import Evidence
from classifier.totals import TimeAccount
from classifier.validity.measurement import CheckResult, Measurement
from classifier.validity.surroundings import (
    JUDGE_FAILED,
    judge_failed,
    starved,
)
from classifier.verdicts import Coverage, Health, Level, RoleVerdict, Subcategory
from tests.builders import rollout

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
