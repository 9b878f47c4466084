"""Operations on the database itself: export, import, backup and prune.

They open the database directly; no service is needed, and no token protects them.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from truezero.cli.options import progress
from truezero.printable import plural, visible

_TYPES = ("rollout", "exchange", "verdict", "breaker")
_REJECTED: Mapping[str, tuple[str, str]] = {
    "rollout": ("rollout", "rollouts"),
    "exchange": ("call without a rollout", "calls without a rollout"),
    "breaker": ("breaker", "breakers"),
}
_PROGRESS_EVERY = 5000


class DataError(Exception):
    """The operation failed; the message says why in one sentence."""


def export(url: str, out: Path | None, *, batch: str | None) -> None:
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


def take(url: str, source: str) -> bool:
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


def back_up(url: str, file: Path) -> None:
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


def recount(url: str, *, verify_only: bool) -> bool:
    """Compare sums with a recount of their rows, and correct them; return False if they differed.

    Raises:
        DataError: the database cannot be read or written.
    """
    from proxy.store.admin import maintenance  # noqa: PLC0415
    from proxy.store.database import Database  # noqa: PLC0415

    with readable_errors(), progress("comparing sums") as show:
        database = Database(url)
        try:
            database.prepare()
            found = database.read(maintenance.check, lambda batch: show(f"batch {batch}"))
            for kind, named in (("calls", found.calls), ("rollouts", found.rollouts)):
                for batch in named:
                    _say(f"{f'batch {batch!r}' if batch else 'no batch'}: its {kind} do not add up")
            if found.right or verify_only:
                verdict = "all add up" if found.right else "nothing was changed"
                checked = plural(found.checked, "batch", "batches")
                _say(f"{checked} compared with a recount: {verdict}")
            else:
                _say(f"{plural(maintenance.recount(database), 'batch', 'batches')} counted anew")
        finally:
            database.close()
    return found.right


def prune(url: str, older_than: str, *, dry_run: bool) -> None:
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


# --- files ---------------------------------------------------------------------------------


def _write(records: Iterator[Any], out: Path | None) -> Counter[str]:
    from proxy.store.admin import archive  # noqa: PLC0415

    if out is None:
        return archive.write(records, sys.stdout.buffer)
    return archive.write_file(records, out)


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


# --- messages ---------------------------------------------------------------------------------


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


def _say(sentence: str) -> None:
    click.echo(f"truezero: {visible(sentence)}", err=True)


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
