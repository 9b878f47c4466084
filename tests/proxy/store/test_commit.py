"""The rows of a commit fit the columns of its statements."""

from __future__ import annotations

from proxy.store import postgres, sqlite
from proxy.store.connections import EVENT_COLUMNS, GAP_COLUMNS, ROLLOUT_COLUMNS, Commit, replaced
from proxy.store.events import exchange_failed
from proxy.store.tables import EXCHANGE_COLUMNS, metadata
from tests.proxy.store.records import FULL


def test_the_named_columns_exist() -> None:
    for table, names in (
        ("rollouts", ROLLOUT_COLUMNS), ("rollouts", GAP_COLUMNS), ("events", EVENT_COLUMNS),
    ):  # fmt: skip
        assert set(names) <= set(metadata.tables[table].columns.keys())


def test_an_exchange_written_again_keeps_its_key_and_replaces_the_rest() -> None:
    clause = replaced(("rollout_id", "id"))
    assert "rollout_id = " not in clause
    assert clause.count("excluded.") == len(EXCHANGE_COLUMNS) - 2


def test_an_event_has_a_value_for_each_column() -> None:
    assert len(exchange_failed(FULL)) == len(EVENT_COLUMNS)


def test_a_commit_is_empty_by_default() -> None:
    assert not any(Commit())


def test_both_databases_have_a_statement_for_each_part_of_a_commit() -> None:
    assert tuple(sqlite.STATEMENTS) == tuple(postgres.STATEMENTS) == Commit._fields
