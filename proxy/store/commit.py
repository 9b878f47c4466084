"""What one group commit takes, as rows, and how SQLite is given it.

It builds no rows, keeps nothing between commits, and leaves PostgreSQL to `postgres.py`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from proxy.store.tables import EXCHANGE_COLUMNS, OPEN_COLUMNS

Rows = Sequence[tuple[Any, ...]]

# Without an adapter the driver tries a protocol and drops an error for each None and each bool,
# which it then binds as it is: a fifth of a commit.
_SAME: dict[None, None] = {}
sqlite3.register_adapter(type(None), _SAME.get)
sqlite3.register_adapter(bool, int)

EVENTS_CHANNEL = "truezero_events"  # on which PostgreSQL tells that there are some
ROLLOUT_COLUMNS = ("id", "created_at")
GAP_COLUMNS = ("id", "created_at", "gaps")
EVENT_COLUMNS = ("kind", "rollout_id", "at", "data")
ADD_UP = "(id) DO UPDATE SET gaps = rollouts.gaps + excluded.gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Rows by the statement that takes them; no key stands twice in one of them.

    ``rollouts`` are those that may be new, ``gaps`` add up on theirs, ``closed`` are ids of
    calls in flight that have ended.
    """

    rollouts: Rows = ()
    gaps: Rows = ()
    opened: Rows = ()
    recorded: Rows = ()
    told: Rows = ()
    closed: Rows = ()


class NotificationSource(Protocol):
    """Tells that events were told, by whichever process."""

    def heard_by(self, ring: Callable[[], object]) -> AbstractContextManager[None]:
        """Have ``ring`` called, in a thread of the bell's, whenever there may be new ones."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


class CommitWriter(Protocol):
    """Where group commits go."""

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns."""
        ...

    def close(self) -> None:
        """Let the connection go; the next commit opens another."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The ways to one database: what reads, what writes, what may take its time, group commits.

    ``bell`` is None where nothing tells of events and they are looked for.
    """

    reading: Engine
    writing: Engine
    preparing: Engine
    ledger: CommitWriter
    bell: NotificationSource | None = None

    def let_go(self) -> None:
        """Let every connection go but the bell's; each opens anew when it is asked for."""
        for engine in (self.reading, self.writing, self.preparing):
            engine.dispose()
        self.ledger.close()

    def close(self) -> None:
        """Let every connection go."""
        self.let_go()
        if self.bell is not None:
            self.bell.close()


class SqliteCommitWriter:
    """Group commits by prepared statements, on a connection of its own.

    It is the driver's: through the engine's, a small commit takes twice as long.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lent: PoolProxiedConnection | None = None
        self._one_at_a_time = threading.Lock()

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns."""
        with self._one_at_a_time:
            try:
                self._commit(self._connection(), rows)
            except sqlite3.Error as error:
                raise _as_engines_do(error, self._engine) from error

    def close(self) -> None:
        """Let the connection go; the next commit opens another."""
        with self._one_at_a_time:
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


def _as_engines_do(error: sqlite3.Error, engine: Engine) -> Exception:
    """The driver's error as it comes out of an engine."""
    return cast(
        Exception,
        DBAPIError.instance(None, None, error, sqlite3.Error, dialect=engine.dialect),
    )


def replaced(keys: Sequence[str]) -> str:
    """What an exchange that is written again changes: everything but its keys."""
    changed = (name for name in EXCHANGE_COLUMNS if name not in keys)
    return "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)


def _insert(table: str, columns: Sequence[str], conflict: str = "") -> str:
    marks = ", ".join("?" * len(columns))
    told = f" ON CONFLICT {conflict}" if conflict else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}){told}"


_EXCHANGE_KEY = ("rollout_id", "id")
_STATEMENTS = {
    "rollouts": _insert("rollouts", ROLLOUT_COLUMNS, "(id) DO NOTHING"),
    "gaps": _insert("rollouts", GAP_COLUMNS, ADD_UP),
    "opened": _insert("open_calls", OPEN_COLUMNS, "(id) DO NOTHING"),
    "recorded": _insert(
        "exchanges", EXCHANGE_COLUMNS, f"({', '.join(_EXCHANGE_KEY)}) {replaced(_EXCHANGE_KEY)}"
    ),
    "told": _insert("events", EVENT_COLUMNS),
    "closed": "DELETE FROM open_calls WHERE id = ?",
}
