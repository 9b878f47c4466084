"""Start the service: prepare the database, open the listeners, run uvicorn."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import sys
from collections.abc import Iterator, MutableMapping
from importlib import metadata

import uvicorn

from proxy.app import Application
from proxy.inbound.http import HttpProtocol
from proxy.inbound.websocket import websocket_options
from proxy.relay.http import Relay
from proxy.server.workers import SingleProcess, WorkerProcesses
from proxy.settings import Settings, load
from proxy.store.admin.rows import place
from proxy.store.database import Database
from proxy.store.errors import BadUrl, StoreError, UnusableDatabase
from proxy.telemetry import multiprocess, traces
from proxy.telemetry.logs import Log
from proxy.telemetry.metrics import SHARED


class StartError(Exception):
    """Why the service cannot start, in one sentence."""


def create() -> Application:
    """The application as uvicorn's worker processes build it, from the environment."""
    settings = load({}, os.environ)
    lines = _log(settings)
    lines.install()
    each = lines.exchanges()
    return Application(settings, os.environ, observers=() if each is None else (each,))


def serve(settings: Settings) -> None:
    """Run the service until it is told to stop.

    Raises:
        StartError: the database cannot be written, the port is taken, or what traces need is
            not installed.
    """
    _prepare(settings)
    listeners = [_listen(host, port) for host, port in settings.addresses]
    _raise_descriptor_limit()
    lines = _log(settings)
    lines.install()
    config = uvicorn.Config(
        "proxy.server.serve:create",
        factory=True,
        loop="uvloop",
        http=HttpProtocol,
        **websocket_options(settings.body_limit),
        lifespan="on",
        workers=settings.workers,
        log_level=settings.log_level,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=4096,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.grace_s),
    )
    lines.announce(f"truezero listens on {_url(listeners[0])} (version {_version()})")
    for control in listeners[1:]:
        lines.announce(f"its control plane answers on {_url(control)} only")
    try:
        if settings.workers > 1:
            gc.enable()
            with _sharing_numbers(os.environ):
                WorkerProcesses(config, sockets=listeners).run()
        else:
            SingleProcess(config).run(sockets=listeners)
    except KeyboardInterrupt:
        pass
    finally:
        for listener in listeners:
            listener.close()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _log(settings: Settings) -> Log:
    return Log(level=settings.log_level, style=settings.log_format)


@contextlib.contextmanager
def _sharing_numbers(environment: MutableMapping[str, str]) -> Iterator[None]:
    """A folder in which worker processes add up their numbers; started anew with the service."""
    with multiprocess.folder() as folder:
        environment[SHARED] = str(folder)
        try:
            yield
        finally:
            del environment[SHARED]


def _prepare(settings: Settings) -> None:
    if settings.otlp_endpoint is not None:
        try:
            traces.check()
        except traces.MissingError as error:
            raise StartError(str(error)) from None
    database = _named(settings)
    try:
        database.prepare()
        for name in ("salt", "keyring"):
            database.deployment.secret(name)
    except UnusableDatabase as error:
        raise StartError(str(error)) from None
    except StoreError as error:
        raise StartError(_unwritable(settings, error)) from None
    finally:
        database.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    listener.set_inheritable(True)
    return listener


def _version() -> str:
    """What runs, and whether its hot path is C (setup.py)."""
    compiled = not str(sys.modules[Relay.__module__].__file__).endswith(".py")
    return metadata.version("truezero") + (", compiled" if compiled else "")


def _raise_descriptor_limit() -> None:
    """Thousands of streams need two descriptors each; the soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def upgrade(settings: Settings) -> tuple[str | None, str | None]:
    """Bring the schema up to date; returns the versions before and now.

    Raises:
        StartError: the database cannot be written, or a later version wrote it.
    """
    database = _named(settings)
    try:
        return database.prepare()
    except UnusableDatabase as error:
        raise StartError(str(error)) from None
    except StoreError as error:
        raise StartError(_unwritable(settings, error)) from None
    finally:
        database.close()


def _named(settings: Settings) -> Database:
    try:
        return Database(settings.database_url)
    except BadUrl as error:
        raise StartError(f"database_url: {error}") from None


def _unwritable(settings: Settings, error: StoreError) -> str:
    where = place(settings.database_url)
    return f"the database {where!r} cannot be opened for writing: {error}"
