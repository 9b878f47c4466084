"""Start the service: prepare the database, open the listeners, run uvicorn."""

from __future__ import annotations

import contextlib
import errno
import gc
import glob
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator, MutableMapping
from importlib import metadata

import uvicorn
from uvicorn.supervisors.multiprocess import Multiprocess

from proxy.app import Application
from proxy.inbound.connections import CertificateError
from proxy.inbound.http import HttpProtocol
from proxy.inbound.tls import TlsProtocol
from proxy.inbound.websocket import websocket_options
from proxy.relay.relay import Relay
from proxy.server.admin_token import invitation, sign_in_link
from proxy.server.workers import SingleProcess, WorkerProcesses
from proxy.settings import Settings, load
from proxy.store.admin.rows import place
from proxy.store.database import Database
from proxy.store.errors import BadUrl, StoreError, UnusableDatabase
from proxy.telemetry import multiprocess, traces
from proxy.telemetry.logs import Log
from proxy.telemetry.metrics import SHARED
from proxy.wiring import certificate, spill_place

log = logging.getLogger("truezero")


class StartError(Exception):
    """The service cannot start; one sentence says why.

    ``exit_code`` is 2 for what is set wrongly, as with settings that cannot be read.
    """

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def create() -> Application:
    """Build the application from the environment, as uvicorn does in each worker process."""
    settings = load({}, os.environ)
    return _application(settings, agents_only=settings.separate_control)


def create_control() -> Application:
    """Build that of the control plane's own process."""
    return _application(load({}, os.environ), agents_only=False)


def _application(settings: Settings, *, agents_only: bool) -> Application:
    lines = _log(settings)
    lines.install()
    each = lines.exchanges()
    observers = () if each is None else (each,)
    return Application(settings, os.environ, observers=observers, agents_only=agents_only)


def serve(settings: Settings, *, token_made: bool | None = None) -> None:
    """Run the service until it receives SIGINT, SIGTERM or SIGHUP.

    Arguments:
        token_made: whether this start made the admin token; None where the operator chose it, or
            there is none. Otherwise a new token or database has a sign-in link printed.

    Raises:
        StartError: the certificate cannot be used, the database is not writable, the port is in
            use, or the extra that traces need is not installed.
    """
    try:
        certificate(settings)
    except CertificateError as error:
        raise StartError(str(error), 2) from None
    forgotten, new = _prepare(settings)
    listeners = [_listen(host, port) for host, port in settings.addresses]
    _raise_descriptor_limit()
    lines = _log(settings)
    lines.install()
    for warning in settings.warnings:
        log.warning("%s", warning)
    if forgotten is not None:
        log.error("%s", forgotten)
    urls = [_url(settings.scheme, listener) for listener in listeners]
    lines.announce(f"truezero listening on {urls[0]} (version {_version()})")
    for control in urls[1:]:
        lines.announce(f"control plane listening on {control} only")
    if token_made is not None:
        _welcome(lines, settings, listeners[-1], invite=token_made or new)
    try:
        if settings.workers > 1 or settings.separate_control:
            gc.enable()
            with _shared_metrics(os.environ):
                _supervisor(settings, listeners).run()
        else:
            SingleProcess(_config(settings)).run(sockets=listeners)
    except KeyboardInterrupt:
        pass
    finally:
        for listener in listeners:
            listener.close()


def _supervisor(settings: Settings, listeners: list[socket.socket]) -> WorkerProcesses:
    hangup = signal.getsignal(signal.SIGHUP)
    if settings.separate_control:
        agents, control = listeners
        beside = Multiprocess(_config(settings, "create_control", workers=1), [control])
        supervisor = WorkerProcesses(_config(settings), [agents], beside=[beside])
    else:
        supervisor = WorkerProcesses(_config(settings), listeners)
    if hangup is signal.SIG_IGN:  # by `nohup`
        signal.signal(signal.SIGHUP, hangup)
    return supervisor


