"""Models of a rollout: what is logged of its keys, and what an outcome may say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.api_examples import text as examples
from truezero.models import MOST_REGISTRATIONS, BulkRegistered, BulkRequest
from truezero.models.rollouts import (
    ExchangePage,
    OutcomeRequest,
    RoleAccess,
    RolloutRegistered,
    RolloutRequest,
)


def test_what_is_registered_can_be_logged_without_its_keys() -> None:
    shown: dict[str, Any] = {
        "key": "tz-secret",
        "base_urls": {"openai": "http://h/r/id~secret/openai/v1"},
        "env": {"OPENAI_BASE_URL": "http://h/r/id~secret/openai/v1"},
    }
    judge = RoleAccess.model_validate(shown)
    registered = RolloutRegistered.model_validate(
        {**shown, "id": "id", "admitted": True, "error": None, "roles": {"judge": shown}}
    )
    assert "secret" not in repr(registered)
    assert "secret" not in str(judge)
    assert registered.key == "tz-secret"


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


# --- A body of many registrations is a list of anything, up to the most of one call ---------------


def test_each_registration_is_left_to_be_read_by_itself() -> None:
    given = [{"id": "a"}, {"colour": "red"}, 7, None]
    assert BulkRequest.model_validate({"rollouts": given}).rollouts == given


def test_none_and_too_many_are_refused() -> None:
    for count in (0, MOST_REGISTRATIONS + 1):
        with pytest.raises(ValidationError):
            BulkRequest.model_validate({"rollouts": [{}] * count})


def test_an_item_has_an_answer_or_a_problem() -> None:
    refused = {"type": "about:blank", "title": "no", "status": 409, "detail": "no", "code": "no"}
    items = [{"status": 409, "rollout": None, "problem": refused}]
    (item,) = BulkRegistered.model_validate({"items": items}).items
    assert item.problem is not None
    assert (item.problem.code, item.rollout) == ("no", None)


# --- Models of calls: what a newer service adds is kept -------------------------------------------

PAGE = json.loads(examples())["GET /rollouts/{rollout_id}/exchanges"]["response"]


def test_fields_that_this_release_does_not_know_are_kept() -> None:
    (call,) = PAGE["items"]
    page = ExchangePage.model_validate({"items": [{**call, "weather": "fine"}], "next": None})
    assert page.model_dump()["items"][0]["weather"] == "fine"


def test_unknown_counts_are_null_and_not_zero() -> None:
    (call,) = ExchangePage.model_validate(PAGE).items
    assert (call.input_tokens, call.total_tokens, call.first_token_s) == (None, None, None)
    assert call.tool_calls == 0, "the answer was read, and had none"
