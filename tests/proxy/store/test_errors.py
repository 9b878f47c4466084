"""Errors of SQLAlchemy's come out of the store as its own."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from proxy.store.errors import (
    BadUrl,
    DatabaseUnavailable,
    RowRejected,
    StoreError,
    UnusableDatabase,
    translated,
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (DataError, RowRejected),
        (IntegrityError, RowRejected),
        (ProgrammingError, RowRejected),
        (OperationalError, DatabaseUnavailable),
        (DBAPIError, DatabaseUnavailable),
    ],
)
def test_an_engines_error_becomes_the_stores(
    kind: type[DBAPIError], expected: type[StoreError]
) -> None:
    driver = sqlite3.Error("disk I/O error\nand details")
    with pytest.raises(expected) as raised, translated():
        raise kind("SELECT 1", None, driver)
    assert str(raised.value) == "disk I/O error"
    assert raised.value.kind == kind.__name__


def test_other_exceptions_pass_unchanged() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("r1")


def test_one_class_catches_all_of_them() -> None:
    for kind in (DatabaseUnavailable, RowRejected, UnusableDatabase, BadUrl):
        assert issubclass(kind, StoreError)
    assert BadUrl("only SQLite").kind == "BadUrl"
