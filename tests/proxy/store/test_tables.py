"""The tables that the migrations make are those that the code declares."""

from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy import Column, Engine, RowMapping, create_engine, inspect

from classifier.records import Exchange
from proxy.store.database import Database
from proxy.store.tables import (
    EXCHANGE_COLUMNS,
    OPEN_COLUMNS,
    exchange_of,
    exchange_row,
    lost_row,
    metadata,
    open_row,
)
from tests.proxy.store.records import BARE, FULL


def test_the_migrations_make_the_tables_the_code_declares(database: Database) -> None:
    engine = create_engine(database.url)
    migrated = inspect(engine)
    assert set(migrated.get_table_names()) >= set(metadata.tables)
    for name, table in metadata.tables.items():
        made = [(c["name"], str(c["type"]), c["nullable"]) for c in migrated.get_columns(name)]
        declared = [(c.name, _compiled(c, engine), c.nullable) for c in table.columns]
        assert made == declared, name
        indexes = {(i["name"], tuple(i["column_names"])) for i in migrated.get_indexes(name)}
        assert indexes == {(i.name, tuple(i.columns.keys())) for i in table.indexes}, name


def _compiled(column: Column[Any], engine: Engine) -> str:
    named = column.type.compile(engine.dialect)
    return {"FLOAT": "DOUBLE PRECISION"}.get(named, named) if engine.name != "sqlite" else named


@pytest.mark.parametrize("exchange", [FULL, BARE], ids=["full", "bare"])
def test_a_row_of_columns_is_the_exchange_it_was_made_from(exchange: Exchange) -> None:
    row = exchange_row(exchange)
    assert len(row) == len(EXCHANGE_COLUMNS)
    assert exchange_of(row) == exchange


def test_a_call_in_flight_that_is_lost_keeps_its_facts() -> None:
    row = dict(zip(OPEN_COLUMNS, open_row(BARE, "w"), strict=True))
    lost = lost_row(cast(RowMapping, row))
    assert (lost["id"], lost["ending"], lost["usage_source"]) == ("x2", "lost", "absent")
    assert "worker" not in lost
