"""Back up an SQLite file while it is in use."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from errno import EEXIST
from os import strerror
from pathlib import Path

from proxy.store.admin.location import place, sqlite_file
from proxy.store.errors import UnusableDatabase, refuse_missing


def back_up(url: str, file: Path) -> int:
    """Write a snapshot of a database to a new file; returns its size in bytes.

    Every call that had ended when this began is in it. The file gets its name once it is
    complete and checked; only its owner can read it, because it holds the signing secret.

    Raises:
        UnusableDatabase: it is not an SQLite file, or the copy failed its integrity check.
        OSError: the file cannot be written, or exists already.
    """
    source = sqlite_file(url)
    if source is None:
        raise UnusableDatabase(
            f"{place(url)} is not an SQLite database: back up PostgreSQL with pg_dump"
        )
    if not source.is_file():
        refuse_missing(source)
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
    source = sqlite_file(url)
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
