"""The words that rows of the cause table are built from."""

from __future__ import annotations

import re

import pytest

from classifier.cause_table.row import (
    BAD_REQUEST,
    CLIENT,
    MODEL_GONE,
    NOT_SERVER,
    PER_DAY,
    SERVER,
    names,
    pattern,
    statuses,
)


def test_names_are_compared_in_lower_case() -> None:
    assert names("Quota_Exceeded  rate") == {"quota_exceeded", "rate"}


def test_a_clause_is_found_in_any_case() -> None:
    assert pattern(r"credit balance").search("Your CREDIT BALANCE is low")


def test_the_statuses_do_not_overlap() -> None:
    assert not CLIENT & SERVER
    assert CLIENT | {None} == NOT_SERVER
    assert statuses(400, 422) <= BAD_REQUEST <= NOT_SERVER


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        ("The model `gpt-9` does not exist", True),
        ("model: claude-0 not found", True),
        ("The requested model 'x/y-1' is not supported", True),
        ("Tools with model x-1 are not supported", False),
        ("This feature is not available for model gpt-4", False),
    ],
)
def test_a_missing_model_is_told_from_a_missing_feature(message: str, gone: bool) -> None:
    assert bool(re.search(MODEL_GONE, message, re.IGNORECASE)) is gone


@pytest.mark.parametrize(
    ("message", "daily"),
    [
        ("Rate limit reached on tokens per day (TPD)", True),
        ("You exceeded your monthly quota", True),
        ("Limit: 3 requests per min, 200 requests per day", False),
        ("Rate limit reached on tokens per min (TPM)", False),
    ],
)
def test_a_daily_limit_is_told_from_one_per_minute(message: str, daily: bool) -> None:
    assert bool(re.search(PER_DAY, message, re.IGNORECASE)) is daily
