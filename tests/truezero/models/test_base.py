"""Field types of the REST contract: what each of them accepts."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from truezero.models.base import Count, JsonObject, Name, StrictRequest, Text


class Sample(StrictRequest):
    name: Name = None
    count: Count = None
    data: JsonObject = None
    text: Text = ""


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x" * 200, "count": 2**53},
        {"name": None, "count": None, "data": None},
        {"name": "é", "data": {"a": [1, None, "é"]}, "text": "line\nline"},
    ],
)
def test_valid_values_are_kept(fields: dict[str, object]) -> None:
    assert Sample.model_validate(fields).model_dump(include=set(fields)) == fields


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "at least 1 character"),
        ({"name": "x" * 201}, "at most 200 characters"),
        ({"name": "a\x00b"}, "must not contain control characters"),
        ({"count": -1}, "greater than or equal to 0"),
        ({"count": 2**53 + 1}, "less than or equal to"),
        ({"data": {"a": float("nan")}}, "must hold finite numbers and valid Unicode only"),
        ({"data": {"a": "\ud800"}}, "must hold finite numbers and valid Unicode only"),
        ({"text": "\ud800"}, "must be valid Unicode"),
        ({"other": 1}, "Extra inputs are not permitted"),
    ],
)
def test_invalid_values_are_rejected_with_a_reason(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Sample.model_validate(fields)


def test_every_request_that_forbids_unknown_fields_shares_one_base() -> None:
    from truezero import models

    strict = {
        name
        for name in models.__all__
        if isinstance(model := getattr(models, name), type)
        and issubclass(model, BaseModel)
        and model.model_config.get("extra") == "forbid"
    }
    assert strict == {
        "BatchBegin", "BatchEnd", "BatchPolicy", "BulkRequest", "DigestRequest",
        "Fault", "KeyDeletion", "LaneRequest", "Limits", "ListParameters", "OutcomeRequest",
        "ReferenceRequest", "RerunParameters", "RolloutRequest", "ReplayedCall",
    }  # fmt: skip
    assert all(issubclass(getattr(models, name), StrictRequest) for name in strict)