def _config(
    settings: Settings, factory: str = "create", *, workers: int | None = None
) -> uvicorn.Config:
    return uvicorn.Config(
        f"{__name__}:{factory}",
        factory=True,
        loop="uvloop",
        http=HttpProtocol if settings.certfile is None else TlsProtocol,
        **websocket_options(settings.body_limit),
        lifespan="on",
        workers=workers or settings.workers,
        log_level=settings.log_level,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=4096,
        timeout_graceful_shutdown=int(settings.grace_s),
    )


def _welcome(lines: Log, settings: Settings, control: socket.socket, *, invite: bool) -> None:
    where = settings.admin_token_file
    lines.announce(f"admin token in {where}: `truezero token` prints it, or a sign-in link")
    if invite:
        with _database(settings) as database:
            link = sign_in_link(database, settings, port=control.getsockname()[1])
        lines.announce(invitation(link))


def _url(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _log(settings: Settings) -> Log:
    return Log(level=settings.log_level, style=settings.log_format)


@contextlib.contextmanager
def _shared_metrics(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Set up an empty folder in which worker processes share their metrics."""
    with multiprocess.folder() as folder:
        environment[SHARED] = str(folder)
        try:
            yield
        finally:
            del environment[SHARED]


def invite(settings: Settings) -> str:
    """Return a sign-in link for a service that has been started on these settings.

    Raises:
        StartError: the database cannot be used, or the service was never started on it.
    """
    with _database(settings) as database:
        if database.file is not None and not database.file.exists():
            raise StartError(f"no database at {database.file}: start the service first")
        return sign_in_link(database, settings, port=settings.addresses[-1][1])


def _prepare(settings: Settings) -> tuple[str | None, bool]:
    """Prepare the database.

    Returns:
        What must be said of one that an earlier one is missing for, and whether it is new.
    """
    if settings.otlp_endpoint is not None:
        try:
            traces.check()
        except traces.MissingError as error:
            raise StartError(str(error)) from None
    with _database(settings) as database:
        before, _ = database.prepare()
        for name in ("salt", "keyring"):
            database.deployment.secret(name)
        return _forgotten(database, settings, new=before is None), before is None


def _forgotten(database: Database, settings: Settings, *, new: bool) -> str | None:
    note, spills = database.deletion_note, spill_place(database, settings)
    noted = note is not None and note.exists()
    kept = spills is not None and any(spills.parent.glob(f"{glob.escape(spills.name)}.*.spill"))
    if note is not None and noted:
        at = note.read_text("utf-8").strip()
        note.unlink()
        if not new:
            return f"the database was deleted under the service at {at}; it is back"
        return f"the database was deleted under the service at {at}: what it held is lost"
    if new and kept:
        return "the database is new, but a spill file is there: what an earlier one held is lost"
    return None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        hint = "; --port 0 picks a free one" if error.errno == errno.EADDRINUSE else ""
        said = f"cannot listen on {host}:{port}: {error.strerror or error}{hint}"
        raise StartError(said) from None
    listener.set_inheritable(True)
    return listener


def _version() -> str:
    """Return the version, and whether the hot path is compiled (setup.py)."""
    compiled = not str(sys.modules[Relay.__module__].__file__).endswith(".py")
    return metadata.version("truezero") + (", compiled" if compiled else "")


def _raise_descriptor_limit() -> None:
    """Raise the soft limit, often 1,024: thousands of streams need two descriptors each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def upgrade(settings: Settings) -> tuple[str | None, str | None]:
    """Upgrade the schema; return the versions before and after.

    Raises:
        StartError: the database is not writable, or was written by a later version.
    """
    with _database(settings) as database:
        return database.prepare()


@contextlib.contextmanager
def _database(settings: Settings) -> Iterator[Database]:
    """Open the database and close it again; its errors become a StartError."""
    try:
        database = Database(settings.database_url)
    except BadUrl as error:
        raise StartError(f"database_url: {error}") from None
    try:
        yield database
    except UnusableDatabase as error:
        raise StartError(str(error)) from None
    except StoreError as error:
        where = place(settings.database_url)
        hint = "; its folder must be writable, or --database FILE names another"
        said = f"cannot open the database {where!r} for writing: {error}"
        raise StartError(said + (hint if "unable to open" in said else "")) from None
    finally:
        database.close()
