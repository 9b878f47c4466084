"""How PostgreSQL is reached and written: connections that give up, group commits.

It decides nothing, and is loaded only where the database is PostgreSQL.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import orjson
import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Dialect

from proxy.store.commit import (
    ADD_UP,
    EVENT_COLUMNS,
    EVENTS_CHANNEL,
    GAP_COLUMNS,
    ROLLOUT_COLUMNS,
    Commit,
    replaced,
)
from proxy.store.connections import Connections
from proxy.store.errors import DatabaseUnavailable, RowRejected, reason
from proxy.store.locks import Lock
from proxy.store.notifications import Notifications
from proxy.store.tables import EXCHANGE_COLUMNS, OPEN_COLUMNS, metadata

_DIALECT: Dialect = URL.create("postgresql+psycopg").get_dialect()()
_CONNECT_S = 2  # to reach the server at all
_ATTEMPTS = 3  # at a commit that met a deadlock, or a connection that had been cut
_INTERVAL_S = 0.1
_PATIENCE_S = 15.0  # how long one answer may take
_RECORDING_PATIENCE_S = 2.0  # the same for the recorder, behind which agents wait


# --- connections -----------------------------------------------------------------------------


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives a silent server up, so that nobody waits for it for ever."""

    patience_s: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = _INTERVAL_S, timeout: float | None = None
    ) -> RV:
        """Wait for an answer; past its patience the connection is closed.

        Raises:
            psycopg.OperationalError: the server did not answer in time.
        """
        try:
            return super().wait(gen, interval, self.patience_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()
            raise


def connections(url: URL) -> Connections:
    """All connections to one database; nothing is opened yet."""
    return Connections(
        # One state of the database for all that an answer is made of.
        reader=_engine(url, patience_s=_PATIENCE_S, isolation="REPEATABLE READ"),
        writer=_engine(url, patience_s=_PATIENCE_S),
        patient=_engine(url, patience_s=None),
        commits=PostgresCommitWriter(url, patience_s=_RECORDING_PATIENCE_S),
        notifications=Notifications(lambda: _alone(url, patience_s=None)),
    )


def _engine(url: URL, *, patience_s: float | None, isolation: str = "READ COMMITTED") -> Engine:
    """A pool of connections that are found alive before they are lent."""
    made = create_engine(url, pool_pre_ping=True, isolation_level=isolation)

    @event.listens_for(made, "do_connect")
    def connect(
        _dialect: Dialect, _record: object, words: Sequence[Any], named: dict[str, Any]
    ) -> BoundedConnection:
        return _connect(words, named, patience_s=patience_s)

    return made


def _connect(
    words: Sequence[Any], named: dict[str, Any], *, patience_s: float | None
) -> BoundedConnection:
    unsaid = {"connect_timeout": _CONNECT_S, "application_name": "truezero"}
    connection = BoundedConnection.connect(*words, **{**unsaid, **named})
    connection.patience_s = patience_s
    return connection


def _alone(url: URL, *, patience_s: float | None) -> BoundedConnection:
    """A connection of its own, each of whose statements is a transaction."""
    words, named = _DIALECT.create_connect_args(url)
    return _connect(words, {**named, "autocommit": True}, patience_s=patience_s)


# --- group commits ---------------------------------------------------------------------------


class PostgresCommitWriter:
    """Group commits by one statement each: one journey to the server, a transaction by itself.

    Rows travel as JSON, which costs this process a tenth of what parameters or COPY do.

    Arguments:
        patience_s: how long a commit may take, in seconds, before the server counts as away.
    """

    def __init__(self, url: URL, *, patience_s: float) -> None:
        self._url, self._patience_s = url, patience_s
        self._connection: BoundedConnection | None = None
        self._lent = threading.Lock()

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns.

        Raises:
            RowRejected: PostgreSQL never takes a row of it.
            DatabaseUnavailable: PostgreSQL does not take it now.
            TypeError: a value that is no JSON.
        """
        names = tuple(name for name in _STATEMENTS if getattr(rows, name))
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
            except psycopg.OperationalError:
                cut = self._connection is not None and self._connection.closed
                self._drop()
                if fresh or not cut or not left:
                    raise
            else:
                return

    def _open(self) -> BoundedConnection:
        if self._connection is None:
            self._connection = _alone(self._url, patience_s=self._patience_s)
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
    # Rows that several replicas write are locked in one order, so that none waits in a circle.
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
_STATEMENTS = {
    "rollouts": _insert("rollouts", ROLLOUT_COLUMNS, "(id) DO NOTHING"),
    "gaps": _insert("rollouts", GAP_COLUMNS, ADD_UP),
    "opened": _insert("open_calls", OPEN_COLUMNS, "(id) DO NOTHING"),
    "recorded": _insert(
        "exchanges", EXCHANGE_COLUMNS, f"({', '.join(_EXCHANGE_KEY)}) {replaced(_EXCHANGE_KEY)}"
    ),
    # Joined to the lock, so that no event has its number before the lock is held.
    "events": f"{_insert('events', EVENT_COLUMNS)} CROSS JOIN"
    f" (SELECT pg_advisory_xact_lock({Lock.EVENTS.key()}) OFFSET 0) AS held",
    "closed": "DELETE FROM open_calls WHERE id IN"
    " (SELECT row->>0 FROM jsonb_array_elements(%s::jsonb) AS row)",
}


@cache
def _statement(names: tuple[str, ...]) -> str:
    """One statement for all the parts of a commit."""
    parts = ", ".join(f"{name}_ AS ({_STATEMENTS[name]})" for name in names)
    notify = f"pg_notify('{EVENTS_CHANNEL}', '')" if "events" in names else "1"
    return f"WITH {parts} SELECT {notify}"
