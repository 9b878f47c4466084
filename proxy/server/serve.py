"""Start and stop the service: database, admin token, listeners, and uvicorn's worker processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import glob
import logging
import os
import resource
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from multiprocessing import connection, parent_process
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.supervisors import multiprocess as uvicorn_supervisor
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from proxy.api.auth import LINK_LIFE_S
from proxy.app import Application, control_auth, spill_place
from proxy.control.queries import version
from proxy.feature import announcements, only_module
from proxy.relay.relay import Relay
from proxy.server.admin_token import make_token, token_file
from proxy.server.background import LEAVING, tune_process
from proxy.serving import ProtocolOf, StartError, around_processes, check, connections
from proxy.settings import PREFIX, Settings, load, sources
from proxy.store.admin.location import denial, place, sqlite_file
from proxy.store.database import Database
from proxy.store.errors import BadUrl, StoreError, UnusableDatabase
from proxy.telemetry.logs import Log

# --- processes and their shutdown --------------------------------------------------------------
# Calls may finish; a second signal cancels them.


class SingleProcess(uvicorn.Server):
    """uvicorn's server with a graceful shutdown.

    On the first signal (SIGTERM, SIGINT or SIGHUP), calls in flight may finish within the grace
    period, and the process exits with code 0. A second one cancels them; they are still recorded.
    """

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving: uvicorn's two, and SIGHUP unless `nohup` has it ignored."""
        main = threading.current_thread() is threading.main_thread()
        with super().capture_signals(), contextlib.ExitStack() as restored:
            for sig in self._further() if main else ():
                if signal.getsignal(sig) is not signal.SIG_IGN:
                    restored.callback(signal.signal, sig, signal.signal(sig, self.handle_exit))
            yield

    def _further(self) -> tuple[signal.Signals, ...]:
        return (signal.SIGHUP,)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal; uvicorn would raise it again on exit, and skip cleanup on a second."""
        if self.should_exit:
            self._cancel()
        self._drain()

    def _drain(self) -> None:
        LEAVING.set()
        self.should_exit = True

    def _cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel_calls)

    def _cancel_calls(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()


_CANCEL = signal.SIGUSR1  # from the supervisor: it has had a second signal


class _WorkerServer(SingleProcess):
    """The same in a worker, where the supervisor alone says that calls are to be cancelled.

    A terminal and systemd signal all processes of the service, so a worker receives most signals
    twice: from them and from its supervisor.
    """

    def _further(self) -> tuple[signal.Signals, ...]:
        return (signal.SIGHUP, _CANCEL)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if sig == _CANCEL:
            self._cancel()
        self._drain()


class Worker(Process):
    """A uvicorn worker with the same shutdown, which also stops when its parent dies."""

    @property
    def server(self) -> uvicorn.Server:
        """The server in the worker's process."""
        if self._server is None:
            self._server = _WorkerServer(config=self.config)
        return self._server

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Run in the worker's process."""
        tune_process()
        threading.Thread(target=_end_with_parent, daemon=True).start()
        super().target(sockets)


uvicorn_supervisor.Process = Worker  # type: ignore[misc]  # uvicorn starts workers in three places, by this name


class WorkerProcesses(Multiprocess):
    """uvicorn's supervisor of workers; at its second signal it has them cancel their calls.

    Arguments:
        beside: supervisors of further workers, with sockets of their own; they live as long.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        *,
        beside: Sequence[Multiprocess] = (),
    ) -> None:
        super().__init__(config, sockets)  # takes the signals, from those beside too
        self._beside = beside
        for other in beside:
            other.should_exit = self.should_exit

    def init_processes(self) -> None:
        """Start all workers."""
        super().init_processes()
        for other in self._beside:
            other.init_processes()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang."""
        super().keep_subprocess_alive()
        for other in self._beside:
            other.keep_subprocess_alive()

    def handle_hup(self) -> None:
        """Stop as on SIGTERM; uvicorn would replace the workers."""
        self.handle_term()

    def terminate_all(self) -> None:
        """Tell all workers to stop."""
        super().terminate_all()
        for other in self._beside:
            other.terminate_all()

    def join_all(self) -> None:
        """Wait until the workers have stopped; a further signal cancels their calls."""
        while any(worker.process.is_alive() for worker in self._all()):
            if self.signal_queue:
                self.signal_queue.clear()
                self._cancel_all()
            time.sleep(0.05)
        for worker in self._all():
            worker.join()

    def _all(self) -> list[Process]:
        return [worker for group in (self, *self._beside) for worker in group.processes]

    def _cancel_all(self) -> None:
        for worker in self._all():
            if worker.pid is not None and worker.process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, _CANCEL)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


