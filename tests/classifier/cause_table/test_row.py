"""The words that rows of the cause table are built from."""

from __future__ import annotations

from classifier.cause_table.row import (
    BAD_REQUEST,
    CLIENT,
    NOT_SERVER,
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
