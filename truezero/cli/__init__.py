"""The command `truezero`: reads the command line, calls one thing, prints what it says.

It judges nothing itself, and loads the service only where a command runs it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import truezero  # its Client and ServiceError are loaded where they are first used

if TYPE_CHECKING:
    from truezero import models
    from truezero.runner.run import Report

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
    from proxy.server.startup import tune_process  # noqa: PLC0415  before the service is loaded

    tune_process()
    service = _service()
    try:
        service.serve(_settings())
    except service.StartError as error:
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
    from truezero.cli import output  # noqa: PLC0415  tables are only loaded where they are printed

    with _asking(url, token) as client:
        found = client.verdict(rollout, settled=wait, policy=policy)
        calls = client.exchanges(rollout)
    if as_json:
        typer.echo(json.dumps(found.model_dump(), indent=2))
    else:
        output.print_verdict(found, calls)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The agent, as it is called without us.")
    ],
    batch: Annotated[str | None, typer.Option(help="The batch it belongs to.")] = None,
    task: Annotated[str | None, typer.Option(help="What it is to do.")] = None,
    rollout_id: Annotated[
        str | None, typer.Option("--id", help="The rollout's id; by default one is made.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model under test, where others are called too.")
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop the agent once it is doomed.")
    ] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Run any agent and say whether its model was reached.

    Uses the service at TRUEZERO_URL, or one of its own where none answers. The agent's
    input and output are untouched; the verdict goes to standard error.

    Exit code: the agent's own where the verdict is healthy or it never began (127: no such
    command); 75 a transient failure of the provider, 76 a permanent one or an open breaker,
    77 a suspected one, 78 where evidence is missing; 1 where the service failed.
    """
    from truezero.runner import run as running  # noqa: PLC0415
    from truezero.runner.embedded import EmbeddedStartError  # noqa: PLC0415

    facts = {"batch": batch, "task": task, "id": rollout_id, "model": model}
    job = running.job_of(command, fail_fast=fail_fast, **facts)
    try:
        with running.service(url, token, running.say) as client:
            done = running.run(job, client)
    except (truezero.ServiceError, EmbeddedStartError) as error:
        _fail(str(error), 1)
    if as_json:
        typer.echo(json.dumps(running.record(done)), err=True)
    else:
        running.say(_told(done))
    raise typer.Exit(done.exit_code)


def _told(done: Report) -> str:
    from truezero.cli import output  # noqa: PLC0415

    if done.verdict is None:
        return f"{done.rollout_id}: {done.skipped}"
    stopped = "; stopped, for it was doomed" if done.ended.doomed else ""
    error = None if done.result is None else done.result.error
    return output.verdict_line(done.verdict, error) + stopped


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def drill(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The agent, as it is called without us.")
    ],
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", help="Only this failure; may be repeated.  [default: all]"),
    ] = None,
    at_call: Annotated[
        int | None, typer.Option("--at-call", min=1, help="The first call that fails.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model under test.")] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Stop an agent after so many seconds.")
    ] = 120.0,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Run an agent once for each failure a provider can have, and tell what it made of it.

    The failures are played by the proxy, in the provider's own words; no provider is asked,
    but for calls before the failing one (mid_run_quota). What the agent prints is counted,
    not shown.
    """
    from rich.console import Console  # noqa: PLC0415

    from truezero.runner import drills  # noqa: PLC0415
    from truezero.runner import run as running  # noqa: PLC0415
    from truezero.runner.embedded import EmbeddedStartError  # noqa: PLC0415

    progress = Console(stderr=True)
    try:
        plan = drills.Plan(
            command=running.job_of(command).command,
            drills=drills.chosen(fault),
            model=model,
            at_call=at_call,
            timeout_s=timeout_s,
        )
        with running.service(url, token, running.say) as client, progress.status("drilling"):
            done = drills.run(plan, client)
    except drills.DrillError as error:
        _fail(str(error), error.code)
    except (truezero.ServiceError, EmbeddedStartError) as error:
        _fail(str(error), 1)
    if as_json:
        typer.echo(json.dumps([drills.record(one) for one in done], indent=2))
    else:
        drills.print_table(done, Console())


@app.command()
def doctor(
    upstream: Annotated[
        list[str] | None,
        typer.Option("--upstream", help="Look at this one too; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="UPSTREAM/MODEL", help="Is it there? May be repeated."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask each named model for a word; costs a few tokens.")
    ] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """See whether the proxy can be reached from here, keys are alive and models are there.

    Exit code 1 where anything is wrong; each line says what to do.
    """
    from dataclasses import asdict  # noqa: PLC0415

    from truezero.runner import doctor as practice  # noqa: PLC0415

    try:
        wanted = practice.wanted(upstream or (), model or (), ask=ask)
    except ValueError as error:
        _fail(str(error), 2)
    found = []
    with truezero.Client(url, token) as client:
        for check in practice.examine(client, wanted, os.environ):
            found.append(check)
            if not as_json:
                typer.echo(f"{check.health:7}  {check.name}: {check.told}")
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in found], indent=2))
    raise typer.Exit(1 if practice.failed(found) else 0)


@app.command()
def batch(
    name: Annotated[str, typer.Argument(metavar="ID", help="The batch.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print what a batch stands on: scores, coverage, causes, what to run again."""
    from truezero.cli import output  # noqa: PLC0415

    with _asking(url, token) as client:
        summary, breaker = client.summary(name), client.breaker(name)
    if as_json:
        typer.echo(summary.model_dump_json(indent=2))
    else:
        output.print_batch(summary, breaker)


