"""Connections are lent by use, commit on exit and are opened anew after they were let go."""

from __future__ import annotations

import secrets

import pytest
from sqlalchemy import Connection, Select, create_engine, event, insert, select, text

from proxy.store.connections import COMPILED
from proxy.store.database import Database
from proxy.store.errors import RowRejected, StoreError
from proxy.store.tables import server


def test_a_transaction_is_committed_on_exit_and_rolled_back_on_an_exception(
    database: Database,
) -> None:
    lent = database._connections
    with lent.writing() as connection:
        connection.execute(insert(server).values(name="kept", value="1"))
    with pytest.raises(ZeroDivisionError), lent.writing() as connection:
        connection.execute(insert(server).values(name="lost", value="1"))
        1 / 0  # noqa: B018
    with lent.reading() as connection:
        names = set(connection.execute(text("SELECT name FROM server")).scalars())
    assert "kept" in names
    assert "lost" not in names


def test_errors_are_the_stores(database: Database) -> None:
    lent = database._connections
    row = {"name": "twice", "value": "1"}
    with lent.writing() as connection:
        connection.execute(insert(server).values(row))
    with pytest.raises(RowRejected), lent.writing() as connection:
        connection.execute(insert(server).values(row))
    with pytest.raises(StoreError), lent.reading() as connection:
        connection.execute(text("SELECT no_such_column FROM server"))


def test_what_was_let_go_is_opened_again(database: Database) -> None:
    lent = database._connections
    lent.let_go()
    with lent.reading() as connection, lent.maintaining() as other:
        assert connection.scalar(text("SELECT 1")) == other.scalar(text("SELECT 1")) == 1


def test_what_is_lent_while_all_is_let_go_is_closed_when_it_is_returned(
    database: Database,
) -> None:
    lent = database._connections
    closed: list[object] = []
    for engine in (lent.reader, lent.writer, lent.patient):
        event.listen(engine, "close", lambda connection, _record: closed.append(connection))
    with lent.reading() as connection, lent.maintaining() as other:
        ours = [each.connection.driver_connection for each in (connection, other)]
        lent.let_go()
        assert not any(each is one for each in closed for one in ours)
    assert all(any(each is one for each in closed) for one in ours)


def _new_statement() -> Select[tuple[str]]:
    return select(server.c.name.label(f"name_{secrets.token_hex(8)}"))


def _known(connection: Connection, asked: Select[tuple[str]]) -> bool:
    """Whether a statement's SQL was there already."""
    context = connection.execute(asked).context
    return bool(context.cache_hit is context.dialect.CACHE_HIT)


def test_a_statement_is_compiled_once_for_all_engines_alike(database: Database) -> None:
    asked = _new_statement()
    others = Database(database.url), Database(database.url)
    with database._connections.reading() as connection:
        assert not _known(connection, asked)
    for other in others:
        with other._connections.reading() as connection:
            assert _known(connection, asked)
        other.close()


def test_dialects_that_are_set_up_or_were_told_otherwise_compile_for_themselves() -> None:
    asked = _new_statement()
    usual, short, old = (
        create_engine("sqlite://", execution_options={"compiled_cache": COMPILED}, **setting)
        for setting in ({}, {"label_length": 6}, {})
    )
    for engine in (usual, short, old):
        with engine.connect() as connection:
            if engine is old:
                engine.dialect.server_version_info = (3, 1)
            connection.execute(text("CREATE TABLE server (name TEXT)"))
            assert not _known(connection, asked)
            assert _known(connection, asked)
