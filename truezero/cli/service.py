"""Commands of the operator: start the service, move and maintain its data."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truezero.cli.options import (
    AsJson,
    Config,
    DatabaseUrl,
    Token,
    Url,
    connected,
    database,
    fail,
    progress,
    server,
    set_environment,
    settings,
)

if TYPE_CHECKING:
    from truezero import models


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 picks a free one.  [default: 8383]")
    ] = None,
    certfile: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Speak TLS only, by this certificate and chain (PEM)."),
    ] = None,
    keyfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate's private key (PEM).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of worker processes.  [default: 1]")
    ] = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.  [default: info]")
    ] = None,
    make_token: Annotated[
        bool,
        typer.Option("--make-token", help="Make an admin token if none is set, and keep it."),
    ] = False,
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


def token(
    link: Annotated[
        bool, typer.Option("--link", help="Print a link that signs in once, within ten minutes.")
    ] = False,
    make: Annotated[
        bool, typer.Option("--make", help="Make a token if none is set, and keep it.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(help="The service's port, for --link.  [default: 8383]")
    ] = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
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
        typer.echo(service.invite(found) if link else found.admin_token.get_secret_value())
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


_DEGRADED, _DOWN = 75, 76  # as `truezero run` exits: transient, permanent
_EACH_S = 5.0


def status(
    upstream: Annotated[str | None, typer.Option(help="Only this upstream.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and print each change of a word.")
    ] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print how each upstream, model and key is now, in a word with its evidence.

    Exit code: 0 if none fails, 75 if one is degraded, 76 if one is down. With --watch, which ends
    when it is interrupted, those of the last look.
    """
    from truezero.cli import output  # noqa: PLC0415

    with connected(url, token) as client:
        report = client.status()
        lanes = _chosen(report.items, upstream, model)
        if as_json:
            shown = report.model_copy(update={"items": lanes})
            typer.echo(json.dumps(shown.model_dump(mode="json"), indent=2))
        else:
            output.print_status(lanes)
        with suppress(KeyboardInterrupt):
            while watch:
                time.sleep(_EACH_S)
                known = {output.lane_name(lane): lane.word for lane in lanes}
                lanes = _chosen(client.status().items, upstream, model)
                for lane in lanes:
                    if known.get(output.lane_name(lane), "unknown") != lane.word:
                        typer.echo(output.lane_line(lane))
    words = {lane.word for lane in lanes}
    raise typer.Exit(_DOWN if "down" in words else _DEGRADED if "degraded" in words else 0)


def _chosen(
    lanes: Iterable[models.LaneStatus], upstream: str | None, model: str | None
) -> list[models.LaneStatus]:
    return [
        lane for lane in lanes if upstream in (None, lane.upstream) and model in (None, lane.model)
    ]


def export(
    batch_name: Annotated[
        str | None, typer.Option("--batch", help="Only this batch.  [default: all]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file.  [default: standard output]")
    ] = None,
    url: Url = None,
    token: Token = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Read the database and write an archive for `truezero import`."
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="With --full: jsonl, or parquet (a folder).")
    ] = "jsonl",
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Export rollouts, outcomes and calls as JSON lines, the input of `truezero classify`.

    With --full, reads a snapshot of the database instead of calling the service, and writes
    an archive that includes verdicts. Safe while the service is running.
    """
    if full:
        _export_archive(batch_name, out, form, database(database_url, config))
        return
    if form != "jsonl" or database_url is not None:
        fail("--format and --database require --full", 2)
    with connected(url, token) as client:
        lines = client.export(batch=batch_name)
        if out is None:
            for line in lines:
                typer.echo(line)
        else:
            _write(out, lines)


def _export_archive(batch_name: str | None, out: Path | None, form: str, url: str) -> None:
    from truezero.cli import data  # noqa: PLC0415

    if form not in data.FORMATS:
        fail(f"--format: {form!r} is not one of {', '.join(data.FORMATS)}", 2)
    with _data_errors():
        data.export(url, out, form, batch=batch_name)


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


def import_archive(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="JSON lines, a Parquet folder, or - for standard input."
        ),
    ],
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Import an archive written by `truezero export --full` into a database.

    Each rollout is imported whole or not at all. Rollouts that already exist with the same
    content are skipped, so an interrupted import can be repeated; rollouts that exist with
    different content are rejected and left unchanged, and the exit code is 1. Writes to the
    database directly; no service is needed.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        complete = data.take(database(database_url, config), source)
    raise typer.Exit(0 if complete else 1)


def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", help="Age in days or weeks: 90d, 12w.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted and change nothing.")
    ] = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Delete batches with no activity for the given period. Safe while the service is running.

    On PostgreSQL whole months are dropped, so up to one month more is kept.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        data.prune(database(database_url, config), older_than, dry_run=dry_run)


def upgrade(database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Upgrade the database schema, as `truezero serve` does on start."""
    set_environment({"database_url": database_url, "config": config})
    service = server()
    try:
        with progress("upgrading the schema"):
            before, now = service.upgrade(settings())
    except service.StartError as error:
        fail(str(error), 1)
    typer.echo(f"schema {now}" if before == now else f"schema {before or 'empty'} → {now}")


def copy(
    source: Annotated[str, typer.Option("--from", help="SQLite file or SQLAlchemy URL.")],
    target: Annotated[
        str, typer.Option("--to", help="Target; empty, or an interrupted copy of the source.")
    ],
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Only compare; write nothing.")
    ] = False,
) -> None:
    """Copy a whole database, secrets included, and verify the copy; exit code 1 if they differ.

    Repeat the command to resume an interrupted copy; the service refuses to start on an
    unfinished one. The source is read as a snapshot: stop its service first, or copy a
    backup, if no later writes may be missed.
    """
    server()
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        same = data.copy(source, target, verify_only=verify_only)
    raise typer.Exit(0 if same else 1)


def backup(
    file: Annotated[Path, typer.Argument(help="File to create.")],
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Back up an SQLite database while the service runs, and check the backup's integrity.

    To restore, stop the service and start it on the file. For PostgreSQL use pg_dump.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        data.back_up(database(database_url, config), file)


def recount(
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Only compare; write nothing.")
    ] = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Recount the stored sums of calls and batches, and correct those that differ.

    Exit code 1 if anything differed. Safe while the service is running.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _data_errors():
        right = data.recount(database(database_url, config), verify_only=verify_only)
    raise typer.Exit(0 if right else 1)


@contextmanager
def _data_errors() -> Iterator[None]:
    """Print a ``DataError`` and exit with 1."""
    from truezero.cli.data import DataError  # noqa: PLC0415

    try:
        yield
    except DataError as error:
        fail(str(error), 1)
