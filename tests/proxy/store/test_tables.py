"""The tables that the migrations make are those that the code declares."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Engine, create_engine, inspect, select

from proxy.features.exports.rows import RECORD_TYPES
from proxy.store.database import Database
from proxy.store.tables import DERIVED, add, as_json, metadata, server


def test_the_migrations_make_the_tables_the_code_declares(database: Database) -> None:
    engine = create_engine(database.url)
    migrated = inspect(engine)
    assert set(migrated.get_table_names()) >= set(metadata.tables)
    for name, table in metadata.tables.items():
        made = [(c["name"], str(c["type"]), c["nullable"]) for c in migrated.get_columns(name)]
        declared = [(c.name, _compiled(c, engine), c.nullable) for c in table.columns]
        assert made == declared, name
        indexes = {(i["name"], tuple(i["column_names"])) for i in migrated.get_indexes(name)}
        wanted = {(i.name, tuple(i.columns.keys())) for i in table.indexes}
        if not database.is_sqlite:
            wanted = {each for each in wanted if each[0] != "verdicts_counted"}
        assert indexes == wanted, name


def _compiled(column: Column[Any], engine: Engine) -> str:
    named = column.type.compile(engine.dialect)
    return {"FLOAT": "DOUBLE PRECISION"}.get(named, named) if engine.name != "sqlite" else named


# --- What follows from other tables is in no archive and in no copy -------------------------------


def test_no_table_of_an_archive_follows_from_others() -> None:
    assert not {*DERIVED} & {each.table for each in RECORD_TYPES.values()}


# --- An insert that leaves an existing row alone, on both databases -------------------------------


def test_a_row_is_added_once_and_never_replaced(database: Database) -> None:
    with database.connections.writing() as connection:
        assert add(connection, server, {"name": "n", "value": "first"})
        assert not add(connection, server, {"name": "n", "value": "second"})
        assert connection.scalar(select(server.c.value).where(server.c.name == "n")) == "first"


# --- What goes into the store: attributes as columns, JSON in one spelling ------------------------


def test_one_value_has_one_spelling() -> None:
    assert as_json({"b": 1, "a": [None, "é"]}) == as_json({"a": [None, "é"], "b": 1})
    assert as_json({"b": 1, "a": None}) == '{"a":null,"b":1}'
