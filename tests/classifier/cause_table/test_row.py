"""The words that rows of the cause table are built from."""

from __future__ import annotations

import classifier.cause_table.row
from classifier.cause_table import ROWS
from classifier.cause_table.row import (
    AZURE,
    BAD_REQUEST,
    CLIENT,
    DASHSCOPE,
    NOT_SERVER,
    SERVER,
    ZHIPU,
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


# --- The documentation that the cause table cites -------------------------------------------------


def test_every_row_has_a_source() -> None:
    assert [row.id for row in ROWS if not row.source.strip()] == []


def test_every_source_is_cited_by_a_row() -> None:
    cited = " ".join(row.source for row in ROWS)
    known = {
        name: value for name, value in vars(classifier.cause_table.row).items() if name.isupper()
    }
    texts = {name: value for name, value in known.items() if type(value) is str}
    assert [name for name, value in texts.items() if value not in cited] == []


def test_upstreams_by_family_are_written_as_calls_name_them() -> None:
    families = (DASHSCOPE, ZHIPU, AZURE)
    assert all(name == name.lower() for family in families for name in family)
