"""Moving and keeping a whole database: export, import, copy, backup, as the operator asks.

It asks no service: whoever may open the database may do this, and nobody else.
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

import typer
from rich.console import Console

FORMATS = ("jsonl", "parquet")

_NOUNS = ("rollout", "exchange", "verdict", "breaker")
_TOLD_EVERY = 5000


class DataError(Exception):
    """Why it could not be done, in one sentence."""


def export(url: str, out: Path | None, form: str, *, batch: str | None) -> None:
    """Write an archive of a database, or of one batch in it; standard output without ``out``.

    Raises:
        KeepingError: the database cannot be read, or the archive not be written.
    """
    from proxy.store.admin import archive  # noqa: PLC0415

    if form == "parquet" and out is None:
        raise DataError("Parquet is a folder of files: name it with --out")
    with _sentences(), _telling() as told, archive.export_records(url, batch=batch) as records:
        count = _write(_counting(records, told), out, form)
    _say(f"exported {_counts(count)}")


def take(url: str, source: str) -> bool:
    """Add an archive to a database; False where something was refused.

    Arguments:
        source: a file of JSON lines, ``-`` for standard input, or a folder of Parquet.

    Raises:
        KeepingError: the archive cannot be read, or the database not be written.
    """
    from proxy.store.admin import archive  # noqa: PLC0415

    with _sentences(), _telling() as told, _reading(source) as records:
        taken = archive.import_records(url, _counting(records, told))
    _say(f"imported {_counts(taken.added)}; {_counts(taken.unchanged)} were there")
    _tell_refusals(taken)
    return not taken.refused


def copy(source: str, target: str, *, verify_only: bool) -> bool:
    """Copy a database into another and compare them; False where they differ.

    Raises:
        KeepingError: one of them cannot be used, or the target holds other data.
    """
    from proxy.store.admin import copy as copy_module  # noqa: PLC0415

    with _sentences(), _telling() as told:
        work = copy_module.verify if verify_only else copy_module.copy
        found = work(source, target, lambda table, rows: told(f"{table}: {rows:,}"))
    for each in found:
        held = f"{each.source.rows:>10,}  {each.source}"
        other = f"the target has {each.target.rows:,}  {each.target}"
        typer.echo(f"{each.table:12} {held}  {'same' if each.same else other}")
    return all(each.same for each in found)


def back_up(url: str, file: Path) -> None:
    """Write an SQLite database into a new file while it is in use.

    Raises:
        KeepingError: it is not SQLite, or the file cannot be written.
    """
    from proxy.store.admin import backup  # noqa: PLC0415

    with _sentences():
        size = backup.back_up(url, file)
        for path in backup.left_out(url):
            _say(f"{path} holds calls that the database would not take yet; keep it as well")
    _say(f"{file} is whole and sound: {size / 1e6:,.1f} MB. It holds secrets: keep it as such")


def prune(url: str, older_than: str, *, dry_run: bool) -> None:
    """Forget what has not been touched for some time, while services write.

    Arguments:
        older_than: a number of days or weeks: ``90d``, ``12w``.

    Raises:
        KeepingError: it is no such number, or the database cannot be written.
    """
    from proxy.store.admin import prune as prune_module  # noqa: PLC0415
    from proxy.store.database import Database  # noqa: PLC0415

    before = time.time() - _seconds(older_than)
    with _sentences(), _telling() as told:
        database = Database(url)
        try:
            database.prepare()
            done = prune_module.prune(
                database, before=before, dry_run=dry_run, progress=lambda d: told(_forgotten(d))
            )
        finally:
            database.close()
    since = datetime.fromtimestamp(done.before, UTC)
    verb = "would forget" if dry_run else "forgot"
    _say(f"{verb} {_forgotten(done)}, all from before {since:%Y-%m-%d %H:%M} UTC")
    if done.partitions:
        _say(f"{'would drop' if dry_run else 'dropped'} {', '.join(done.partitions)}")


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,5})([dw])", text)
    days = int(found[1]) * {"d": 1, "w": 7}[found[2]] if found else 0
    if days == 0:
        raise DataError(f"--older-than: {text!r} is no number of days or weeks, as 90d or 12w is")
    return days * 86_400.0


def _forgotten(done: Any) -> str:
    return f"{done.rollouts:,} rollouts, {done.exchanges:,} exchanges, {done.events:,} events"


# --- files ---------------------------------------------------------------------------------


def _write(records: Iterator[Any], out: Path | None, form: str) -> Counter[str]:
    from proxy.store.admin import jsonl, parquet  # noqa: PLC0415

    if out is None:
        return jsonl.write(records, sys.stdout.buffer)
    return {"jsonl": jsonl.write_file, "parquet": parquet.write_folder}[form](records, out)


@contextmanager
def _reading(source: str) -> Iterator[Iterator[Any]]:
    from proxy.store.admin import jsonl, parquet  # noqa: PLC0415

    if source == "-":
        yield jsonl.read(sys.stdin.buffer)
    elif Path(source).is_dir():
        yield parquet.read(Path(source))
    else:
        with Path(source).open("rb") as file:
            yield jsonl.read(file)


# --- words ---------------------------------------------------------------------------------


@contextmanager
def _telling() -> Iterator[Callable[[str], None]]:
    """Shows on a terminal how far it is; nothing where standard error is a file."""
    with Console(stderr=True).status("begins") as status:
        yield status.update


def _counting(records: Iterator[Any], told: Callable[[str], None]) -> Iterator[Any]:
    for number, record in enumerate(records, start=1):
        yield record
        if number % _TOLD_EVERY == 0:
            told(f"{number:,} records")


def _counts(count: Mapping[str, int]) -> str:
    return ", ".join(f"{count.get(noun, 0):,} {noun}s" for noun in _NOUNS)


def _tell_refusals(taken: Any) -> None:
    for sentence in taken.conflicts:
        _say(sentence)
    if taken.refused:
        _say(f"{taken.refused:,} were refused, and nothing of theirs was changed")


def _say(sentence: str) -> None:
    typer.echo(f"truezero: {sentence}", err=True)


@contextmanager
def _sentences() -> Iterator[None]:
    """What can go wrong with files and databases, as one sentence."""
    from sqlite3 import Error as SqliteError  # noqa: PLC0415

    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    from proxy.store.admin.manifest import ArchiveError  # noqa: PLC0415
    from proxy.store.admin.nouns import RecordError  # noqa: PLC0415
    from proxy.store.errors import BadUrl, StoreError, UnusableDatabase  # noqa: PLC0415

    try:
        yield
    except BadUrl as error:
        raise DataError(f"the database cannot be named so: {error}") from None
    except (ArchiveError, RecordError, UnusableDatabase) as error:
        raise DataError(str(error)) from None
    except StoreError as error:
        raise DataError(f"the database: {error}") from None
    except DBAPIError as error:
        raise DataError(f"the database: {str(error.orig).splitlines()[0]}") from None
    except SqliteError as error:
        raise DataError(f"the database: {error}") from None
    except BrokenPipeError:
        raise DataError("nobody reads what is written") from None
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from None
