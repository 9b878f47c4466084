"""Commands on the service's data: export, import, prune and `truezero db`.

But for an export from a service they open the database directly; no service is needed, and no
token protects them.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from truezero.cli import gone
from truezero.cli.options import (
    FILE,
    connected,
    database,
    database_options,
    fail,
    progress,
    server,
    service_options,
    set_environment,
    settings,
)
from truezero.printable import plural, visible
from truezero.whole_file import whole

_TYPES = ("rollout", "exchange", "verdict", "breaker")
_REJECTED: Mapping[str, tuple[str, str]] = {
    "rollout": ("rollout", "rollouts"),
    "exchange": ("call without a rollout", "calls without a rollout"),
    "breaker": ("breaker", "breakers"),
}
_PROGRESS_EVERY = 5000


class DataError(Exception):
    """The operation failed; the message says why in one sentence."""


# --- export and import ---


@click.command()
@click.option("--batch", "batch_name", help="Only this batch.  [default: all]")
@click.option("--out", type=FILE, help="Write to this file.  [default: standard output]")
@service_options
@click.option(
    "--full", is_flag=True, help="Read the database and write an archive for `truezero import`."
)
@gone.option("--format", type=str, instead="an archive is JSON lines")
@database_options
def export(
    *,
    batch_name: str | None,
    out: Path | None,
    url: str | None,
    token: str | None,
    full: bool,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Export rollouts, outcomes and calls as JSON lines, the input of `truezero classify`.

    With --full, reads a snapshot of the database instead of calling the service, and writes
    an archive that includes verdicts. Safe while the service is running.
    """
    if full:
        with _data_errors():
            _export_full(database(database_url, config), out, batch=batch_name)
        return
    if database_url is not None:
        fail("--database requires --full", 2)
    with connected(url, token) as client:
        lines = client.export(batch=batch_name)
        if out is None:
            for line in lines:
                click.echo(line)
        else:
            _write_lines(out, lines)


