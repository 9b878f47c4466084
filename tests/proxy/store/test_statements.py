"""An insert that leaves an existing row alone, on both databases."""

from __future__ import annotations

from sqlalchemy import select

from proxy.store.database import Database
from proxy.store.tables import add, server


def test_a_row_is_added_once_and_never_replaced(database: Database) -> None:
    with database._connections.writing() as connection:
        assert add(connection, server, {"name": "n", "value": "first"})
        assert not add(connection, server, {"name": "n", "value": "second"})
        assert connection.scalar(select(server.c.value).where(server.c.name == "n")) == "first"
