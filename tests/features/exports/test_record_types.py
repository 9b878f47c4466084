"""The kinds of record an archive holds, and their tables."""

from __future__ import annotations

import pytest

from proxy.features.exports.rows import OF_BATCHES, OF_ROLLOUTS, RECORD_TYPES


@pytest.mark.parametrize("name", RECORD_TYPES)
def test_a_record_has_its_tables_columns_and_names_its_owner(name: str) -> None:
    record_type = RECORD_TYPES[name]
    derived = {"counted", "taken"} if name == "verdict" else set()
    columns = record_type.table.columns.keys()
    assert record_type.columns == tuple(each for each in columns if each not in derived)
    assert record_type.columns[record_type.owner_at] == record_type.owner
    assert set(record_type.json) <= set(record_type.columns)


def test_no_secret_and_no_worker_is_a_record() -> None:
    tables = {record_type.table.name for record_type in RECORD_TYPES.values()}
    assert tables.isdisjoint({"server", "workers", "open_calls", "events"})
    assert [*RECORD_TYPES] == [*OF_ROLLOUTS, *OF_BATCHES], "what is of batches comes last"
    assert "breaker" in OF_BATCHES
