"""SQL that SQLAlchemy spells differently for each database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Table


def add(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless its key exists; returns whether it was inserted."""
    statement = insert_into(connection.dialect.name, table).values(**row)
    statement = statement.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    added: bool = connection.execute(statement).rowcount == 1
    return added


def insert_into(dialect: str, table: Table) -> Any:
    """Return the dialect's own INSERT, which supports ON CONFLICT."""
    return _insert(dialect)(table)


@cache
def _insert(dialect: str) -> Callable[[Table], Any]:
    # The engine has loaded its own dialect; importing another would take 15 ms of a start.
    made: Callable[[Table], Any] = import_module(f"sqlalchemy.dialects.{dialect}").insert
    return made
