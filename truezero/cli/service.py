"""Commands of the operator: start the service, move and maintain its data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 picks a free one.  [default: 8383]")
@click.option(
    "--certfile", metavar="FILE", help="Speak TLS only, by this certificate and chain (PEM)."
)
@click.option("--keyfile", metavar="FILE", help="The certificate's private key (PEM).")
@click.option("--workers", type=int, help="Number of worker processes.  [default: 1]")
@database_options
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
@click.option("--make-token", is_flag=True, help="Make an admin token if none is set, and keep it.")
def serve(
    *,
    host: str | None,
    port: int | None,
    certfile: str | None,
    keyfile: str | None,
    workers: int | None,
    database_url: str | None,
    config: Path | None,
    log_level: str | None,
    make_token: bool,
) -> None:
    """Run the proxy and its REST API.

    Every setting also has an environment variable TRUEZERO_<NAME> and a key in truezero.toml.
    Flags override variables; variables override the file.
    """
    set_environment(
        {
            "host": host,
            "port": port,
            "certfile": certfile,
            "keyfile": keyfile,
            "workers": workers,
            "database_url": database_url,
            "log_level": log_level,
            "config": config,
        }
    )
    from proxy.server.background import tune_process  # noqa: PLC0415  before the service is loaded

    tune_process()
    service = server()
    token_made = _find_token(make=True) if make_token else None
    try:
        service.serve(settings(), token_made=token_made)
    except service.StartError as error:
        fail(str(error), error.exit_code)


@click.command()
@click.option("--link", is_flag=True, help="Print a link that signs in once, within ten minutes.")
@click.option("--make", is_flag=True, help="Make a token if none is set, and keep it.")
@click.option("--port", type=int, help="The service's port, for --link.  [default: 8383]")
@database_options
def token(
    *,
    link: bool,
    make: bool,
    port: int | None,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Print the service's admin token, or a sign-in link to its dashboard.

    Run it where the service runs, with its settings: the token is the one that is set, or that
    `truezero serve --make-token` keeps beside the database.
    """
    set_environment({"port": port, "database_url": database_url, "config": config})
    service = server()
    _find_token(make=make)
    found = settings()
    if found.admin_token is None:
        fail("no admin token is set, and `truezero serve --make-token` has made none here", 1)
    try:
        click.echo(service.invite(found) if link else found.admin_token.get_secret_value())
    except service.StartError as error:
        fail(str(error), 1)


def _find_token(*, make: bool) -> bool | None:
    """Export where the admin token is kept; return whether it was made just now."""
    from proxy.server.serve import find_admin_token  # noqa: PLC0415
    from proxy.settings import SettingsError  # noqa: PLC0415

    try:
        return find_admin_token(os.environ, make=make)
    except SettingsError as error:
        fail(str(error), 2)
    except OSError as error:
        folder = Path(error.filename or ".").absolute().parent
        fail(
            f"cannot make the admin token in {folder}: {error.strerror}; set TRUEZERO_ADMIN_TOKEN, "
            "or TRUEZERO_ADMIN_TOKEN_FILE to a file elsewhere",
            1,
        )


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
        _export_archive(batch_name, out, database(database_url, config))
        return
    if database_url is not None:
        fail("--database requires --full", 2)
    with connected(url, token) as client:
        lines = client.export(batch=batch_name)
        if out is None:
            for line in lines:
                click.echo(line)
        else:
            _write(out, lines)


def _export_archive(batch_name: str | None, out: Path | None, url: str) -> None:
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        data.export(url, out, batch=batch_name)


def _write(out: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all: a partial export would be mistaken for a whole one."""
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        part.replace(out)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror}", 1)
    finally:
        part.unlink(missing_ok=True)


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
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        complete = data.take(database(database_url, config), source)
    raise Exit(0 if complete else 1)


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
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        data.prune(database(database_url, config), older_than, dry_run=dry_run)


@click.group("db")
def database_group() -> None:
    """Manage the service's database."""


if (_copy := gone.command("db copy")) is not None:
    database_group.add_command(_copy, "copy")


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
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        data.back_up(database(database_url, config), file)


@database_group.command()
@click.option("--verify-only", is_flag=True, help="Only compare; write nothing.")
@database_options
def recount(
    *,
    verify_only: bool,
    database_url: str | None,
    config: Path | None,
) -> None:
    """Recount the stored sums of calls and batches, and correct those that differ.

    Exit code 1 if anything differed. Safe while the service is running.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        right = data.recount(database(database_url, config), verify_only=verify_only)
    raise Exit(0 if right else 1)


@contextmanager
def _data_errors() -> Iterator[None]:
    """Print a ``DataError`` and exit with 1."""
    from truezero.cli.data import DataError  # noqa: PLC0415

    try:
        yield
    except DataError as error:
        fail(str(error), 1)
