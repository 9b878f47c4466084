"""Options and first steps that several commands share, and their progress."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click
from click.exceptions import Exit

import truezero  # its Client and ServiceError are loaded where they are first used
from truezero.printable import visible, visible_lines

if TYPE_CHECKING:
    from truezero.cli.reader import Reader

Function = TypeVar("Function", bound=Callable[..., Any])
MOST = 10  # lines of a list, unless all are asked for

FILE = click.Path(path_type=Path)  # whose existence is the command's to check


def _shown_token(context: click.Context, _: click.Parameter, given: str | None) -> str | None:
    """Return the token that was given, else the one that a service here keeps."""
    from truezero.cli.kept_token import kept_token  # noqa: PLC0415  most have one, or need none

    return given or kept_token(context.params.get("url"), os.environ)


_url_option = click.option(
    "--url", envvar="TRUEZERO_URL", show_envvar=True, is_eager=True, help="Address of the service."
)
_token_option = click.option(
    "--token",
    envvar="TRUEZERO_ADMIN_TOKEN",
    show_envvar=True,
    callback=_shown_token,
    help="Admin token of the service.  [default: what `truezero token` prints here]",
)
_database_option = click.option(
    "--database",
    "database_url",
    help="SQLite file or SQLAlchemy URL.  [default: truezero.db]",
)
_config_option = click.option(
    "--config",
    type=FILE,
    help="Settings file.  [default: truezero.toml, if it exists]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
csv_option = click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, with times in ISO 8601."
)
batch_argument = click.argument("name", metavar="BATCH")
agent_argument = click.argument("command", metavar="-- CMD...", nargs=-1, required=True)
agent_option = click.option(
    "--agent",
    metavar="NAME",
    help="Known agent that CMD starts, such as codex.  [default: the one that CMD names]",
)
FOR_AGENT = {"allow_interspersed_args": False}  # what follows CMD is its own


def service_options(function: Function) -> Function:
    """Add the options ``--url`` and ``--token``."""
    return _url_option(_token_option(function))


def database_options(function: Function) -> Function:
    """Add the options ``--database`` and ``--config``."""
    return _database_option(_config_option(function))


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


def _failure(_error: truezero.ServiceError) -> int:
    """Return the exit code of most commands for an error of the service."""
    return 1


@contextmanager
def reading(
    url: str | None,
    token: str | None,
    *,
    exit_code: Callable[[truezero.ServiceError], int] = _failure,
) -> Iterator[Reader | truezero.Client]:
    """Connect as ``connected`` does, by what loads fast if the service can be reached so.

    Arguments:
        exit_code: returns that of an error of the service.
    """
    from truezero.cli.reader import Reader, is_direct  # noqa: PLC0415
    from truezero.sdk.errors import ServiceError  # noqa: PLC0415

    try:
        with Reader(url, token) if is_direct(url) else truezero.Client(url, token) as service:
            service.greet()
            yield service
    except ServiceError as error:
        fail(str(error), exit_code(error))


def print_page(url: str, *path: str, **query: Any) -> None:
    """Print the address of a page of the dashboard, below what a command has printed.

    It goes to standard error where standard output is a pipe or a file: those get rows alone.

    Arguments:
        url: the service's address; a user in it is left out.
        path: the parts of the page's path below ``/ui``; none of the list of batches.
        query: filters of the page; None and an empty text are none.
    """
    parts = urlsplit(url)
    place = "/".join(("/ui", *(quote(part, safe="") for part in path))) if path else "/"
    chosen = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value not in (None, "", ())
    }
    filters = urlencode(chosen, doseq=True)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    address = f"{base}{place}{'?' if filters else ''}{filters}"
    click.echo(address, err=not sys.stdout.isatty())


def print_json(value: object) -> None:
    """Print records or models of the REST contract as JSON."""
    click.echo(json.dumps(value, indent=2, default=lambda model: model.model_dump(mode="json")))


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as CSV, with the values under the names of the columns."""
    from truezero.csv_rows import csv_head, csv_lines  # noqa: PLC0415  few commands print it

    click.echo(csv_head(columns, end="\n") + csv_lines(columns, rows, end="\n"), nl=False)


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
    from proxy.settings import SettingsError, load  # noqa: PLC0415

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
    click.echo(f"truezero: {visible_lines(sentence)}", file=sys.stderr)
    raise Exit(code)


def write_file(file: Path, content: bytes) -> None:
    """Write a file; print an error and exit with 1 if it cannot be written."""
    try:
        file.write_bytes(content)
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}", 1)


# --- progress ---
#
# Of what takes longer than two seconds: live on a terminal, else a line now and then.


FIRST_S = 2.0
EACH_S = 30.0


@contextmanager
def progress(
    doing: str, *, first_s: float | None = None, each_s: float = EACH_S, out: TextIO | None = None
) -> Iterator[Callable[[str], None]]:
    """Show what is being done, on standard error; yields what updates it.

    Arguments:
        first_s, each_s: where nobody watches: seconds until the first line (by default
            ``FIRST_S``), and between lines.
    """
    stream = sys.stderr if out is None else out
    if stream.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415

        with Console(file=stream).status(escape(visible(doing))) as status:
            yield lambda text: status.update(escape(visible(text)))
        return
    lines = _PipedProgress(doing, stream, FIRST_S if first_s is None else first_s, each_s)
    lines.start()
    try:
        yield lines.update
    finally:
        lines.stop()


class _PipedProgress:
    """Writes the latest text as a line, in a thread: the work may be one long call."""

    def __init__(self, text: str, out: TextIO, first_s: float, each_s: float) -> None:
        self._text = text
        self._out = out
        self._first_s, self._each_s = first_s, each_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start = self._thread.start

    def update(self, text: str) -> None:
        """Take the next text."""
        self._text = text

    def stop(self) -> None:
        """Write no more."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._done.wait(wait_s):
            self._out.write(f"truezero: {visible(self._text)}\n")
            self._out.flush()
            wait_s = self._each_s
