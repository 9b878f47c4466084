"""A temporary service: a process on a free port that lives as long as a `with` block."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from truezero import Client
from truezero.runner.agents import ROLLOUT, ROLLOUT_KEY
from truezero.sdk.errors import UNREACHABLE, ServiceError

_START_S = 120.0  # a start that fails ends by itself; a busy machine takes its time
_POLL_S = 0.02
_LISTENS = re.compile(r"listening on (http://\S+)")
_LOG = "service.log"
_GRACE_S = "2"
# What holds an admin token and providers' keys beside an agent of the same user.
_UNREADABLE = (
    "from truezero.unreadable import make_unreadable; make_unreadable(); "
    "from truezero.__main__ import main; main()"
)


class EmbeddedStartError(Exception):
    """The service did not start; the message says why in one sentence."""


@contextmanager
def service(
    database: Path,
    folder: Path,
    settings: Mapping[str, str],
    *,
    inherited: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[str]:
    """Run a service and yield its URL.

    It runs in a process group of its own, so Ctrl-C does not reach it directly, and no other
    process of its user reads its environment or memory.

    Arguments:
        folder: directory of its log.
        settings: ``TRUEZERO_…`` variables; they override inherited ones.
        inherited: by default this process's environment without any ``TRUEZERO_…``.
        cwd: where it looks for ``truezero.toml``; by default the current directory.

    Raises:
        EmbeddedStartError: the service did not start.
    """
    from proxy.feature import embedded_settings  # noqa: PLC0415  only where one is started

    base = _without_settings() if inherited is None else inherited
    port = str(_free_port())
    environment = {
        **base,
        "TRUEZERO_LOG_LEVEL": "warning",
        "TRUEZERO_PUBLIC_URL": f"http://127.0.0.1:{port}",  # whatever a truezero.toml says
        "TRUEZERO_WORKERS": "1",
        "TRUEZERO_CONTROL_PORT": "0",
        **{f"TRUEZERO_{name.upper()}": value for name, value in embedded_settings().items()},
        **settings,
    }
    command = [sys.executable, "-c", _UNREADABLE, "serve", "--host", "127.0.0.1", "--port", port]
    log = folder / _LOG
    with log.open("wb") as written:
        process = subprocess.Popen(  # noqa: S603  our own command
            [*command, "--database", str(database)],
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            process_group=0,
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(timeout=_START_S)


@contextmanager
def connect_or_start(
    url: str | None,
    token: str | None,
    say: Callable[[str], object] = lambda _line: None,
    *,
    starts: bool = True,
    keep_outcomes: bool = True,
) -> Iterator[Client]:
    """Connect to the service at that address, or start a temporary one if none answers.

    Arguments:
        starts: False never starts one.
        keep_outcomes: as for ``Client``; one that dies with the run is never waited for.

    Raises:
        ServiceError: another program or another version answers there, or none with ``starts``
            False.
        EmbeddedStartError: the temporary service did not start.
    """
    with ExitStack() as opened:
        client = opened.enter_context(Client(url, token, keep_outcomes=keep_outcomes))
        if not _answers(client, required=not starts):
            say(f"no service at {client.url}; starting a temporary one for this run")
            own_url, own_token = opened.enter_context(_own_service())
            client = opened.enter_context(Client(own_url, own_token, keep_outcomes=False))
        yield client


def _answers(client: Client, *, required: bool) -> bool:
    try:
        client.greet()
    except ServiceError as error:
        if required or error.code != UNREACHABLE:
            raise
        return False
    return True


@contextmanager
def _own_service() -> Iterator[tuple[str, str]]:
    """Start a service on a free port with a temporary database; yield its URL and token.

    The token keeps the agent from reporting on itself.
    """
    token = secrets.token_urlsafe(24)
    settings = {"TRUEZERO_ADMIN_TOKEN": token, "TRUEZERO_GRACE_S": _GRACE_S}
    outer = (ROLLOUT, ROLLOUT_KEY)  # of an enclosing run
    inherited = {name: value for name, value in os.environ.items() if name not in outer}
    with tempfile.TemporaryDirectory(prefix="truezero-run-") as folder:
        home = Path(folder)
        with service(home / "run.db", home, settings, inherited=inherited) as url:
            yield url, token


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TRUEZERO_")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        if match := _LISTENS.search(_text(log)):
            return match[1]
        time.sleep(_POLL_S)
    lines = _text(log).strip().splitlines() or ["no output"]
    raise EmbeddedStartError(f"the proxy did not start: {lines[-1].removeprefix('truezero: ')}")


def _text(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")
