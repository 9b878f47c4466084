"""Rows by clauses of a provider's message, and by broad type names."""

from __future__ import annotations

from classifier.cause_table import TABLE
from classifier.cause_table.phrases import BROAD, ENDINGS, FLAWS, PHRASES, STATUSES
from classifier.records import Ending, Flaw


def test_every_phrase_row_reads_the_message_or_its_param() -> None:
    assert [row.id for row in PHRASES if not (row.says or row.params or row.reasons)] == []


def test_no_phrase_matches_an_empty_message() -> None:
    assert [row.id for row in PHRASES if row.says and row.says.search("")] == []


def test_broad_rows_are_tried_after_every_phrase_and_before_any_status() -> None:
    order = [row.id for row in TABLE]
    first, last = order.index(BROAD[0].id), order.index(BROAD[-1].id)
    assert max(order.index(row.id) for row in PHRASES) < first
    assert last < min(order.index(row.id) for row in STATUSES)


# --- Rows by status, by ending and by flaw --------------------------------------------------------


def test_every_failed_status_has_a_row_and_so_has_an_unnamed_error_inside_a_200() -> None:
    covered = {status for row in STATUSES if not row.upstreams for status in row.on or ()}
    assert {*range(400, 1000), None} <= covered


def test_every_flaw_has_a_row() -> None:
    assert set(FLAWS) == set(Flaw)


def test_every_ending_that_says_of_itself_why_a_call_failed_has_a_row() -> None:
    """A call that is closed at the outcome is read by the row of one that its agent left."""
    rowless = {Ending.COMPLETE, Ending.LOST, Ending.LEFT_WHILE_HELD, Ending.CLOSED_AT_OUTCOME}
    assert set(ENDINGS) == set(Ending) - rowless


def test_the_rows_of_endings_and_flaws_need_no_other_condition() -> None:
    rows = [*ENDINGS.values(), *FLAWS.values()]
    assert [row.id for row in rows if row.names or row.says or row.on or row.http] == []
