"""Models of a rollout: faults by call, and what an outcome may say."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from truezero.models.rollouts import Fault, OutcomeRequest, RolloutRequest


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"at_call": 3}, [3, 4, 5, 6]),
        ({"at_call": 2, "every": 2}, [2, 4, 6]),
        ({"at_call": 2, "every": 2, "times": 2}, [2, 4]),
        ({"times": 1}, [1]),
    ],
)
def test_a_fault_strikes_the_calls_that_it_names(fault: dict[str, int], failing: list[int]) -> None:
    injected = Fault.model_validate({"kind": "auth", **fault})
    assert [call for call in range(1, 7) if injected.strikes(call)] == failing


@pytest.mark.parametrize(
    ("given", "stored"),
    [(1, {"reward": 1.0}), (0.5, {"reward": 0.5}), ({"a": 1}, {"a": 1.0}), (None, None)],
)
def test_a_bare_number_is_the_reward_named_reward(given: object, stored: object) -> None:
    outcome = OutcomeRequest.model_validate({"status": "success", "rewards": given})
    assert outcome.rewards == stored


def test_true_is_not_a_reward() -> None:
    with pytest.raises(ValidationError, match="rewards"):
        OutcomeRequest.model_validate({"status": "success", "rewards": True})


def test_a_termination_reason_belongs_to_a_success_only() -> None:
    fields = {"status": "success", "termination_reason": "agent_stop"}
    assert OutcomeRequest.model_validate(fields).termination_reason == "agent_stop"
    with pytest.raises(ValidationError, match="only allowed when status is success, not task_tim"):
        OutcomeRequest.model_validate({**fields, "status": "task_timeout"})


def test_an_upstream_has_a_shorter_limit_than_other_names() -> None:
    RolloutRequest(upstream="x" * 64, task="x" * 200)
    with pytest.raises(ValidationError, match="at most 64 characters"):
        RolloutRequest(upstream="x" * 65)
