"""`truezero db`: upgrades and backs up the service's database, directly.

No service is needed, and no token protects it.
"""

from __future__ import annotations

from pathlib import Path

import click

from truezero.cli import gone
from truezero.cli.data import data_errors, readable_errors, say
from truezero.cli.options import (
    FILE,
    database,
    database_options,
    fail,
    progress,
    server,
    set_environment,
    settings,
)


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
    with data_errors():
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
            say(f"{path} holds calls not yet written to the database: back it up as well")
    say(f"{file}: integrity check passed, {size / 1e6:,.1f} MB. It contains secrets: protect it")
