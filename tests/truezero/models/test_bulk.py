"""A body of many registrations is a list of anything, up to the most of one call."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from truezero.models import MOST_REGISTRATIONS, BulkRegistered, BulkRequest


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
