"""Judges and users whose calls failed."""

from __future__ import annotations

from typing import Any

from classifier import EVIDENCE
from classifier.evidence import Evidence
from classifier.totals import TimeAccount
from classifier.validity.measurement import CheckResult, Measurement
from classifier.validity.surroundings import JUDGE_FAILED, judge_failed
from classifier.verdicts import Coverage, Health, Level, RoleVerdict, Subcategory
from tests.builders import rollout

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
    for roles, level in (
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
        assert (looked.finding.level if looked.finding else None) is level, roles


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
