"""Database connections by use, with errors as the store's own; group commits and advisory locks."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import ARRAY, BigInteger, Connection, Engine, bindparam, func, select
from sqlalchemy.engine import Compiled, Dialect
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util import LRUCache

from proxy.store.errors import translated

# --- group commits as rows ---------------------------------------------------------------------


Rows = Sequence[Sequence[Any]]

EVENTS_CHANNEL = "truezero_events"  # PostgreSQL notifies on it when events were written
ROLLOUT_COLUMNS = ("id", "created_at")
GAP_COLUMNS = ("id", "created_at", "gaps")
EVENT_COLUMNS = ("kind", "rollout_id", "at", "data")
ADD_UP = "(id) DO UPDATE SET gaps = rollouts.gaps + excluded.gaps"


class Commit(NamedTuple):
    """Rows by the statement that takes them, in their order; no key stands twice in one of them.

    ``rollouts`` are those that may be new, ``gaps`` add up on theirs, ``closed`` are ids of
    calls in flight that have ended, ``lanes`` sums that replace those of their slot.
    """

    rollouts: Rows = ()
    gaps: Rows = ()
    opened: Rows = ()
    recorded: Rows = ()
    events: Rows = ()
    closed: Rows = ()
    lanes: Rows = ()


class CommitWriter(Protocol):
    """Writes group commits to one kind of database."""

    def commit(self, rows: Commit) -> None:
        """Write all of it or nothing; durable when this returns.

        Raises:
            RowRejected: the database never takes a row of it.
            DatabaseUnavailable: the database does not take it now.
        """
        ...

    def close(self) -> None:
        """Close the connection; the next commit opens another."""
        ...


def replaced(columns: Sequence[str], keys: Sequence[str]) -> str:
    """Return the clause that replaces a row written again: all columns but its keys."""
    changed = (name for name in columns if name not in keys)
    return f"({', '.join(keys)}) DO UPDATE SET " + ", ".join(
        f"{name} = excluded.{name}" for name in changed
    )


# --- connections -------------------------------------------------------------------------------


class NotificationSource(Protocol):
    """Calls listeners when any process has written events."""

    def subscribe(self, listener: Callable[[], object]) -> AbstractContextManager[None]:
        """Have ``listener`` called, in another thread, whenever there may be new events."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


class CheckpointRun(Protocol):
    """Does beside commits what they would otherwise do themselves now and then."""

    def run(self) -> None:
        """Do it once; raises StoreError."""
        ...

    def close(self) -> None:
        """Close its connection; the next run opens another."""
        ...


class Place(Protocol):
    """The location of a database, and a check that it is still there."""

    @property
    def gone(self) -> bool:
        """True if nothing is left where the database was."""
        ...

    def check(self) -> None:
        """Raise DatabaseUnavailable where the database that was opened is not in its place."""
        ...

    def forget(self) -> None:
        """Take whatever is in its place by the next opening."""
        ...


class ClosingPool(QueuePool):
    """A pool that also closes what is returned to it after it was disposed of.

    QueuePool keeps such a connection open until the garbage collector finds the pool. One that
    SQLite could only open for reading makes every later one of the process read-only meanwhile:
    they share what is mapped of the file's WAL index (`unixShmNode` in SQLite's os_unix.c).
    """

    _disposed = False

    def dispose(self) -> None:
        """Close what is idle, and from now on what is returned."""
        self._disposed = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._disposed:
            super().dispose()


