"""Rows by names that a provider defined."""

from __future__ import annotations

from classifier.cause_table.codes import COINED


def test_no_row_goes_by_the_status_alone() -> None:
    by_text = [(row.names or row.reasons or row.params or row.says, row.id) for row in COINED]
    assert [name for condition, name in by_text if not condition] == []


def test_no_two_rows_have_the_same_conditions() -> None:
    conditions = [
        (row.names, row.reasons, row.says, row.params, row.on, row.http, row.upstreams)
        for row in COINED
    ]
    assert len(set(conditions)) == len(conditions)
