"""PostgreSQL: notifications, connections with a time limit, and group commits.

Loaded only if it is used.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import orjson
import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Dialect

from proxy.store.connections import (
    ADD_UP,
    COMPILED,
    EVENT_COLUMNS,
    EVENTS_CHANNEL,
    GAP_COLUMNS,
    ROLLOUT_COLUMNS,
    ClosingPool,
    Commit,
    Connections,
    Lock,
    replaced,
)
from proxy.store.errors import DatabaseUnavailable, RowRejected, reason, refuse_encoding
from proxy.store.tables import EXCHANGE_COLUMNS, LANE_COLUMNS, LANE_KEY, OPEN_COLUMNS, metadata

# --- LISTEN, in a thread of its own ------------------------------------------------------------
# Calls listeners when any replica wrote events.


log = logging.getLogger("truezero.store")

_LOOK_S = 1.0  # how often the thread checks whether it is to stop
_RETRY_S = 1.0


class Notifications:
    """One listening connection of one process, from its first listener on.

    Arguments:
        connect: opens a connection whose statements are transactions of their own.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[object]]) -> None:
        self._connect = connect
        self._listeners: set[Callable[[], object]] = set()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @contextlib.contextmanager
    def subscribe(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have ``listener`` called in another thread whenever there may be new events."""
        with self._changing:
            self._listeners.add(listener)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._stopping,), name="notifications", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._changing:
                self._listeners.discard(listener)

    def close(self) -> None:
        """Listen no more; the next listener begins anew."""
        with self._changing:
            self._thread = None
            self._stopping.set()
            self._stopping = threading.Event()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection, stopping)
            except psycopg.Error as error:
                log.warning("cannot listen for events, polling instead: %s", type(error).__name__)
                stopping.wait(_RETRY_S)

    def _listen(self, connection: psycopg.Connection[object], stopping: threading.Event) -> None:
        connection.execute(f"LISTEN {EVENTS_CHANNEL}".encode())
        self._notify()  # of what was written before
        while not stopping.is_set():
            if list(connection.notifies(timeout=_LOOK_S, stop_after=1)):
                self._notify()

    def _notify(self) -> None:
        with self._changing:
            listeners = tuple(self._listeners)
        for listener in listeners:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                listener()


# --- connections -------------------------------------------------------------------------------


_DIALECT: Dialect = URL.create("postgresql+psycopg").get_dialect()()
_CONNECT_S = 2  # to reach the server at all
_ATTEMPTS = 3  # at a commit that met a deadlock or a closed connection
_INTERVAL_S = 0.1
_TIMEOUT_S = 15.0  # how long one answer may take
_RECORDING_TIMEOUT_S = 2.0  # the same for the recorder, behind which agents wait
_RECORDING_LOCK_S = 0.5  # how long it waits for another's lock, as in SQLite


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives up on a server that does not answer in time."""

    timeout_s: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = _INTERVAL_S, timeout: float | None = None
    ) -> RV:
        """Wait for an answer; on a timeout the connection is closed.

        Raises:
            psycopg.OperationalError: the server did not answer in time.
        """
        try:
            return super().wait(gen, interval, self.timeout_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()
            raise


def connections(url: URL) -> Connections:
    """All connections to one database; nothing is opened yet."""
    return Connections(
        # One snapshot for all reads of an answer.
        reader=_engine(url, timeout_s=_TIMEOUT_S, isolation="REPEATABLE READ"),
        writer=_engine(url, timeout_s=_TIMEOUT_S),
        patient=_engine(url, timeout_s=None),
        commits=PostgresCommitWriter(
            url, timeout_s=_RECORDING_TIMEOUT_S, lock_timeout_s=_RECORDING_LOCK_S
        ),
        notifications=Notifications(lambda: _connect_alone(url, timeout_s=None)),
    )


def _engine(url: URL, *, timeout_s: float | None, isolation: str = "READ COMMITTED") -> Engine:
    """Return a pool that checks a connection before it lends it."""
    made = create_engine(
        url,
        poolclass=ClosingPool,
        pool_pre_ping=True,
        isolation_level=isolation,
        execution_options={"compiled_cache": COMPILED},
    )

    @event.listens_for(made, "do_connect")
    def connect(
        _dialect: Dialect, _record: object, args: Sequence[Any], named: dict[str, Any]
    ) -> BoundedConnection:
        return _connect(args, named, timeout_s=timeout_s)

    return made


def _connect(
    args: Sequence[Any], named: dict[str, Any], *, timeout_s: float | None
) -> BoundedConnection:
    defaults = {"connect_timeout": _CONNECT_S, "application_name": "truezero"}
    connection = BoundedConnection.connect(*args, **{**defaults, **named})
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.close()  # psycopg returns bytes for its text: no query would work
        refuse_encoding("SQL_ASCII")
    connection.timeout_s = timeout_s
    return connection


def _connect_alone(url: URL, *, timeout_s: float | None) -> BoundedConnection:
    """Open a connection outside of any pool, in autocommit mode."""
    args, named = _DIALECT.create_connect_args(url)
    return _connect(args, {**named, "autocommit": True}, timeout_s=timeout_s)


# --- group commits ---------------------------------------------------------------------------


class PostgresCommitWriter:
    """Writes a group commit as one statement: one round trip, and a transaction by itself.

    Rows travel as JSON, which costs this process a tenth of what parameters or COPY do.

    Arguments:
        timeout_s: how long a commit may take, in seconds, before the server counts as away.
        lock_timeout_s: how long it may wait for any one lock that another holds, in seconds.
    """

    def __init__(self, url: URL, *, timeout_s: float, lock_timeout_s: float) -> None:
        self._url, self._timeout_s, self._lock_timeout_s = url, timeout_s, lock_timeout_s
        self._connection: BoundedConnection | None = None
        self._lent = threading.Lock()

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns.

        Raises:
            RowRejected: PostgreSQL never takes a row of it.
            DatabaseUnavailable: PostgreSQL does not take it now.
            TypeError: a value that is no JSON.
        """
        names = tuple(name for name in STATEMENTS if getattr(rows, name))
        if not names:
            return
        values = [orjson.dumps(_sorted(name, getattr(rows, name))).decode() for name in names]
        with self._lent, _translated():
            self._write(_statement(names), values)

    def close(self) -> None:
        """Let the connection go; the next commit opens another."""
        with self._lent:
            self._drop()

    def _write(self, statement: str, values: Sequence[str]) -> None:
        for left in reversed(range(_ATTEMPTS)):
            fresh = self._connection is None
            try:
                self._open().execute(statement, values, prepare=True)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                if not left:
                    raise
            except errors.LockNotAvailable:
                raise  # the server itself is well
            except psycopg.OperationalError:
                cut = self._connection is not None and self._connection.closed
                self._drop()
                if fresh or not cut or not left:
                    raise
            else:
                return

    def _open(self) -> BoundedConnection:
        if self._connection is None:
            self._connection = _connect_alone(self._url, timeout_s=self._timeout_s)
            lock_timeout = f"{self._lock_timeout_s * 1000:.0f}ms"
            self._connection.execute("SELECT set_config('lock_timeout', %s, false)", [lock_timeout])
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise RowRejected(reason(error)) from error
    except psycopg.Error as error:
        raise DatabaseUnavailable(reason(error)) from error


def _sorted(name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    # Rows that several replicas write are locked in one order, to avoid deadlocks.
    return sorted(rows) if name in ("rollouts", "gaps") else rows


def _insert(table: str, columns: Sequence[str], conflict: str = "") -> str:
    types = [_type(table, column) for column in columns]
    values = ", ".join(f"(row->>{place})::{named}" for place, named in enumerate(types))
    on_conflict = f" ON CONFLICT {conflict}" if conflict else ""
    rows = "jsonb_array_elements(%s::jsonb) AS row"
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {rows}{on_conflict}"


def _type(table: str, column: str) -> str:
    return metadata.tables[table].columns[column].type.compile(_DIALECT)


_EXCHANGE_KEY = ("rollout_id", "id", "started_at")
STATEMENTS = {
    "rollouts": _insert("rollouts", ROLLOUT_COLUMNS, "(id) DO NOTHING"),
    "gaps": _insert("rollouts", GAP_COLUMNS, ADD_UP),
    "opened": _insert("open_calls", OPEN_COLUMNS, "(id) DO NOTHING"),
    "recorded": _insert("exchanges", EXCHANGE_COLUMNS, replaced(EXCHANGE_COLUMNS, _EXCHANGE_KEY)),
    # Joined to the lock, so that no event is numbered before the lock is held.
    "events": f"{_insert('events', EVENT_COLUMNS)} CROSS JOIN"
    f" (SELECT pg_advisory_xact_lock({Lock.EVENTS.key()}) OFFSET 0) AS held",
    "closed": "DELETE FROM open_calls WHERE id IN"
    " (SELECT row->>0 FROM jsonb_array_elements(%s::jsonb) AS row)",
    "lanes": _insert("lane_minutes", LANE_COLUMNS, replaced(LANE_COLUMNS, LANE_KEY)),
}


@cache
def _statement(names: tuple[str, ...]) -> str:
    """Return one statement for all the parts of a commit."""
    parts = ", ".join(f"{name}_ AS ({STATEMENTS[name]})" for name in names)
    notify = f"pg_notify('{EVENTS_CHANNEL}', '')" if "events" in names else "1"
    return f"WITH {parts} SELECT {notify}"