@app.command()
def check(
    name: Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Print each thing that keeps a batch from being a valid measurement; exit 1 if any."""
    from truezero.cli import output  # noqa: PLC0415

    with _asking(url, token) as client:
        found = client.check(name)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        output.print_check(found)
    raise typer.Exit(0 if found.valid else 1)


@app.command()
def watch(
    name: Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")],
    url: Url = None,
    token: Token = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line.")] = False,
) -> None:
    """Follow a batch live, until Ctrl-C."""
    with _asking(url, token) as client, suppress(KeyboardInterrupt):
        client.summary(name)  # a batch that does not exist has no events to wait for
        if as_json:
            _print_events(client, name)
        else:
            _show_events(client, name)


def _print_events(client: truezero.Client, batch_name: str) -> None:
    for event in client.events(batch_name):
        typer.echo(json.dumps({"id": event.id, "event": event.kind, **event.data}))
        sys.stdout.flush()


def _show_events(client: truezero.Client, batch_name: str) -> None:
    from truezero.cli import output  # noqa: PLC0415

    def standing() -> tuple[models.BatchSummary, models.Breaker]:
        return client.summary(batch_name), client.breaker(batch_name)

    with output.live_batch(standing) as follow:
        for event in client.events(batch_name, alive=True):
            follow(event)


@app.command()
def export(
    batch_name: Annotated[
        str | None, typer.Option("--batch", help="Only this batch.  [default: all]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write this file.  [default: standard output]")
    ] = None,
    url: Url = None,
    token: Token = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="From the database: all that `truezero import` takes, verdicts included."
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="With --full: jsonl, or parquet (a folder).")
    ] = "jsonl",
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Write rollouts, outcomes and calls as JSON lines, which `truezero classify` judges again.

    With --full it asks no service: it reads the database as it stands at one moment, also while
    a service writes it, and writes an archive.
    """
    if full:
        _export_all(batch_name, out, form, _database(database_url, config))
        return
    if form != "jsonl" or database_url is not None:
        _fail("--format and --database belong to --full", 2)
    with _asking(url, token) as client:
        lines = client.export(batch=batch_name)
        if out is None:
            for line in lines:
                typer.echo(line)
        else:
            _write(out, lines)


def _export_all(batch_name: str | None, out: Path | None, form: str, url: str) -> None:
    from truezero.cli import data  # noqa: PLC0415

    if form not in data.FORMATS:
        _fail(f"--format: {form!r} is none of {', '.join(data.FORMATS)}", 2)
    with _keeping():
        data.export(url, out, form, batch=batch_name)


@app.command("import")
def import_archive(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="An archive; a folder is Parquet, - standard input."),
    ],
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Add what `truezero export --full` wrote to a database, whole rollouts or none.

    What is there with the same facts stays as it is, so the same again does no harm and goes
    on where it was interrupted. What is there with other facts is refused: exit 1, nothing of it
    changed. It is for whoever may write the database; no service is asked.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _keeping():
        whole = data.take(_database(database_url, config), source)
    raise typer.Exit(0 if whole else 1)


