"""Models of virtual keys as LiteLLM's proxy takes them: durations, unknown fields, deletions."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from truezero.models import KeyDeletion, KeyRequest


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("30s", 30), ("20m", 1200), ("1h", 3600), ("7d", 604_800), ("2w", 1_209_600),
     ("1mo", 2_592_000), (" 5s ", 5), (90, 90)],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(duration: object, seconds: int) -> None:
    assert KeyRequest.model_validate({"duration": duration}).duration == seconds


@pytest.mark.parametrize("duration", ["", "30", "s", "1y", "-1s", "1.5h"])
def test_another_duration_is_rejected(duration: str) -> None:
    with pytest.raises(ValidationError, match="must be a number followed by"):
        KeyRequest.model_validate({"duration": duration})


def test_unknown_fields_are_ignored_and_a_chosen_key_is_rejected() -> None:
    assert KeyRequest.model_validate({"max_budget": 5, "key_alias": "a"}).key_alias == "a"
    with pytest.raises(ValidationError, match="key"):
        KeyRequest.model_validate({"key": "sk-mine"})


def test_a_deletion_names_something() -> None:
    assert KeyDeletion(keys=["tz-1"]).key_aliases is None
    assert KeyDeletion(key_aliases=["a"]).keys is None
    empty: list[dict[str, list[str]]] = [{}, {"keys": []}, {"keys": [], "key_aliases": []}]
    for nothing in empty:
        with pytest.raises(ValidationError, match="keys or key_aliases is required"):
            KeyDeletion.model_validate(nothing)
