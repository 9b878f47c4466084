"""One database's rows into another, of either kind, and the proof that they are the same.

It changes no row, and never the database that it reads. A database that is being filled bears
a mark, by which the service refuses it, until all of it was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, Engine, Table, select

from proxy.store import migrations
from proxy.store.admin import rows
from proxy.store.admin.rows import CHUNK, Digest, Row
from proxy.store.errors import UnusableDatabase
from proxy.store.tables import metadata

Told: TypeAlias = Callable[[str, int], None]  # a table, and how many of its rows are done

# A table is whole before the next one begins, so that what is there tells where to go on.
TABLES: tuple[Table, ...] = tuple(metadata.sorted_tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """One table in two databases."""

    table: str
    source: Digest
    target: Digest

    @property
    def same(self) -> bool:
        """Whether both hold the same rows."""
        return self.source == self.target


def copy(source: str, target: str, told: Told) -> list[TableComparison]:
    """Copy all of a database into an empty one, or finish a copy that was interrupted.

    The source is read as it stands at one moment. What the target has by then is compared
    first, and all of it afterwards; the mark stays where something differs.

    Raises:
        UnusableDatabase: one of them cannot be used, or the target holds other data.
    """
    if rows.same_place(source, target):
        raise UnusableDatabase(f"{rows.place(source)} would be copied into itself")
    with rows.reading(source) as here:
        _refuse_older(target)
        with rows.writing(target) as there:
            _begin(here, there, target)
            for table in TABLES:
                _fill(here, there, table, told)
            with there.connect() as connection:
                found = _compared(here, connection, told)
            if all(each.same for each in found):
                with there.begin() as connection:
                    migrations.unfinished.drop(connection)
    return found


def verify(source: str, target: str, told: Told) -> list[TableComparison]:
    """Compare all rows of two databases; nothing is written.

    Raises:
        UnusableDatabase: one of them cannot be read.
    """
    with rows.reading(source) as here, rows.reading(target) as there:
        return _compared(here, there, told)


def _refuse_older(target: str) -> None:
    """A target is not brought up to date on the way: what is in it may be somebody's."""
    with rows.looking(target) as connection:
        found = migrations.current(connection)
    if found not in (None, migrations.HEAD):
        raise UnusableDatabase(
            f"{rows.place(target)} stands at another schema: use an empty database"
        )


def _begin(here: Connection, there: Engine, target: str) -> None:
    """Mark the target; refuse one that holds what the source has not, or not so."""
    with there.begin() as connection:
        for table in TABLES:
            if not _is_part(here, connection, table):
                raise UnusableDatabase(
                    f"{rows.place(target)} holds other data in {table.name}: "
                    "copy into an empty database"
                )
        migrations.unfinished.create(connection, checkfirst=True)


def _is_part(here: Connection, there: Connection, table: Table) -> bool:
    """Whether a table holds the source's rows up to its own last one."""
    last = rows.last_key(there, table)
    if last is None:
        return True
    as_far = select(table).where(rows.up_to(here, table, last))
    return rows.digest(rows.stream(here, as_far)) == _digest(there, table)


def _fill(here: Connection, there: Engine, table: Table, told: Told) -> None:
    """Add what the target lacks, in the order of the key, a commit for each chunk."""
    query = select(table).order_by(*rows.by_key(here, table))
    with there.connect() as connection:
        last = rows.last_key(connection, table)
    if last is not None:
        query = query.where(~rows.up_to(here, table, last))
    done = 0
    for chunk in rows.chunks(rows.stream(here, query), CHUNK):
        with there.begin() as connection:
            rows.insert(connection, table, chunk)
        done += len(chunk)
        told(table.name, done)
    with there.begin() as connection:
        rows.follow(connection, table)


def _compared(here: Connection, there: Connection, told: Told) -> list[TableComparison]:
    return [
        TableComparison(
            table=table.name,
            source=_digest(here, table, told),
            target=_digest(there, table, told),
        )
        for table in TABLES
    ]


def _digest(connection: Connection, table: Table, told: Told | None = None) -> Digest:
    return rows.digest(_counting(rows.stream(connection, select(table)), table, told))


def _counting(found: Iterable[Row], table: Table, told: Told | None) -> Iterator[Row]:
    for number, row in enumerate(found, start=1):
        yield row
        if told is not None and number % CHUNK == 0:
            told(table.name, number)
