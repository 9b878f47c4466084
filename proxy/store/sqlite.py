"""SQLite: turns to write, connections, group commits by prepared statements, and checkpoints."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from proxy.store.connections import (
    ADD_UP,
    COMPILED,
    EVENT_COLUMNS,
    GAP_COLUMNS,
    ROLLOUT_COLUMNS,
    ClosingPool,
    Commit,
    Connections,
    replaced,
)
from proxy.store.errors import (
    DatabaseUnavailable,
    RowRejected,
    as_store_error,
    reason,
    translated,
)
from proxy.store.tables import EXCHANGE_COLUMNS, LANE_COLUMNS, LANE_KEY, OPEN_COLUMNS

# --- turns to write, among the threads of one process ------------------------------------------
# SQLite lets one connection write at a time and has the others look again after 1, 2, 5 and up to
# 100 ms (`sqliteDefaultBusyCallback`, main.c). That is long for the recorder, behind which agents
# wait, if another thread writes for 3 ms. Other processes on the file are left to SQLite.


_LOCKED = "the database is locked by this process"


class PriorityWriteLock:
    """A lock with one who goes first: that one waits for one other at most, the one that writes.

    Of the others one at a time stands in line, so that the first finds nobody before it there.
    ``release`` ends the turn that ``take_first`` waited for.
    """

    __slots__ = ("_line", "_others", "_writing", "release")

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self.release = self._writing.release  # with each commit: no call of ours
        self._line = threading.Lock()  # held by who waits for `_writing`
        self._others = threading.Lock()

    def take_first(self, timeout_s: float) -> None:
        """Wait for the turn before all others that wait; call ``release`` after it.

        Arguments:
            timeout_s: each of two waits lasts no longer.

        Raises:
            DatabaseUnavailable: it did not come in time.
        """
        if self._line.acquire(timeout=timeout_s):
            taken = self._writing.acquire(timeout=timeout_s)
            self._line.release()
            if taken:
                return
        raise DatabaseUnavailable(_LOCKED)

    def pass_on(self) -> None:
        """Let the first go before, where it waits, and have the turn again after it."""
        self._writing.release()
        with self._line:
            self._writing.acquire()

    @contextlib.contextmanager
    def taken(self, timeout_s: float) -> Iterator[None]:
        """Wait for the turn after the first, and have it.

        Raises:
            DatabaseUnavailable: as `take_first`.
        """
        if not self._others.acquire(timeout=timeout_s):
            raise DatabaseUnavailable(_LOCKED)
        try:
            self.take_first(timeout_s)
            try:
                yield
            finally:
                self.release()
        finally:
            self._others.release()


# --- connections, commits and checkpoints ------------------------------------------------------


# Without an adapter the driver tries a protocol and drops an error for each None and each bool,
# which it then binds as it is: a fifth of a commit.
_SAME: dict[None, None] = {}
sqlite3.register_adapter(type(None), _SAME.get)
sqlite3.register_adapter(bool, int)

_BUSY_S = 5.0  # how long a writer waits for another process, or its turn among these threads
_RECORDING_BUSY_S = 0.5  # how long the recorder, behind which agents wait, does for a process
_WAL_PAGES = 10_000  # after which a commit moves them into the file, where nobody else did: 40 MB
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
_ROW_FAULTS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError)


def connections(url: URL) -> Connections:
    """All connections to one file; nothing is opened yet."""
    place = PlacedFile(Path(url.database) if url.database else None)
    turns = PriorityWriteLock()
    immediate = partial(_begin, "BEGIN IMMEDIATE")
    recording = _engine(url, immediate, place, busy_s=_RECORDING_BUSY_S)
    in_turn = partial(_begin_in_turn, turns)
    return Connections(
        reader=_engine(url, partial(_begin, "BEGIN"), place, busy_s=_BUSY_S),
        writer=_engine(url, in_turn, place, busy_s=_RECORDING_BUSY_S),
        patient=_engine(url, immediate, place, busy_s=_BUSY_S),
        commits=SqliteCommitWriter(recording, place, turns),
        checkpoints=Checkpoints(
            _engine(url, partial(_begin, "BEGIN"), place, busy_s=0), place, turns
        ),
        turn=partial(turns.taken, _BUSY_S),
        place=place,
    )


class PlacedFile:
    """A database file that is open, and whether it is still where it was opened.

    SQLite does not notice: it writes on into a file that nobody will open again, and where there
    is none it makes an empty one.

    Arguments:
        path: None for a database in memory.
    """

    __slots__ = ("_known", "_path", "inode")

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None or str(path) == ":memory:" else str(path)
        self._known: tuple[int, int] | None = None  # its device and number, once it is open
        self.inode: int | None = None  # the latter alone

    @property
    def gone(self) -> bool:
        """True if nothing is left where the database was."""
        return self._known is not None and self._found() is None

    def check(self) -> None:
        """Raise DatabaseUnavailable where it is gone, or another file has its place."""
        if self._known is not None and self._found() != self._known:
            raise DatabaseUnavailable("the database file was moved or deleted")

    def make(self) -> None:
        """Make the file before SQLite does, for its owner alone."""
        if self._path is not None and self._known is None:
            make_private(self._path)

    def opened(self) -> None:
        """Remember the file that was opened."""
        if self._known is None:
            self._known = self._found()
            self.inode = self._known[1] if self._known else None

    def forget(self) -> None:
        """Take whatever is in its place by the next opening, and make a file where nothing is."""
        self._known = self.inode = None

    def _found(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = os.stat(self._path)  # noqa: PTH116  as below
        except OSError:
            return None
        return status.st_dev, status.st_ino


def make_private(file: str) -> None:
    """Make a database's file that only its owner can read or write; nothing if there is one.

    The database holds the signing secret. SQLite gives its `-wal` and `-shm` the mode of the file:
    https://www.sqlite.org/src/file/src/os_unix.c, `findCreateFileMode`.
    """
    if file == ":memory:" or file.startswith("file:"):  # https://www.sqlite.org/uri.html
        return
    with contextlib.suppress(OSError):  # SQLite says what is wrong with the place
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def has_tables(file: Path) -> bool:
    """Return True if a file is a truezero database; it is not changed.

    Raises:
        DatabaseUnavailable: it cannot be read, or is no SQLite file.
    """
    place = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(place, uri=True)) as connection:
            query = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
            return connection.execute(query).fetchone() is not None
    except sqlite3.Error as error:
        raise DatabaseUnavailable(reason(error)) from error


def _engine(
    url: URL, begin: Callable[[PoolProxiedConnection], None], place: PlacedFile, *, busy_s: float
) -> Engine:
    engine = create_engine(
        url,
        poolclass=ClosingPool,
        connect_args={"check_same_thread": False, "timeout": busy_s},
        execution_options={"compiled_cache": COMPILED},
    )

    # Not closures: SQLAlchemy refers to one weakly, which compiled ones refuse from 3.12 on.
    event.listen(engine, "connect", partial(_on_connect, place))
    # No listeners to `do_connect` and `begin`: with one, each statement looks for six others.
    dialect = engine.dialect
    dialect.connect = partial(_connect, place, dialect.connect)  # type: ignore[method-assign]
    dialect.do_begin = begin  # type: ignore[assignment, method-assign]
    return engine


def _connect(
    place: PlacedFile, connect: Callable[..., DBAPIConnection], *args: Any, **named: Any
) -> DBAPIConnection:
    if place.gone:
        raise sqlite3.OperationalError("the database file was moved or deleted")
    place.make()
    return connect(*args, **named)


def _begin(statement: str, connection: PoolProxiedConnection) -> None:
    cast(sqlite3.Connection, connection.driver_connection).execute(statement)


def _begin_in_turn(turns: PriorityWriteLock, connection: PoolProxiedConnection) -> None:
    """Begin to write; while another process does, the recorder may find that out for itself."""
    driven = cast(sqlite3.Connection, connection.driver_connection)
    deadline = time.monotonic() + _BUSY_S
    while time.monotonic() < deadline:
        try:
            driven.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                break
            turns.pass_on()
        else:
            return
    _begin("BEGIN IMMEDIATE", connection)  # its error is told as all others are


def _on_connect(place: PlacedFile, connection: Any, _record: object) -> None:
    # Transactions are begun by the dialect's `do_begin`, not by the driver's own guess.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing with NORMAL; only a power cut could lose the last commits.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    cursor.close()
    place.opened()


class SqliteCommitWriter:
    """Writes group commits on a connection of its own, before all others of its process.

    It uses the driver's connection: through the engine's, a small commit takes twice as long.
    """

    def __init__(self, engine: Engine, place: PlacedFile, turns: PriorityWriteLock) -> None:
        self._engine = engine
        self._place = place
        self._turns = turns
        self._path = engine.url.database or os.curdir
        self._lent: PoolProxiedConnection | None = None
        self._connection: sqlite3.Connection | None = None  # the driver's, of the one lent
        self._lock = threading.Lock()

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns.

        Raises:
            RowRejected: SQLite never takes a row of it.
            DatabaseUnavailable: SQLite does not take it now.
        """
        with self._lock:
            self._turns.take_first(_BUSY_S)
            try:
                try:  # in line, since it is before every commit
                    moved = os.stat(self._path).st_ino != self._place.inode  # noqa: PTH116
                except OSError:
                    moved = True
                if moved:
                    self._place.check()
                self._commit(self._connection or self._connect(), rows)
            except _ROW_FAULTS as error:
                raise RowRejected(reason(error)) from error
            except sqlite3.Error as error:
                raise DatabaseUnavailable(reason(error)) from error
            except DBAPIError as error:  # the pool could not connect
                raise as_store_error(error) from error
            finally:
                self._turns.release()

    def close(self) -> None:
        """Close the connection, whoever writes on another; the next commit opens a new one."""
        with self._lock:
            lent, self._lent, self._connection = self._lent, None, None
            if lent is not None:
                lent.invalidate()
        self._engine.dispose()

    def _connect(self) -> sqlite3.Connection:
        self._lent = self._engine.raw_connection()
        self._connection = cast(sqlite3.Connection, self._lent.driver_connection)
        return self._connection

    @staticmethod
    def _commit(connection: sqlite3.Connection, rows: Commit) -> None:
        rollouts, gaps, opened, recorded, events, closed, lanes = rows
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not (closed or events or rollouts or opened or gaps):
                connection.executemany(_RECORD, recorded)
                connection.executemany(_COUNT, lanes)
            else:
                for statement, several in zip(_IN_ORDER, rows, strict=True):
                    if several:
                        connection.executemany(statement, several)
            connection.commit()
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # the database may have done so itself
                connection.execute("ROLLBACK")
            raise


