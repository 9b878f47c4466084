"""The documentation that the cause table cites."""

from __future__ import annotations

import classifier.cause_table.row
from classifier.cause_table import ROWS
from classifier.cause_table.row import AZURE, DASHSCOPE, ZHIPU


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
