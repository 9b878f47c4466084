"""Rows of any table as plain tuples: read and inserted; the kinds of record of an archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    String,
    Table,
    create_engine,
    event,
)
from sqlalchemy.exc import DBAPIError

from proxy.store import migrations, partitions
from proxy.store.admin.location import place, sqlite_file
from proxy.store.database import url_of
from proxy.store.errors import BadUrl, UnusableDatabase, refuse_foreign, refuse_missing
from proxy.store.sqlite import make_private
from proxy.store.tables import as_json, exchanges, metadata, rollouts, verdicts
from truezero.foreign import ForeignError, parse

Row: TypeAlias = Sequence[Any]

CHUNK = 2000  # rows fetched, written and committed at once

_BUSY_S = 30.0  # how long a writer waits for another process on the same file


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Open a snapshot of a complete truezero database for reading.

    Raises:
        UnusableDatabase: there is none, or this version cannot read it.
    """
    file = sqlite_file(url)
    if file is not None and not file.is_file():
        refuse_missing(file)
    with _engine(url, "BEGIN", snapshot=True) as engine, engine.begin() as connection:
        _check(connection, url)
        yield connection


@contextmanager
def writing(url: str) -> Iterator[Engine]:
    """Bring the schema up to date and lend an engine whose transactions wait for other writers.

    Raises:
        UnusableDatabase: a later version of truezero wrote the database.
    """
    with _engine(url, "BEGIN IMMEDIATE", snapshot=False) as engine:
        with engine.connect() as connection:
            migrations.upgrade(connection)
        yield engine


def copied(table: Table) -> list[Column[Any]]:
    """List a table's columns in the order of its rows, but those that follow from others."""
    return [column for column in table.columns if not column.info.get("derived")]


@cache
def columns_of(table: Table) -> tuple[str, ...]:
    """Return the names of a table's columns, in the order of its rows."""
    return tuple(str(column.name) for column in copied(table))


def by_key(connection: Connection, table: Table) -> list[ColumnElement[Any]]:
    """Return a table's key to order by: text by code point on every database, as in Python."""
    return exactly(connection, *table.primary_key.columns)


def exactly(connection: Connection, *columns: Column[Any]) -> list[ColumnElement[Any]]:
    """Return columns to order and compare by, text by code point."""
    return [_exact(connection, column) for column in columns]


def stream(connection: Connection, query: Select[Any]) -> Iterator[Row]:
    """Yield the rows of a query, fetched as they are used."""
    for rows in connection.execute(query.execution_options(yield_per=CHUNK)).partitions():
        yield from rows


def insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add rows in the fastest way the database has."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        if table is exchanges:
            at = columns_of(table).index("started_at")
            partitions.add(connection, {partitions.wanted(row[at])[0] for row in rows})
        names = ", ".join(f'"{name}"' for name in columns_of(table))
        _copy_in(connection, f'COPY "{table.name}" ({names}) FROM STDIN', rows)
        return
    columns = list(columns_of(table))
    statement = str(table.insert().compile(dialect=connection.dialect, column_keys=columns))
    connection.exec_driver_sql(statement, [tuple(row) for row in rows])


def _exact(connection: Connection, column: Column[Any]) -> ColumnElement[Any]:
    if connection.dialect.name == "postgresql" and isinstance(column.type, String):
        return column.collate("C")
    return column


def _copy_in(connection: Connection, statement: str, rows: Sequence[Row]) -> None:
    driver: Any = connection.connection.dbapi_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as taking:
            for row in rows:
                taking.write_row(row)
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(statement, None, error) from error


def _check(connection: Connection, url: str) -> None:
    version = migrations.current(connection)
    if version is None:
        refuse_foreign(place(url))
    migrations.refuse_unknown(version)
    if version != migrations.HEAD:
        raise UnusableDatabase(
            f"{place(url)} has schema {version}, but this version of truezero reads "
            f"{migrations.HEAD}: run `truezero db upgrade`"
        )
    migrations.refuse_unfinished(connection)


