"""Rows of any table: ordered by code point, inserted as they were read."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from proxy.features.exports import rows
from proxy.store.errors import UnusableDatabase
from proxy.store.tables import exchanges, rollouts
from tests.proxy.filled import NAMES


def test_keys_are_ordered_by_code_point(full: str) -> None:
    with rows.reading(full) as connection:
        query = select(rollouts.c.id).order_by(*rows.by_key(connection, rollouts))
        assert [row[0] for row in rows.stream(connection, query)] == list(NAMES)


def test_rows_that_are_inserted_are_those_that_were_read(full: str, tmp_path: Path) -> None:
    with rows.reading(full) as here, rows.writing(str(tmp_path / "other.db")) as there:
        stored = list(rows.stream(here, select(exchanges)))
        with there.begin() as connection:
            rows.insert(connection, exchanges, stored)
            rows.insert(connection, exchanges, [])
        with there.begin() as connection:
            assert list(rows.stream(connection, select(exchanges))) == stored


def test_a_database_of_an_earlier_schema_is_named(full: str) -> None:
    with create_engine(f"sqlite:///{full}").begin() as raw:
        raw.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    message = r"has schema 0001.*truezero db upgrade"
    with pytest.raises(UnusableDatabase, match=message), rows.reading(full):
        raise AssertionError("it was read")
