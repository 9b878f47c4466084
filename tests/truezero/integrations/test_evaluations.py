"""What tools for traces and scores are told of a verdict."""

from __future__ import annotations

from classifier.rules import judge
from proxy.telemetry import traces as events
from tests.builders import rollout
from tests.truezero.integrations.told import FOUND, told
from truezero.integrations import evaluations
from truezero.integrations.evaluations import Evaluation


def test_a_verdict_is_its_health_and_each_finding_beside_it() -> None:
    verdict = told("401", FOUND)
    health, finding = evaluations.evaluations(verdict)
    assert health == Evaluation(
        rollout_id="r1", name="truezero.health", label="api_error", score=0.0,
        explanation=verdict.error, error_type="auth:401", judged_at=100.0,
        metadata={"batch": "nightly", "rule": verdict.rule, "cause": verdict.cause,
                  "evidence": verdict.evidence},
    )  # fmt: skip
    assert finding == Evaluation(
        rollout_id="r1", name="truezero.validity.starved", label="suspect",
        explanation="it waited", judged_at=100.0,
        metadata={"batch": "nightly", "evidence": ["x1"]},
    )  # fmt: skip


def test_a_measurement_scores_1_and_what_is_unknown_has_no_score() -> None:
    (fine,) = evaluations.evaluations(told("200"))
    assert (fine.label, fine.score, fine.error_type, fine.explanation) == (
        "healthy", 1.0, None, None,
    )  # fmt: skip
    (unknown,) = evaluations.evaluations(told("200").model_copy(update={"scoreable": "unknown"}))
    assert unknown.score is None


def test_a_provisional_verdict_is_none_yet() -> None:
    assert evaluations.evaluations(told("401", FOUND, final=False)) == []


def test_names_and_scores_are_those_of_the_events() -> None:
    (health,) = evaluations.evaluations(told("401"))
    event = events.evaluation(judge(rollout("401")))
    assert (health.name, health.label, health.score, health.explanation, health.error_type) == (
        event["gen_ai.evaluation.name"],
        event["gen_ai.evaluation.score.label"],
        event["gen_ai.evaluation.score.value"],
        event["gen_ai.evaluation.explanation"],
        event["error.type"],
    )
    assert evaluations.VALIDITY == events.VALIDITY
