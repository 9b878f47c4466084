"""What follows from other tables is in no archive and in no copy."""

from __future__ import annotations

from proxy.store.admin.copy import TABLES
from proxy.store.admin.rows import RECORD_TYPES
from proxy.store.tables import DERIVED, metadata


def test_each_table_is_copied_or_follows_from_one_that_is() -> None:
    assert {*TABLES, *DERIVED} == set(metadata.sorted_tables)
    assert not set(DERIVED) & {*TABLES, *(each.table for each in RECORD_TYPES.values())}
