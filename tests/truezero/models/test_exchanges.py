"""Models of calls: what a newer service adds is kept."""

from __future__ import annotations

import json

from tests.api_examples import FILE
from truezero.models.rollouts import ExchangePage

PAGE = json.loads(FILE.read_text("utf-8"))["GET /rollouts/{rollout_id}/exchanges"]["response"]


def test_fields_that_this_release_does_not_know_are_kept() -> None:
    (call,) = PAGE["items"]
    page = ExchangePage.model_validate({"items": [{**call, "weather": "fine"}], "next": None})
    assert page.model_dump()["items"][0]["weather"] == "fine"


def test_unknown_counts_are_null_and_not_zero() -> None:
    (call,) = ExchangePage.model_validate(PAGE).items
    assert (call.input_tokens, call.total_tokens, call.first_token_s) == (None, None, None)
    assert call.tool_calls == 0, "the answer was read, and had none"
