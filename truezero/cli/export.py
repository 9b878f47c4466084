"""`truezero export`: rollouts as JSON lines from a service, or an archive from the database.

An archive is read from the database directly; no service is needed, and no token protects it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from truezero.cli import gone
from truezero.cli.archives import counting, counts, readable_archives
from truezero.cli.data import data_errors, say
from truezero.cli.options import (
    FILE,
    connected,
    database,
    database_options,
    fail,
    progress,
    service_options,
)
from truezero.printable import plural
from truezero.whole_file import whole


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
        with data_errors():
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
    from proxy.features.exports import archive  # noqa: PLC0415

    flawed = archive.FlawedRecords()
    with (
        readable_archives(),
        progress("exporting") as show,
        archive.export_records(url, batch=batch) as records,
    ):
        count = _write(counting(flawed.passing(records), show), out)
    say(f"exported {counts(count)}")
    if flawed.count:
        first = ", ".join(flawed.first) + (", …" if flawed.count > len(flawed.first) else "")
        refused = plural(flawed.count, "record")
        say(f"an import of this archive will fail: it refuses {refused}: {first}")


def _write(records: Iterator[Any], out: Path | None) -> Counter[str]:
    from proxy.features.exports import archive  # noqa: PLC0415

    if out is None:
        return archive.write(records, sys.stdout.buffer)
    return archive.write_file(records, out)