class CompiledStatements(LRUCache[Any, Compiled]):
    """The SQL of statements, for all engines of this process.

    SQLAlchemy keeps it by engine: its keys begin with the engine's own dialect object
    (`ClauseElement._compile_w_cache`), so that each engine would compile the same statements, at a
    millisecond or so each. Here dialects that were set up alike are one: of the same class, with
    the same settings, and told the same by their servers.
    """

    __slots__ = ("_alike", "_number", "_numbers")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._number: WeakKeyDictionary[Dialect, int] = WeakKeyDictionary()
        self._alike: dict[object, int] = {}
        self._numbers = itertools.count()  # two threads at once take two

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what the first dialect alike compiled."""
        return super().get((self._numbered(key[0]), *key[1:]), default)

    def __setitem__(self, key: Any, value: Compiled) -> None:
        super().__setitem__((self._numbered(key[0]), *key[1:]), value)

    def _numbered(self, dialect: Dialect) -> int:
        number = self._number.get(dialect)
        if number is None:  # an engine passes its own cache until the server told it everything
            plain = {
                name: value
                for name, value in vars(dialect).items()
                if isinstance(value, str | int | tuple | None)
            }
            kind = (type(dialect), tuple(sorted(plain.items())))
            number = self._alike.setdefault(kind, next(self._numbers))
            self._number[dialect] = number
        return number


COMPILED: Final = CompiledStatements(1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """One database's engines by use.

    Arguments:
        reader: for reads.
        writer: for short transactions.
        patient: for migrations and maintenance, which may take minutes.
        commits: for the recorder's group commits.
        turn: has a short transaction wait for its turn among those of this process.
        checkpoints: None if the database makes its own.
        notifications: None if the database sends none and events must be polled.
        place: of a file; None for a server.
    """

    reader: Engine
    writer: Engine
    patient: Engine
    commits: CommitWriter
    turn: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    checkpoints: CheckpointRun | None = None
    notifications: NotificationSource | None = None
    place: Place | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection for reads.

        Raises:
            StoreError: the database cannot be read.
        """
        self.check()
        with translated(), self.reader.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run one transaction; it is committed on exit and rolled back on an exception.

        Raises:
            StoreError: the database cannot be written.
        """
        self.check()
        with self.turn(), translated(), self.writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def maintaining(self) -> Iterator[Connection]:
        """Lend a connection without a time limit, outside of any transaction.

        Raises:
            StoreError: the database cannot be read or written.
        """
        self.check()
        with translated(), self.patient.connect() as connection:
            yield connection

    def check(self) -> None:
        """Raise DatabaseUnavailable where a file that was opened is not in its place."""
        if self.place is not None:
            self.place.check()

    def let_go(self) -> None:
        """Close every connection but the listening one; each is opened anew when it is needed.

        Those that are lent are closed when they are returned.
        """
        for engine in (self.reader, self.writer, self.patient):
            engine.dispose()
        self.commits.close()
        if self.checkpoints is not None:
            self.checkpoints.close()

    def close(self) -> None:
        """Close every connection."""
        self.let_go()
        if self.place is not None:
            self.place.forget()
        if self.notifications is not None:
            self.notifications.close()


# --- advisory locks ----------------------------------------------------------------------------
# On PostgreSQL; SQLite needs none, because it has one writer.


class Lock(Enum):
    """A lock that one transaction holds at a time. Several are taken in this order."""

    SCHEMA = "schema"
    PARTITIONS = "months"  # the value is part of the key: older services take it too
    BATCH = "breakers"  # one batch, its breakers among others: read, decided and written
    VERDICT = "verdict"  # of one rollout
    ALERTS = "alerts"  # and turns at work: read, decided and written
    PACE = "pace"  # shares read and granted
    PROBES = "probes"  # of lanes: read, decided and written
    EVENTS = "events"  # numbered in the order in which they become visible

    def key(self, of: str = "") -> int:
        """Return the lock's key: a signed 64-bit number, the same in every process."""
        digest = hashlib.blake2b(f"truezero/{self.value}/{of}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), signed=True)


def hold(connection: Connection, lock: Lock, of: str = "") -> None:
    """Wait for a lock and hold it until the transaction ends."""
    hold_all(connection, [lock.key(of)])


def hold_all(connection: Connection, keys: Sequence[int]) -> None:
    """Wait for locks in this order, each after the one before, as `hold` does for one."""
    if keys and connection.dialect.name != "sqlite":
        connection.execute(_HOLD, {"keys": keys})


# A function's rows come in their order, and each is locked as it comes.
_KEYS = func.unnest(bindparam("keys", type_=ARRAY(BigInteger))).column_valued("key")
_HOLD = select(func.pg_advisory_xact_lock(_KEYS))
