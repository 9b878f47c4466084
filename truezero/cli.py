"""The command `truezero`: reads the command line, calls one thing, prints what it says.

It judges nothing itself, and loads the service only where a command runs it.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from truezero.client import Client, ServiceError

app = typer.Typer(
    name="truezero",
    help="Is that zero true? A proxy on the wire tells an agent's failure from a provider's.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
database = typer.Typer(help="The service's database.", no_args_is_help=True)
app.add_typer(database, name="db")

Url = Annotated[
    str | None,
    typer.Option("--url", help="The service to ask.", envvar="TRUEZERO_URL", show_envvar=True),
]
Token = Annotated[
    str | None,
    typer.Option("--token", help="Its admin token.", envvar="TRUEZERO_ADMIN_TOKEN"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database", help="SQLite file or SQLAlchemy URL.  [default: truezero.db]"),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file.  [default: truezero.toml, if there is one]"),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"truezero {metadata.version('truezero')}")
        raise typer.Exit


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one.  [default: 8383]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port.  [default: 1]")
    ] = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.  [default: info]")
    ] = None,
) -> None:
    """Run the proxy: agents point their base_url at it, runners ask it for verdicts.

    Every setting also has a variable TRUEZERO_<NAME> and a key in truezero.toml; a flag
    beats the variable, which beats the file.
    """
    flags = {
        "host": host,
        "port": port,
        "workers": workers,
        "database_url": database_url,
        "log_level": log_level,
        "config": config,
    }
    _as_environment(flags)
    service = _service()
    try:
        service.app.serve(_settings())
    except service.app.StartError as error:
        _fail(str(error), 1)


@app.command()
def verdict(
    rollout: Annotated[str, typer.Argument(metavar="ID", help="The rollout to judge.")],
    url: Url = None,
    token: Token = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait up to 10 s for calls in flight.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="evidence or seed; without storing it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a rollout's verdict and what proves it."""
    from truezero import report  # noqa: PLC0415  tables are only loaded where they are printed

    try:
        with Client(url, token) as client:
            found = client.verdict(rollout, settled=wait, policy=policy)
            calls = client.exchanges(rollout)
    except ServiceError as error:
        _fail(str(error), 1)
    if as_json:
        typer.echo(json.dumps(found.model_dump(), indent=2))
    else:
        report.print_verdict(found, calls)


@app.command()
def classify(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines; - reads standard input.")
    ],
    policy: Annotated[str, typer.Option(help="evidence or seed.")] = "evidence",
) -> None:
    """Judge an export offline: one verdict a line, and no service is asked.

    A line is an exchange as `GET /rollouts/{id}/exchanges` gives it, or an outcome
    (`"record": "outcome"`), or a rollout's facts (`"record": "rollout"`).
    """
    from classifier.__main__ import main as judge  # noqa: PLC0415  only this command judges

    raise typer.Exit(judge([file, "--policy", policy]))


@app.command()
def demo(
    keep: Annotated[
        Path | None, typer.Option(help="Keep the demo's database in this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a batch of agents against a provider that fails in known ways, and judge it.

    A real proxy process, a provider of our own over a real socket, no key and no network.
    """
    _service()
    from truezero import demo as story  # noqa: PLC0415

    try:
        story.run(keep=keep, as_json=as_json)
    except story.DemoError as error:
        _fail(str(error), 1)


@database.command()
def upgrade(database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Bring the database's schema up to date (SQLite does it by itself at start)."""
    _as_environment({"database_url": database_url, "config": config})
    service = _service()
    try:
        before, now = service.app.upgrade(_settings())
    except service.app.StartError as error:
        _fail(str(error), 1)
    typer.echo(f"schema {now}" if before == now else f"schema {before or 'empty'} → {now}")


def main() -> None:
    """The entry point of the command."""
    app()


def _as_environment(flags: dict[str, Any]) -> None:
    """Flags become variables, so that worker processes read the same settings."""
    for name, value in flags.items():
        if value is not None:
            os.environ[f"TRUEZERO_{name.upper()}"] = str(value)


def _service() -> Any:
    """The service's package, where it is installed."""
    try:
        import proxy.app  # noqa: PLC0415  the light install has no service
    except ModuleNotFoundError as error:
        _fail(
            f"the service is not installed ({error.name} is missing): "
            "pip install 'truezero[server]'",
            1,
        )
    return proxy


def _settings() -> Any:
    from proxy.settings import SettingsError, load  # noqa: PLC0415

    try:
        return load({}, os.environ)
    except SettingsError as error:
        _fail(str(error), 2)


def _fail(sentence: str, code: int) -> NoReturn:
    typer.echo(f"truezero: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