# --- admin token made by the service, and sign-in links ----------------------------------------


_SETTING = PREFIX + "ADMIN_TOKEN_FILE"


def find_admin_token(environment: MutableMapping[str, str], *, make: bool) -> bool | None:
    """Name the token's file in the environment, for this process and its workers.

    Arguments:
        make: make the file where it is missing, with a token of 256 random bits.

    Returns:
        Whether it was made; None if the settings have a token, and nothing was done.

    Raises:
        SettingsError: the settings cannot be read.
        OSError: the file cannot be made.
    """
    file, env = sources(environment)
    given = {**file, **env}
    if given.get("admin_token"):
        return None
    path = token_file(given)
    made = make and make_token(path)
    if path.exists():
        environment[_SETTING] = str(path)
    return made


def forget_admin_token(environment: Mapping[str, str]) -> None:
    """Delete a token that was made for a start that failed: nobody has seen it."""
    Path(environment[_SETTING]).unlink(missing_ok=True)


def sign_in_link(database: Database, settings: Settings, *, port: int) -> str:
    """Return a link that signs one person in, once and within ten minutes.

    Its secret is behind the #, which browsers do not send: no proxy between can log it.

    Arguments:
        port: where the control plane listens, for settings that name no URL.
    """
    sessions = control_auth(settings, database.deployment.secret("keyring")).sessions
    secret = sessions.invite(time.time(), secrets.token_hex(8))
    return f"{_base(settings, port)}/ui/sign-in#{secret}"


def invitation(link: str) -> str:
    """Return the sentence that offers a link."""
    return f"sign in, once and within {LINK_LIFE_S // 60} minutes: {link}"


def _base(settings: Settings, port: int) -> str:
    if base := settings.dashboard_url or settings.public_url:
        return base.rstrip("/")
    host, _ = settings.addresses[-1]
    here = "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104  compared
    named = f"[{here}]" if ":" in here else here
    return f"{connections(settings).scheme}://{named}:{port}"


# --- start -------------------------------------------------------------------------------------


