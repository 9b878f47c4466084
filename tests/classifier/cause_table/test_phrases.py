"""Rows by clauses of a provider's message, and by broad type names."""

from __future__ import annotations

from classifier.cause_table import TABLE
from classifier.cause_table.phrases import BROAD, PHRASES, STATUSES


def test_every_phrase_row_reads_the_message_or_its_param() -> None:
    assert [row.id for row in PHRASES if not (row.says or row.params or row.reasons)] == []


def test_no_phrase_matches_an_empty_message() -> None:
    assert [row.id for row in PHRASES if row.says and row.says.search("")] == []


def test_broad_rows_are_tried_after_every_phrase_and_before_any_status() -> None:
    order = [row.id for row in TABLE]
    first, last = order.index(BROAD[0].id), order.index(BROAD[-1].id)
    assert max(order.index(row.id) for row in PHRASES) < first
    assert last < min(order.index(row.id) for row in STATUSES)
