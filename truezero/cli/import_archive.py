"""`truezero import`: brings an archive into the database, directly.

No service is needed, and no token protects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from truezero.cli.archives import counting, counts, readable_archives, reading
from truezero.cli.data import data_errors, say
from truezero.cli.options import database, database_options, progress
from truezero.printable import plural

# Records that are called otherwise where they are rejected.
_REJECTED: Mapping[str, tuple[str, str]] = {
    "exchange": ("call without a rollout", "calls without a rollout"),
}


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
    with data_errors():
        complete = _import(database(database_url, config), source)
    raise Exit(0 if complete else 1)


def _import(url: str, source: str) -> bool:
    """Import an archive into a database; return False if a record was rejected.

    Arguments:
        source: a file, or ``-`` for standard input.

    Raises:
        DataError: the archive cannot be read or the database cannot be written.
    """
    from proxy.features.exports import archive  # noqa: PLC0415

    with readable_archives(), progress("importing") as show, reading(source) as records:
        taken = archive.import_records(url, counting(records, show))
    say(f"imported {counts(taken.added)}; already present: {counts(taken.unchanged)}")
    _print_rejections(taken)
    return not taken.refused


def _print_rejections(taken: Any) -> None:
    from proxy.features.exports.rows import RECORD_TYPES  # noqa: PLC0415

    for sentence in taken.conflicts:
        say(sentence)
    if taken.refused:
        counted = [(taken.refusals[name], name) for name in RECORD_TYPES]
        rejected = ", ".join(
            plural(count, *_REJECTED.get(name, (name,))) for count, name in counted if count
        )
        say(f"rejected and left unchanged: {rejected}")
