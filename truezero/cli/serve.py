"""`truezero serve` and `truezero token`: start the service, and sign in to it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from truezero.cli.options import (
    database_options,
    fail,
    server,
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
        if token_made:
            service.forget_admin_token(os.environ)
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
        from proxy.store.admin.location import denial  # noqa: PLC0415

        file = Path(error.filename or ".").absolute()
        fail(
            f"cannot make the admin token in {file.parent}: {denial(file) or error.strerror}; set "
            "TRUEZERO_ADMIN_TOKEN, or TRUEZERO_ADMIN_TOKEN_FILE to a file elsewhere",
            1,
        )