@app.command()
def prune(
    older_than: Annotated[str, typer.Option("--older-than", help="Days or weeks: 90d, 12w.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")
    ] = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Forget rollouts of whole batches that nothing has touched for so long, while services write.

    On PostgreSQL months go as a whole, so that up to a month more is kept.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _keeping():
        data.prune(_database(database_url, config), older_than, dry_run=dry_run)


def _write(out: Path, lines: Iterable[str]) -> None:
    """The whole export or none: a file that stops in the middle would be believed."""
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as written:
            written.writelines(line + "\n" for line in lines)
        part.replace(out)
    except OSError as error:
        _fail(f"{out} cannot be written: {error.strerror}", 1)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _asking(url: str | None, token: str | None) -> Iterator[truezero.Client]:
    """A service of our version; where it fails us, one sentence and exit 1."""
    try:
        with truezero.Client(url, token) as client:
            client.greet()
            yield client
    except truezero.ServiceError as error:
        _fail(str(error), 1)


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
    from truezero.runner import demo as story  # noqa: PLC0415
    from truezero.runner.embedded import EmbeddedStartError  # noqa: PLC0415

    try:
        story.run(keep=keep, as_json=as_json)
    except EmbeddedStartError as error:
        _fail(str(error), 1)


@database.command()
def upgrade(database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Bring the database's schema up to date, as `serve` does at its start."""
    _as_environment({"database_url": database_url, "config": config})
    service = _service()
    try:
        before, now = service.upgrade(_settings())
    except service.StartError as error:
        _fail(str(error), 1)
    typer.echo(f"schema {now}" if before == now else f"schema {before or 'empty'} → {now}")


@database.command()
def copy(
    source: Annotated[str, typer.Option("--from", help="SQLite file or SQLAlchemy URL.")],
    target: Annotated[str, typer.Option("--to", help="The same; empty, or half of this copy.")],
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Compare them, and write nothing.")
    ] = False,
) -> None:
    """Copy a whole database, secrets included, and compare the two; exit 1 where they differ.

    Interrupted, it goes on where it was when it is called again; until it has ended, no service
    starts on the target. The source is read as it stands at one moment: stop its service, or
    copy a backup, if nothing is to be missed.
    """
    _service()
    from truezero.cli import data  # noqa: PLC0415

    with _keeping():
        same = data.copy(source, target, verify_only=verify_only)
    raise typer.Exit(0 if same else 1)


@database.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The new file.")],
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Write an SQLite database into a new file while the service runs, and check that it is sound.

    To restore, stop the service and start it on the file. PostgreSQL: pg_dump.
    """
    from truezero.cli import data  # noqa: PLC0415

    with _keeping():
        data.back_up(_database(database_url, config), file)


@contextmanager
def _keeping() -> Iterator[None]:
    from truezero.cli.data import DataError  # noqa: PLC0415

    try:
        yield
    except DataError as error:
        _fail(str(error), 1)


def _database(url: str | None, config: Path | None) -> str:
    """The database that flags, environment and file name, in that order."""
    _as_environment({"database_url": url, "config": config})
    _service()
    named: str = _settings().database_url
    return named


def main() -> None:
    """The entry point of the command."""
    app()


def _as_environment(flags: dict[str, Any]) -> None:
    """Flags become variables, so that worker processes read the same settings."""
    for name, value in flags.items():
        if value is not None:
            os.environ[f"TRUEZERO_{name.upper()}"] = str(value)


def _service() -> Any:
    """The service's start, where it is installed."""
    try:
        from proxy.server import serve  # noqa: PLC0415  the light install has no service
    except ModuleNotFoundError as error:
        _fail(
            f"the service is not installed ({error.name} is missing): "
            "pip install 'truezero[server]'",
            1,
        )
    return serve


def _settings() -> Any:
    from proxy.settings import SettingsError, load  # noqa: PLC0415

    try:
        return load({}, os.environ)
    except SettingsError as error:
        _fail(str(error), 2)


def _fail(sentence: str, code: int) -> NoReturn:
    typer.echo(f"truezero: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
