"""A copy of an SQLite database while processes write it, as one file that is sound.

It knows SQLite only; PostgreSQL brings `pg_dump`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from errno import EEXIST
from os import strerror
from pathlib import Path

from proxy.store.admin import rows
from proxy.store.errors import UnusableDatabase


def back_up(url: str, file: Path) -> int:
    """Write a database as it stands at one moment into a new file; returns its size in bytes.

    Every call whose end was in the database when this began is in it. The file gets its name
    when it is whole, was found sound and is on the disk; only its owner can read it, for it
    holds what keys are signed with.

    Raises:
        UnusableDatabase: it is no SQLite file, or the copy is not sound.
        OSError: the file cannot be written, or is there already.
    """
    source = rows.sqlite_file(url)
    if source is None:
        raise UnusableDatabase(
            f"{rows.place(url)} is not SQLite: PostgreSQL is backed up by pg_dump"
        )
    if not source.is_file():
        raise UnusableDatabase(f"there is no database at {source}")
    if file.exists():
        raise FileExistsError(EEXIST, strerror(EEXIST), str(file))
    part = file.with_name(file.name + ".part")
    part.unlink(missing_ok=True)  # of one that was killed
    part.touch(mode=0o600)
    try:
        _copy(source, part)
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def left_out(url: str) -> list[Path]:
    """Files beside a database whose exchanges it would not take yet, and a backup lacks."""
    source = rows.sqlite_file(url)
    beside = source.parent.iterdir() if source else ()
    return sorted(
        path
        for path in beside
        if source and path.name.startswith(f"{source.name}.") and path.suffix == ".spill"
    )


def _copy(source: Path, part: Path) -> None:
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(part)) as there:
        here.backup(there)  # all pages at once: nobody's write can make it begin again
        there.execute("PRAGMA journal_mode = DELETE")  # one file, without one beside it
        found = there.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise UnusableDatabase(f"the copy is not sound: {found}")
