"""Sentences for what is not taken: near names, values, errors of pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from truezero.mistakes import (
    meant,
    message,
    names_at,
    nearest,
    one_slip,
    other_release,
    shown,
    unknown,
)
from truezero.models import RolloutRequest


@pytest.mark.parametrize(
    ("word", "near"),
    [("modle", "model"), ("MODEL", "model"), ("reward", "rewards"), ("xyzzy", None), ("", None)],
)
def test_a_near_name_is_found_in_any_case(word: str, near: str | None) -> None:
    assert nearest(word, ["model", "rewards", "task"]) == near


@pytest.mark.parametrize("word", ["opneai", "openi", "openaai", "oqenai", "openai2", "xopenai"])
def test_one_slip_tells_two_names_apart(word: str) -> None:
    assert one_slip(word, "openai")
    assert one_slip("openai", word)


@pytest.mark.parametrize("word", ["openai", "opneia", "penaio", "anthropic", "open", "azure", ""])
def test_no_slip_or_two_do_not(word: str) -> None:
    assert not one_slip(word, "openai")


def test_a_name_is_suggested_as_it_is_to_be_written() -> None:
    assert meant("prot", ["port"], lambda name: f"TRUEZERO_{name.upper()}") == (
        "; did you mean TRUEZERO_PORT?"
    )
    assert meant("xyzzy", ["port"]) == ""
    assert unknown("prot", ["port", "host"]) == "unknown; did you mean port? It takes port, host"
    assert unknown("xyzzy", ["port", "host"]) == "unknown; it takes port, host"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"), (True, "true"), (7, "7"), (float("nan"), "nan"), ("a", "'a'"),
        ("x" * 41, "text"), ("a\nb", "text"), ([1], "a list"), ({"a": 1}, "an object"),
        (10**50, "a number"), (object(), "something else"),
    ],
)  # fmt: skip
def test_a_value_is_repeated_if_it_is_short(value: object, said: str) -> None:
    assert shown(value) == said


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Annotated[int, Field(gt=0, lt=9)], 9, "must be less than 9, not 9"),
        (Annotated[float, Field(gt=0)], "-1", "must be more than 0, not -1"),
        (Annotated[float, Field(allow_inf_nan=False)], "nan", "must be a finite number, not nan"),
        (Annotated[str, Field(pattern="^a$")], "b", "must be of the form ^a$, not 'b'"),
        (Annotated[list[int], Field(min_length=2)], [1], "must have at least 2 items"),
        (Annotated[str, Field(max_length=1)], "ab", "must have at most 1 character"),
        (Literal["a", "b"], "a b", "must be 'a' or 'b', not 'a b'"),
        (Literal["proxy"], "prxy", "must be 'proxy', not 'prxy'; did you mean 'proxy'?"),
        (tuple[int, int], 5, "must be a list, not 5"),
        (None, 5, "must be left out"),
        (bytes, 5, "is not taken: 5"),
    ],
)
def test_what_pydantic_finds_is_said_in_our_words(kind: Any, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert message(caught.value.errors()[0]) == said


def test_a_secret_is_described_and_never_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Literal["proxy"]).validate_python("prox")
    assert message(caught.value.errors()[0], secret=True) == "must be 'proxy', not text"


def test_names_are_those_of_the_model_in_which_a_field_stands() -> None:
    assert "batch_limits" in names_at(RolloutRequest, ["modle"])
    assert names_at(RolloutRequest, ["limits", "tokenz"]) == [
        "calls", "tokens", "cost_usd", "seconds",
    ], "what is gone is not offered"  # fmt: skip
    assert "error_code" in names_at(RolloutRequest, ["fault", "calls", 0, "eror"])
    assert names_at(None, ["x"]) == []


def test_before_1_0_minor_releases_do_not_fit() -> None:
    assert other_release(service="0.3.0", client="0.3.9") is None
    assert other_release(service="0.3.0", client="0.2.1") == (
        "the service is truezero 0.3.0 and the client is truezero 0.2.1: "
        "install the same release on both sides"
    )
