"""The kinds of record an archive holds, and their tables."""

from __future__ import annotations

import pytest

from proxy.store.admin.rows import NOUNS


@pytest.mark.parametrize("name", NOUNS)
def test_a_record_has_its_tables_columns_and_names_its_owner(name: str) -> None:
    noun = NOUNS[name]
    assert noun.columns == tuple(noun.table.columns.keys())
    assert noun.columns[noun.owner_at] == noun.owner
    assert set(noun.json) <= set(noun.columns)


def test_no_secret_and_no_worker_is_a_record() -> None:
    tables = {noun.table.name for noun in NOUNS.values()}
    assert tables.isdisjoint({"server", "workers", "open_calls", "events"})
    assert list(NOUNS)[-1] == "breaker", "breakers come after all rollouts"
