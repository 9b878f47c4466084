"""`truezero prune`: deletes what is old from the database, directly.

No service is needed, and no token protects it.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from truezero.cli.data import DataError, data_errors, readable_errors, say
from truezero.cli.options import database, database_options, progress
from truezero.printable import plural


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
    with data_errors():
        _prune(database(database_url, config), older_than, dry_run=dry_run)


def _prune(url: str, older_than: str, *, dry_run: bool) -> None:
    """Delete batches with no activity for some time; safe while services write.

    Arguments:
        older_than: a number of days or weeks: ``90d``, ``12w``.

    Raises:
        DataError: ``older_than`` is invalid, or the database cannot be written.
    """
    from proxy.features.prune import deletion  # noqa: PLC0415
    from proxy.store.database import Database  # noqa: PLC0415

    before = time.time() - _seconds(older_than)
    with readable_errors(), progress("deleting") as show:
        database = Database(url)
        try:
            database.require()
            database.prepare()
            done = deletion.prune(
                database, before=before, dry_run=dry_run, progress=lambda d: show(_deleted(d))
            )
        finally:
            database.close()
    since = datetime.fromtimestamp(done.before, UTC)
    verb = "would delete" if dry_run else "deleted"
    say(f"{verb} {_deleted(done)}, all from before {since:%Y-%m-%d %H:%M} UTC")
    if done.partitions:
        say(f"{'would drop' if dry_run else 'dropped'} {', '.join(done.partitions)}")


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
