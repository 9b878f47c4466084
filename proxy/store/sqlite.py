"""SQLite: its connections, and group commits by prepared statements."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from proxy.store.commit import (
    ADD_UP,
    EVENT_COLUMNS,
    GAP_COLUMNS,
    ROLLOUT_COLUMNS,
    Commit,
    replaced,
)
from proxy.store.connections import Connections
from proxy.store.errors import DatabaseUnavailable, RowRejected, as_store_error, reason
from proxy.store.tables import EXCHANGE_COLUMNS, OPEN_COLUMNS

# Without an adapter the driver tries a protocol and drops an error for each None and each bool,
# which it then binds as it is: a fifth of a commit.
_SAME: dict[None, None] = {}
sqlite3.register_adapter(type(None), _SAME.get)
sqlite3.register_adapter(bool, int)

_BUSY_MS = 5000  # how long a writer waits for another process on the same file
_RECORDING_BUSY_MS = 500  # the same for the recorder, behind which agents wait
_ROW_FAULTS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError)


def connections(url: URL) -> Connections:
    """All connections to one file; nothing is opened yet."""
    writer = _engine(url, "BEGIN IMMEDIATE", busy_ms=_BUSY_MS)
    return Connections(
        reader=_engine(url, "BEGIN", busy_ms=_BUSY_MS),
        writer=writer,
        patient=writer,
        commits=SqliteCommitWriter(_engine(url, "BEGIN IMMEDIATE", busy_ms=_RECORDING_BUSY_MS)),
    )


def _engine(url: URL, begin: str, *, busy_ms: int) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        connect_args={"check_same_thread": False, "timeout": busy_ms / 1000},
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _on_connect(connection: Any, _record: object) -> None:
    # Transactions are begun by the `begin` listener, not by the driver's own guess.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing with NORMAL; only a power cut could lose the last commits.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


class SqliteCommitWriter:
    """Writes group commits on a connection of its own.

    It uses the driver's connection: through the engine's, a small commit takes twice as long.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lent: PoolProxiedConnection | None = None
        self._lock = threading.Lock()

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns.

        Raises:
            RowRejected: SQLite never takes a row of it.
            DatabaseUnavailable: SQLite does not take it now.
        """
        with self._lock:
            try:
                self._commit(self._connection(), rows)
            except _ROW_FAULTS as error:
                raise RowRejected(reason(error)) from error
            except sqlite3.Error as error:
                raise DatabaseUnavailable(reason(error)) from error
            except DBAPIError as error:  # the pool could not connect
                raise as_store_error(error) from error

    def close(self) -> None:
        """Close the connection; the next commit opens another."""
        with self._lock:
            lent, self._lent = self._lent, None
            if lent is not None:
                lent.invalidate()
        self._engine.dispose()

    def _connection(self) -> sqlite3.Connection:
        if self._lent is None:
            self._lent = self._engine.raw_connection()
        return cast(sqlite3.Connection, self._lent.driver_connection)

    @staticmethod
    def _commit(connection: sqlite3.Connection, rows: Commit) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for name, statement in _STATEMENTS.items():
                if several := getattr(rows, name):
                    connection.executemany(statement, several)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # the database may have done so itself
                connection.execute("ROLLBACK")
            raise


def _insert(table: str, columns: Sequence[str], conflict: str = "") -> str:
    marks = ", ".join("?" * len(columns))
    on_conflict = f" ON CONFLICT {conflict}" if conflict else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}){on_conflict}"


_EXCHANGE_KEY = ("rollout_id", "id")
_STATEMENTS = {
    "rollouts": _insert("rollouts", ROLLOUT_COLUMNS, "(id) DO NOTHING"),
    "gaps": _insert("rollouts", GAP_COLUMNS, ADD_UP),
    "opened": _insert("open_calls", OPEN_COLUMNS, "(id) DO NOTHING"),
    "recorded": _insert(
        "exchanges", EXCHANGE_COLUMNS, f"({', '.join(_EXCHANGE_KEY)}) {replaced(_EXCHANGE_KEY)}"
    ),
    "events": _insert("events", EVENT_COLUMNS),
    "closed": "DELETE FROM open_calls WHERE id = ?",
}
