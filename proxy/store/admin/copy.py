"""Copy one database into another, of either kind, and compare them; back up an SQLite file.

The target of a copy carries a mark until the copy is complete and compared; the service refuses a
database with that mark.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from errno import EEXIST
from os import strerror
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import Connection, Engine, Table, select

from proxy.store import batch_totals, migrations
from proxy.store.admin import rows
from proxy.store.admin.rows import CHUNK, Digest, Row
from proxy.store.errors import UnusableDatabase
from proxy.store.tables import DERIVED, metadata

Progress: TypeAlias = Callable[[str, int], None]  # a table, and how many of its rows are done

# A table is complete before the next one begins, so the target shows where to continue. What
# follows from others is not copied: the target's own triggers add up what is written there.
TABLES: tuple[Table, ...] = tuple(t for t in metadata.sorted_tables if t not in DERIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """One table in two databases."""

    table: str
    source: Digest
    target: Digest

    @property
    def same(self) -> bool:
        """True if source and target hold the same rows."""
        return self.source == self.target


def copy(source: str, target: str, progress: Progress) -> list[TableComparison]:
    """Copy all of a database into an empty one, or finish a copy that was interrupted.

    The source is read in one snapshot. Rows the target already has are compared first, and all
    rows at the end; the mark stays if something differs.

    Raises:
        UnusableDatabase: one of them cannot be used, or the target holds other data.
    """
    if rows.same_place(source, target):
        raise UnusableDatabase(f"{rows.place(source)} cannot be copied to itself")
    with rows.reading(source) as here:
        _refuse_older(target)
        with rows.writing(target) as there:
            _begin(here, there, target)
            for table in TABLES:
                _fill(here, there, table, progress)
            with there.connect() as connection:
                comparison = _compared(here, connection, progress)
            if all(each.same for each in comparison):
                with there.begin() as connection:
                    batch_totals.derive(connection)
                    migrations.unfinished.drop(connection)
    return comparison


def verify(source: str, target: str, progress: Progress) -> list[TableComparison]:
    """Compare all rows of two databases without writing.

    Raises:
        UnusableDatabase: one of them cannot be read.
    """
    with rows.reading(source) as here, rows.reading(target) as there:
        return _compared(here, there, progress)


def _refuse_older(target: str) -> None:
    """Refuse a target of another schema: it is not migrated, for it may be in use."""
    with rows.looking(target) as connection:
        version = migrations.current(connection)
    if version not in (None, migrations.HEAD):
        raise UnusableDatabase(
            f"{rows.place(target)} has a different schema version: use an empty database"
        )


def _begin(here: Connection, there: Engine, target: str) -> None:
    """Mark the target; refuse one with rows that the source lacks or has differently."""
    with there.begin() as connection:
        for table in TABLES:
            if not _is_part(here, connection, table):
                raise UnusableDatabase(
                    f"{rows.place(target)} holds other data in {table.name}: use an empty database"
                )
        migrations.unfinished.create(connection, checkfirst=True)


def _is_part(here: Connection, there: Connection, table: Table) -> bool:
    """Return True if a table holds exactly the source's rows up to its own last key."""
    last = rows.last_key(there, table)
    if last is None:
        return True
    same_range = select(table).where(rows.up_to(here, table, last))
    return rows.digest(rows.stream(here, same_range)) == _digest(there, table)


def _fill(here: Connection, there: Engine, table: Table, progress: Progress) -> None:
    """Add the rows the target lacks, in key order, one commit for each chunk."""
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
        progress(table.name, done)
    with there.begin() as connection:
        rows.continue_sequence(connection, table)


def _compared(here: Connection, there: Connection, progress: Progress) -> list[TableComparison]:
    return [
        TableComparison(
            table=table.name,
            source=_digest(here, table, progress),
            target=_digest(there, table, progress),
        )
        for table in TABLES
    ]


def _digest(connection: Connection, table: Table, progress: Progress | None = None) -> Digest:
    return rows.digest(_counting(rows.stream(connection, select(table)), table, progress))


def _counting(rows_read: Iterable[Row], table: Table, progress: Progress | None) -> Iterator[Row]:
    for number, row in enumerate(rows_read, start=1):
        yield row
        if progress is not None and number % CHUNK == 0:
            progress(table.name, number)


# --- backup of an SQLite database --------------------------------------------------------------


def back_up(url: str, file: Path) -> int:
    """Write a snapshot of a database to a new file; returns its size in bytes.

    Every call that had ended when this began is in it. The file gets its name once it is
    complete and checked; only its owner can read it, because it holds the signing secret.

    Raises:
        UnusableDatabase: it is not an SQLite file, or the copy failed its integrity check.
        OSError: the file cannot be written, or exists already.
    """
    source = rows.sqlite_file(url)
    if source is None:
        raise UnusableDatabase(
            f"{rows.place(url)} is not an SQLite database: back up PostgreSQL with pg_dump"
        )
    if not source.is_file():
        raise UnusableDatabase(f"no database at {source}")
    if file.exists():
        raise FileExistsError(EEXIST, strerror(EEXIST), str(file))
    part = file.with_name(file.name + ".part")
    part.unlink(missing_ok=True)  # of a backup that was killed
    part.touch(mode=0o600)
    try:
        _copy(source, part)
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def left_out(url: str) -> list[Path]:
    """List the spill files beside a database, whose exchanges a backup lacks."""
    source = rows.sqlite_file(url)
    beside = source.parent.iterdir() if source else ()
    return sorted(
        path
        for path in beside
        if source and path.name.startswith(f"{source.name}.") and path.suffix == ".spill"
    )


def _copy(source: Path, part: Path) -> None:
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(part)) as there:
        here.backup(there)  # all pages at once: no write can make it start again
        there.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        integrity = there.execute("PRAGMA integrity_check").fetchone()[0]
    if integrity != "ok":
        raise UnusableDatabase(f"the copy failed its integrity check: {integrity}")
