"""Rows by status, by ending and by flaw."""

from __future__ import annotations

from classifier.cause_table.phrases import ENDINGS, FLAWS, STATUSES
from classifier.records import Ending, Flaw


def test_every_failed_status_has_a_row_and_so_has_an_unnamed_error_inside_a_200() -> None:
    covered = {status for row in STATUSES if not row.upstreams for status in row.on or ()}
    assert {*range(400, 1000), None} <= covered


def test_every_flaw_has_a_row() -> None:
    assert set(FLAWS) == set(Flaw)


def test_every_ending_but_a_complete_and_a_lost_one_has_a_row() -> None:
    """A call that is closed at the outcome is read by the row of one that its agent left."""
    rowless = {Ending.COMPLETE, Ending.LOST, Ending.CLOSED_AT_OUTCOME}
    assert set(ENDINGS) == set(Ending) - rowless


def test_the_rows_of_endings_and_flaws_need_no_other_condition() -> None:
    rows = [*ENDINGS.values(), *FLAWS.values()]
    assert [row.id for row in rows if row.names or row.says or row.on or row.http] == []
