"""Options that several commands share, and the steps each of them begins with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import truezero  # its Client and ServiceError are loaded where they are first used
from truezero.printable import visible_lines

MOST = 10  # lines of a list, unless all are asked for

Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the service.", envvar="TRUEZERO_URL", show_envvar=True),
]
Token = Annotated[
    str | None,
    typer.Option("--token", help="Admin token of the service.", envvar="TRUEZERO_ADMIN_TOKEN"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database", help="SQLite file or SQLAlchemy URL.  [default: truezero.db]"),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file.  [default: truezero.toml, if it exists]"),
]
AgentCommand = Annotated[
    list[str],
    typer.Argument(metavar="-- CMD…", help="The agent's command line, unchanged."),
]


@contextmanager
def connected(
    url: str | None, token: str | None, *, keep_outcomes: bool = True
) -> Iterator[truezero.Client]:
    """Connect to a service of a compatible version; print an error and exit with 1 on failure."""
    try:
        with truezero.Client(url, token, keep_outcomes=keep_outcomes) as client:
            client.greet()
            yield client
    except truezero.ServiceError as error:
        fail(str(error), 1)


def set_environment(flags: Mapping[str, Any]) -> None:
    """Export flags as ``TRUEZERO_…`` variables, so that worker processes read the same settings."""
    for name, value in flags.items():
        if value is not None:
            os.environ[f"TRUEZERO_{name.upper()}"] = str(value)


def server() -> Any:
    """Return the module that starts the service; exit with 1 where it is not installed."""
    try:
        from proxy.server import serve  # noqa: PLC0415  the light install has no service
    except ModuleNotFoundError as error:
        fail(
            f"the service is not installed ({error.name} is missing): "
            "pip install 'truezero[server]'",
            1,
        )
    return serve


def settings() -> Any:
    """Load the service's settings; exit with 2 where they are invalid."""
    from proxy.settings import load  # noqa: PLC0415
    from proxy.settings_sources import SettingsError  # noqa: PLC0415

    try:
        return load({}, os.environ)
    except SettingsError as error:
        fail(str(error), 2)


def database(url: str | None, config: Path | None) -> str:
    """Return the URL of the database: from the flag, the environment or the settings file."""
    set_environment({"database_url": url, "config": config})
    server()
    database_url: str = settings().database_url
    return database_url


def fail(sentence: str, code: int) -> NoReturn:
    """Print an error to standard error and exit with ``code``."""
    typer.echo(f"truezero: {visible_lines(sentence)}", file=sys.stderr)
    raise typer.Exit(code)
