"""Connections are lent by use, commit on exit and are opened anew after they were let go."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from itertools import product

import pytest
from sqlalchemy import Connection, Select, create_engine, event, insert, select, text

from proxy.store import postgres, sqlite
from proxy.store.connections import (
    COMPILED,
    Commit,
    Lock,
    hold_all,
)
from proxy.store.database import Database
from proxy.store.errors import RowRejected, StoreError
from proxy.store.tables import server


def test_a_transaction_is_committed_on_exit_and_rolled_back_on_an_exception(
    database: Database,
) -> None:
    lent = database.connections
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
    lent = database.connections
    row = {"name": "twice", "value": "1"}
    with lent.writing() as connection:
        connection.execute(insert(server).values(row))
    with pytest.raises(RowRejected), lent.writing() as connection:
        connection.execute(insert(server).values(row))
    with pytest.raises(StoreError), lent.reading() as connection:
        connection.execute(text("SELECT no_such_column FROM server"))


def test_what_was_let_go_is_opened_again(database: Database) -> None:
    lent = database.connections
    lent.let_go()
    with lent.reading() as connection, lent.maintaining() as other:
        assert connection.scalar(text("SELECT 1")) == other.scalar(text("SELECT 1")) == 1


def test_what_is_lent_while_all_is_let_go_is_closed_when_it_is_returned(
    database: Database,
) -> None:
    lent = database.connections
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
    with database.connections.reading() as connection:
        assert not _known(connection, asked)
    for other in others:
        with other.connections.reading() as connection:
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


def test_both_databases_have_a_statement_for_each_part_of_a_commit() -> None:
    assert tuple(sqlite.STATEMENTS) == tuple(postgres.STATEMENTS) == Commit._fields


# --- Lock keys are the same in every process and version ------------------------------------------

# Replicas of several versions hold the same locks: a key that changes would let two of them in.
KEYS = {
    Lock.SCHEMA: -6067774199800740070,
    Lock.PARTITIONS: -2251519350268136354,
    Lock.BATCH: 8577588364522981991,
    Lock.ALERTS: -62864305777512432,
    Lock.VERDICT: 4073423493475226487, Lock.EVENTS: 2492599815100044552,
    Lock.PACE: -5179185567406304236,
        Lock.PROBES: 475179466977240163,
}  # fmt: skip


def test_keys_do_not_change_between_versions() -> None:
    assert {lock: lock.key() for lock in Lock} == KEYS


def test_keys_differ_by_lock_and_by_what_is_locked() -> None:
    keys = {lock.key(of) for lock, of in product(Lock, ("", "a", "b"))}
    assert len(keys) == 3 * len(Lock)
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_several_locks_are_taken_in_one_statement_in_the_order_given(postgres_url: str) -> None:
    with contextlib.closing(Database(postgres_url)) as database:
        first, then, last = (Lock.BATCH.key(of) for of in "abc")
        taken = text("SELECT pg_try_advisory_xact_lock(:key)")
        with database.connections.writing() as holder:
            hold_all(holder, [then])
            waiting = threading.Thread(target=_holds, args=(database, [first, then, last]))
            waiting.start()
            with database.connections.reading() as other:
                deadline = time.monotonic() + 10.0
                while not other.scalar(_WAITS) and time.monotonic() < deadline:
                    time.sleep(0.01)
                free = [other.scalar(taken, {"key": key}) for key in (first, then, last)]
        waiting.join()
    assert free == [False, False, True]


_WAITS = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


def _holds(database: Database, keys: list[int]) -> None:
    with database.connections.writing() as connection:
        hold_all(connection, keys)