class Checkpoints:
    """Moves what commits have written to the WAL into the file, beside them.

    A commit would do so itself every 1,000 pages, which takes it 5 to 15 ms.
    """

    def __init__(self, engine: Engine, place: PlacedFile, turns: PriorityWriteLock) -> None:
        self._engine = engine
        self._place = place
        self._turns = turns

    def run(self) -> None:
        """Move all of it, so that the next commit begins the WAL anew if no reader needs it.

        Most is moved while others write. What they added meanwhile is moved in a turn of its own,
        or the WAL would never be all in the file, and grow (https://www.sqlite.org/wal.html, 6).

        Raises:
            DatabaseUnavailable: the file cannot be written now.
        """
        self._place.check()
        with translated(), contextlib.closing(self._engine.raw_connection()) as lent:
            connection = cast(sqlite3.Connection, lent.driver_connection)
            try:
                _, pages, _ = connection.execute(_CHECKPOINT).fetchone()
                if pages:
                    with self._turns.taken(_BUSY_S):
                        connection.execute(_CHECKPOINT)
            except sqlite3.Error as error:
                raise DatabaseUnavailable(reason(error)) from error

    def close(self) -> None:
        """Close the connection; the next run opens another."""
        self._engine.dispose()


def _insert(table: str, columns: Sequence[str], conflict: str = "") -> str:
    marks = ", ".join("?" * len(columns))
    on_conflict = f" ON CONFLICT {conflict}" if conflict else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}){on_conflict}"


_EXCHANGE_KEY = ("rollout_id", "id")
STATEMENTS = {
    "rollouts": _insert("rollouts", ROLLOUT_COLUMNS, "(id) DO NOTHING"),
    "gaps": _insert("rollouts", GAP_COLUMNS, ADD_UP),
    "opened": _insert("open_calls", OPEN_COLUMNS, "(id) DO NOTHING"),
    "recorded": _insert("exchanges", EXCHANGE_COLUMNS, replaced(EXCHANGE_COLUMNS, _EXCHANGE_KEY)),
    "events": _insert("events", EVENT_COLUMNS),
    "closed": "DELETE FROM open_calls WHERE id = ?",
    "lanes": _insert("lane_minutes", LANE_COLUMNS, replaced(LANE_COLUMNS, LANE_KEY)),
}
_RECORD, _COUNT = STATEMENTS["recorded"], STATEMENTS["lanes"]
_IN_ORDER = tuple(STATEMENTS[part] for part in Commit._fields)