@contextmanager
def _engine(url: str, begin: str, *, snapshot: bool) -> Iterator[Engine]:
    engine = _made(url, begin, snapshot=snapshot)
    try:
        yield engine
    finally:
        engine.dispose()


def _made(url: str, begin: str, *, snapshot: bool) -> Engine:
    whole = url_of(url)
    file = sqlite_file(url)
    if file is None:
        level = "REPEATABLE READ" if snapshot else "READ COMMITTED"
        try:
            return create_engine(whole, isolation_level=level)
        except ModuleNotFoundError:
            raise BadUrl("PostgreSQL needs an extra: pip install 'truezero[postgres]'") from None
    if not snapshot:
        make_private(str(file))
    engine = create_engine(whole, connect_args={"timeout": _BUSY_S})
    event.listen(engine, "connect", _plain if snapshot else _as_the_service)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _plain(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun by the `begin` listener


def _as_the_service(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


# --- kinds of record, and their tables ---------------------------------------------------------


Record: TypeAlias = tuple[str, Row]  # a type's name, and its values in the order of its columns


class RecordError(ValueError):
    """A record is invalid; the message names the field and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A kind of record: its table, and the columns that name its owner and hold JSON.

    ``gone`` are fields that archives of earlier versions have, and no table any more; ``carried``
    make a field of what they say.
    """

    table: Table
    owner: str
    json: tuple[str, ...] = ()  # columns that hold JSON
    gone: frozenset[str] = frozenset()
    carried: tuple[str, Callable[[Mapping[str, object]], object]] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a record's fields, in their order."""
        return columns_of(self.table)

    @property
    def owner_at(self) -> int:
        """The index of the owner's column in a row."""
        return self.columns.index(self.owner)


# Columns of 0.2 and before, in whose place is one.
BEFORE_STANDS_ON = ("neighbours", "reference_series", "unattributed_calls", "passes_tokens")


def carried_evidence(verdict: Mapping[str, object]) -> str | None:
    """Return the column ``stands_on`` of a verdict that an earlier version exported.

    Raises:
        RecordError: what it has is no JSON.
    """
    found = {}
    for before in BEFORE_STANDS_ON:
        value = verdict.get(before)
        if isinstance(value, str):
            try:
                value = parse(value)
            except ForeignError:
                raise RecordError(f"{before}: not JSON") from None
        if value:
            found["references" if before == "reference_series" else before] = value
    return as_json(found) if found else None


# In the order in which a rollout's records stand.
OF_ROLLOUTS: Mapping[str, RecordType] = {
    "rollout": RecordType(
        table=rollouts, owner="id", json=("metadata", "outcome", "fault", "limit_reached")
    ),
    "exchange": RecordType(table=exchanges, owner="rollout_id"),
    "verdict": RecordType(
        table=verdicts,
        owner="rollout_id",
        json=("verdict", "result", "stands_on"),
        gone=frozenset({"drifts", *BEFORE_STANDS_ON}),
        carried=("stands_on", carried_evidence),
    ),
}
# Of batches: tables of features.
OF_BATCHES: Mapping[str, RecordType] = {
    archived.record: RecordType(table=table, owner="batch", json=archived.json)
    for table in metadata.tables.values()
    if (archived := table.info.get("archived")) is not None
}
# They come after all rollouts.
RECORD_TYPES: Mapping[str, RecordType] = {**OF_ROLLOUTS, **OF_BATCHES}
_RANK = {name: rank for rank, name in enumerate(OF_BATCHES, start=1)}


def place_of(record: Record) -> tuple[int, str]:
    """Return where an archive has a record: by rank, 0 for those of rollouts, and by owner."""
    name, row = record
    return _RANK.get(name, 0), str(row[RECORD_TYPES[name].owner_at])