log = logging.getLogger("truezero")


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
        token_made: whether this start made the admin token; None if the operator chose it, or
            there is none. Otherwise a new token or database has a sign-in link printed.

    Raises:
        StartError: the certificate cannot be used, the database is not writable, the port is in
            use, or the extra that traces need is not installed.
    """
    check(settings)
    protocol = connections(settings).protocol()
    with contextlib.ExitStack() as bound:
        listeners = [bound.enter_context(_bind(*address)) for address in settings.addresses]
        forgotten, new = _prepare(settings)
        for listener in listeners:
            _listen(listener)
        _raise_descriptor_limit()
        _announce(settings, listeners, forgotten, token_made=token_made, new=new)
        with contextlib.suppress(KeyboardInterrupt):
            _run(settings, protocol, listeners)


def _announce(
    settings: Settings,
    listeners: list[socket.socket],
    forgotten: str | None,
    *,
    token_made: bool | None,
    new: bool,
) -> None:
    lines = _log(settings)
    lines.install()
    for warning in (*settings.warnings, *_readable_by_others(settings)):
        log.warning("%s", warning)
    if forgotten is not None:
        log.error("%s", forgotten)
    urls = [_url(connections(settings).scheme, listener) for listener in listeners]
    lines.announce(f"truezero listening on {urls[0]} (version {_version()})")
    for control in urls[1:]:
        lines.announce(f"control plane listening on {control} only")
    base = _base(settings, listeners[-1].getsockname()[1])
    log.info("pages at %s/; for commands and loops: export TRUEZERO_URL=%s", base, base)
    for line in announcements(settings):
        lines.announce(line)
    if token_made is not None:
        _welcome(lines, settings, listeners[-1], invite=token_made or new)


def _run(settings: Settings, protocol: ProtocolOf, listeners: list[socket.socket]) -> None:
    if settings.workers > 1 or settings.separate_control:
        gc.enable()
        with around_processes(os.environ):
            _supervisor(settings, protocol, listeners).run()
    else:
        SingleProcess(_config(settings, protocol)).run(sockets=listeners)


def _supervisor(
    settings: Settings, protocol: ProtocolOf, listeners: list[socket.socket]
) -> WorkerProcesses:
    hangup = signal.getsignal(signal.SIGHUP)
    if settings.separate_control:
        agents, control = listeners
        beside = Multiprocess(_config(settings, protocol, "create_control", workers=1), [control])
        supervisor = WorkerProcesses(_config(settings, protocol), [agents], beside=[beside])
    else:
        supervisor = WorkerProcesses(_config(settings, protocol), listeners)
    if hangup is signal.SIG_IGN:  # by `nohup`
        signal.signal(signal.SIGHUP, hangup)
    return supervisor


def _config(
    settings: Settings,
    protocol: ProtocolOf,
    factory: str = "create",
    *,
    workers: int | None = None,
) -> uvicorn.Config:
    return uvicorn.Config(
        f"{__name__}:{factory}",
        factory=True,
        loop="uvloop",
        http=cast("type[asyncio.Protocol]", protocol),
        **_socket_options(settings.body_limit),
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


def _socket_options(max_bytes: int) -> dict[str, Any]:
    """Return the arguments for serving WebSockets; without a feature that does, none is taken."""
    sockets = only_module("sockets")
    options: dict[str, Any] = sockets.server_options(max_bytes) if sockets else {"ws": "none"}
    return options


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
    with _database(settings) as database:
        before, _ = database.prepare()
        for name in ("salt", "keyring"):
            database.deployment.secret(name)
        return _forgotten(database, settings, new=before is None), before is None


def _readable_by_others(settings: Settings) -> Iterator[str]:
    """Yield a warning of a database that an earlier version made for everybody to read."""
    file = sqlite_file(settings.database_url)
    with contextlib.suppress(OSError):
        if file is not None and file.stat().st_mode & 0o007:
            yield (
                f"{file} holds secrets, and every user of this machine can open it: stop the "
                f"service, chmod o= {file}* and start it again"
            )


def _forgotten(database: Database, settings: Settings, *, new: bool) -> str | None:
    note, spills = database.deletion_note, spill_place(database, settings)
    noted = note is not None and note.exists()
    spilled = spills is not None and any(spills.parent.glob(f"{glob.escape(spills.name)}.*.spill"))
    if note is not None and noted:
        at = note.read_text("utf-8").strip()
        note.unlink()
        if not new:
            return f"the database was deleted under the service at {at}; it is back"
        return f"the database was deleted under the service at {at}: what it held is lost"
    if new and spilled:
        return "the database is new, but a spill file is there: what an earlier one held is lost"
    return None


def _bind(host: str, port: int) -> socket.socket:
    """Take an address before anything is written; connections are accepted by ``_listen``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from None
    listener.set_inheritable(True)
    return listener


def _listen(listener: socket.socket) -> None:
    """Accept connections; another start may have bound the address in the same moment."""
    try:
        listener.listen(4096)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(host, port, error) from None


def _cannot_listen(host: str, port: int, error: OSError) -> StartError:
    hint = "; --port 0 picks a free one" if error.errno == errno.EADDRINUSE else ""
    return StartError(f"cannot listen on {host}:{port}: {error.strerror or error}{hint}")


def _version() -> str:
    """Return the version, and whether the hot path is compiled (setup.py)."""
    compiled = not str(sys.modules[Relay.__module__].__file__).endswith(".py")
    return version() + (", compiled" if compiled else "")


def _raise_descriptor_limit() -> None:
    """Raise the soft limit, often 1,024: thousands of streams need two descriptors each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def upgrade(settings: Settings) -> tuple[str | None, str | None]:
    """Upgrade the schema; return the versions before and after.

    Raises:
        StartError: there is no database, it is not writable, or was written by a later version.
    """
    with _database(settings) as database:
        if database.is_sqlite:  # an empty one of PostgreSQL was made for this
            database.require()
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
        message = f"cannot open the database {where!r} for writing: {error}"
        file = sqlite_file(settings.database_url)
        if file is not None and (why := denial(file)):
            raise StartError(f"{message}: {why}") from None
        hint = "; its folder must be writable, or --database FILE names another"
        raise StartError(message + (hint if "unable to open" in message else "")) from None
    finally:
        database.close()