def _write_lines(out: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all: a partial export would be mistaken for a whole one."""
    try:
        with whole(out) as copy, copy.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror}", 1)


def _export_full(url: str, out: Path | None, *, batch: str | None) -> None:
    """Write an archive of a database or one batch; to standard output without ``out``.

    Raises:
        DataError: the database cannot be read or the archive cannot be written.
    """
    from proxy.store.admin import archive  # noqa: PLC0415

    flawed = archive.FlawedRecords()
    with (
        readable_errors(),
        progress("exporting") as show,
        archive.export_records(url, batch=batch) as records,
    ):
        count = _write(_counting(flawed.passing(records), show), out)
    _say(f"exported {_counts(count)}")
    if flawed.count:
        first = ", ".join(flawed.first) + (", …" if flawed.count > len(flawed.first) else "")
        refused = plural(flawed.count, "record")
        _say(f"an import of this archive will fail: it refuses {refused}: {first}")


def _write(records: Iterator[Any], out: Path | None) -> Counter[str]:
    from proxy.store.admin import archive  # noqa: PLC0415

    if out is None:
        return archive.write(records, sys.stdout.buffer)
    return archive.write_file(records, out)


@click.command("import")
@click.argument("source", metavar="FILE")
@database_options
def import_archive(
    *,
    source: str,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Import an archive written by `truezero export --full` into a database.

    FILE is JSON lines, or - for standard input.

    Each rollout is imported whole or not at all. Rollouts that already exist with the same
    content are skipped, so an interrupted import can be repeated; rollouts that exist with
    different content are rejected and left unchanged, and the exit code is 1. Writes to the
    database directly; no service is needed.
    """
    with _data_errors():
        complete = _import(database(database_url, config), source)
    raise Exit(0 if complete else 1)


def _import(url: str, source: str) -> bool:
    """Import an archive into a database; return False if a record was rejected.

    Arguments:
        source: a file, or ``-`` for standard input.

    Raises:
        DataError: the archive cannot be read or the database cannot be written.
    """
    from proxy.store.admin import archive  # noqa: PLC0415

    with readable_errors(), progress("importing") as show, reading(source) as records:
        taken = archive.import_records(url, _counting(records, show))
    _say(f"imported {_counts(taken.added)}; already present: {_counts(taken.unchanged)}")
    _print_rejections(taken)
    return not taken.refused


@contextmanager
def reading(source: str) -> Iterator[Iterator[Any]]:
    """Open an archive: a file of JSON lines, or ``-`` for standard input.

    Raises:
        DataError: it is a folder, as archives in Parquet were.
    """
    from proxy.store.admin import archive  # noqa: PLC0415

    if source == "-":
        yield archive.read(sys.stdin.buffer)
    elif Path(source).is_dir():
        raise DataError(
            f"{source} is a folder: an archive is a file of JSON lines; one in Parquet is imported "
            "by the version that wrote it, and exported from there"
        )
    else:
        with Path(source).open("rb") as file:
            yield archive.read(file)


def _counting(records: Iterator[Any], show: Callable[[str], None]) -> Iterator[Any]:
    for number, record in enumerate(records, start=1):
        yield record
        if number % _PROGRESS_EVERY == 0:
            show(plural(number, "record"))


def _counts(count: Mapping[str, int]) -> str:
    return ", ".join(plural(count.get(name, 0), name) for name in _TYPES)


def _print_rejections(taken: Any) -> None:
    for sentence in taken.conflicts:
        _say(sentence)
    if taken.refused:
        counts = [(taken.refusals[name], named) for name, named in _REJECTED.items()]
        rejected = ", ".join(plural(count, *named) for count, named in counts if count)
        _say(f"rejected and left unchanged: {rejected}")


# --- prune ---


@click.command()
@click.option("--older-than", required=True, help="Age in days or weeks: 90d, 12w.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted and change nothing.")
@database_options
def prune(
    *,
    older_than: str,
    dry_run: bool,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Delete batches with no activity for the given period.

    Safe while the service is running. On PostgreSQL whole months are dropped, so up to one month
    more is kept.
    """
    with _data_errors():
        _prune(database(database_url, config), older_than, dry_run=dry_run)


def _prune(url: str, older_than: str, *, dry_run: bool) -> None:
    """Delete batches with no activity for some time; safe while services write.

    Arguments:
        older_than: a number of days or weeks: ``90d``, ``12w``.

    Raises:
        DataError: ``older_than`` is invalid, or the database cannot be written.
    """
    from proxy.store.admin import maintenance  # noqa: PLC0415
    from proxy.store.database import Database  # noqa: PLC0415

    before = time.time() - _seconds(older_than)
    with readable_errors(), progress("deleting") as show:
        database = Database(url)
        try:
            database.prepare()
            done = maintenance.prune(
                database, before=before, dry_run=dry_run, progress=lambda d: show(_deleted(d))
            )
        finally:
            database.close()
    since = datetime.fromtimestamp(done.before, UTC)
    verb = "would delete" if dry_run else "deleted"
    _say(f"{verb} {_deleted(done)}, all from before {since:%Y-%m-%d %H:%M} UTC")
    if done.partitions:
        _say(f"{'would drop' if dry_run else 'dropped'} {', '.join(done.partitions)}")


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,5})([dw])", text)
    days = int(match[1]) * {"d": 1, "w": 7}[match[2]] if match else 0
    if days == 0:
        raise DataError(
            f"--older-than: {text!r} is not a number of days or weeks, such as 90d or 12w"
        )
    return days * 86_400.0


def _deleted(done: Any) -> str:
    counted = ((done.rollouts, "rollout"), (done.exchanges, "exchange"), (done.events, "event"))
    return ", ".join(plural(*each) for each in counted)


# --- the database itself ---


@click.group("db")
def database_group() -> None:
    """Manage the service's database."""


for _words in gone.COMMANDS:
    _group, _, _name = _words.partition(" ")
    if _group == "db" and (_command := gone.command(_words)) is not None:
        database_group.add_command(_command, _name)


@database_group.command()
@database_options
def upgrade(
    *,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Upgrade the database schema, as `truezero serve` does on start."""
    set_environment({"database_url": database_url, "config": config})
    service = server()
    try:
        with progress("upgrading the schema"):
            before, now = service.upgrade(settings())
    except service.StartError as error:
        fail(str(error), 1)
    click.echo(f"schema {now}" if before == now else f"schema {before or 'empty'} → {now}")


@database_group.command()
@click.argument("file", metavar="FILE", type=FILE)
@database_options
def backup(
    *,
    file: Path,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Back up an SQLite database while the service runs, and check the backup's integrity.

    To restore, stop the service and start it on the file. For PostgreSQL use pg_dump.
    """
    with _data_errors():
        _back_up(database(database_url, config), file)


def _back_up(url: str, file: Path) -> None:
    """Back up an SQLite database into a new file while it is in use.

    Raises:
        DataError: the database is not SQLite, or the file cannot be written.
    """
    from proxy.store.admin import backup  # noqa: PLC0415

    with readable_errors():
        with progress(f"backing up into {file}"):
            size = backup.back_up(url, file)
        for path in backup.left_out(url):
            _say(f"{path} holds calls not yet written to the database: back it up as well")
    _say(f"{file}: integrity check passed, {size / 1e6:,.1f} MB. It contains secrets: protect it")


# --- messages and errors ---


def _say(sentence: str) -> None:
    click.echo(f"truezero: {visible(sentence)}", err=True)


@contextmanager
def _data_errors() -> Iterator[None]:
    """Print a ``DataError`` and exit with 1."""
    try:
        yield
    except DataError as error:
        fail(str(error), 1)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise errors of files and databases as a ``DataError`` with one sentence."""
    from sqlite3 import Error as SqliteError  # noqa: PLC0415

    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    from proxy.store.admin.archive import ArchiveError  # noqa: PLC0415
    from proxy.store.admin.rows import RecordError  # noqa: PLC0415
    from proxy.store.errors import BadUrl, StoreError, UnusableDatabase  # noqa: PLC0415

    try:
        yield
    except BadUrl as error:
        raise DataError(f"invalid database URL: {error}") from None
    except (ArchiveError, RecordError, UnusableDatabase) as error:
        raise DataError(str(error)) from None
    except StoreError as error:
        raise DataError(f"the database: {error}") from None
    except DBAPIError as error:
        raise DataError(f"the database: {str(error.orig).splitlines()[0]}") from None
    except SqliteError as error:
        raise DataError(f"the database: {error}") from None
    except BrokenPipeError:
        raise DataError("the reader of the output is gone") from None
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from None
