"""What a list can be asked for: values, several of them, and moments."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from truezero.models import BatchItem, BatchSummary, ListParameters


def asked(**parameters: Any) -> ListParameters:
    return ListParameters.model_validate(parameters)


def test_closed_choices_and_numbers_may_be_joined_by_commas() -> None:
    given = asked(
        health=["healthy,undecided", "api_error"], repeat=["0,1", 2], reward=["zero,null"]
    )
    assert given.health == ["healthy", "undecided", "api_error"]
    assert given.repeat == [0, 1, 2]
    assert given.reward == ["zero", "null"]


def test_a_name_may_have_a_comma() -> None:
    assert asked(task=["a,b"], fingerprint=["x,y"]).task == ["a,b"]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("12.5", 12.5),
        (3, 3.0),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:00", 3600.0),
        ("1970-01-01T01:00:00Z", 3600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_a_moment_is_seconds_or_iso_8601_in_utc(said: object, seconds: float) -> None:
    assert asked(since=said).since == asked(until=said).until == seconds


@pytest.mark.parametrize(
    "wrong",
    [
        {"since": "soon"}, {"since": "nan"}, {"since": []}, {"until": None, "colour": "red"},
        {"health": ["healthy,"]}, {"health": "healthy"}, {"repeat": [2**31]}, {"batch": ["\x00"]},
        {"text": "\x00"}, {"limit": 0}, {"limit": 1001}, {"order": "ASC"}, {"sort": "error"},
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_invalid(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ListParameters.model_validate(wrong)


def test_a_listed_batch_has_figures_of_its_summary() -> None:
    own = {"first_at", "last_at"}
    assert BatchItem.model_fields.keys() - own <= BatchSummary.model_fields.keys()
