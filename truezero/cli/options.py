"""Options and first steps that several commands share, their progress, and `--version`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

import truezero  # its Client and ServiceError are loaded where they are first used
from truezero.printable import visible, visible_lines

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
    typer.echo(f"truezero: {visible_lines(sentence)}", file=sys.stderr)
    raise typer.Exit(code)


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
    doing: str, *, first_s: float = FIRST_S, each_s: float = EACH_S, out: TextIO | None = None
) -> Iterator[Callable[[str], None]]:
    """Show what is being done, on standard error; yields what updates it.

    Arguments:
        first_s, each_s: where nobody watches: seconds until the first line, and between lines.
    """
    stream = sys.stderr if out is None else out
    if stream.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415

        with Console(file=stream).status(escape(visible(doing))) as status:
            yield lambda text: status.update(escape(visible(text)))
        return
    lines = _PipedProgress(doing, stream, first_s, each_s)
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


# --- version ---
#
# Release, commit, whether the hot path is compiled, schema.


_COMMIT = "commit.txt"  # beside the package's __init__, written by setup.py into what it builds
_PACKAGE = Path(__file__).resolve().parent.parent
_PATIENCE_S = 5


def version_line() -> str:
    """Return the release, and in brackets what is known of this copy of it."""
    noted = commit()
    known = (
        None if noted is None else f"commit {noted[:12]}",
        "compiled" if compiled() else "plain Python",
        f"schema {schema()}",
    )
    return f"truezero {metadata.version('truezero')} ({', '.join(filter(None, known))})"


def commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit that a wheel was built from, or that a checkout is at."""
    file = package / _COMMIT
    if file.is_file():
        return file.read_text("ascii").strip() or None
    git = shutil.which("git")
    if git is None or not (package.parent / ".git").exists():
        return None
    command = [git, "-C", str(package.parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(  # noqa: S603  a fixed command
            command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def compiled() -> bool:
    """Return True if the hot path is compiled to C (setup.py)."""
    found = util.find_spec("proxy.relay.relay")
    return found is not None and not str(found.origin).endswith(".py")


def schema() -> str:
    """Return the schema that this release brings a database to."""
    found = util.find_spec("proxy")
    assert found is not None and found.origin is not None, "every wheel holds it"
    versions = Path(found.origin).parent / "store" / "migrations" / "versions"
    return max(file.name.partition("_")[0] for file in versions.glob("[0-9]*_*.py"))
