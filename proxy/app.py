"""The roof: builds every room, joins them, and runs the server.

It is the only place where things are wired; nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import resource
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import uvicorn

from proxy import shared, traces
from proxy.api.guard import ControlAuth, PortPolicy
from proxy.aside import run_in_thread
from proxy.bounds import ConcurrencyLimiter
from proxy.door import HttpProtocol
from proxy.keys import Keyring
from proxy.logs import Log
from proxy.metrics import SHARED, Metrics
from proxy.processes import SingleProcess, WorkerProcesses
from proxy.reach import AddressGuard
from proxy.recorder import FlushObserver, Recorder, recover
from proxy.refusals import Refusal, problem
from proxy.relay import CallLimits, Message, Receive, Relay, RelayContext, Scope, Send
from proxy.sessions import Sessions
from proxy.settings import Settings, load
from proxy.signing import signers
from proxy.sockets import WebSocketRelay
from proxy.standing import Access, AccessState, AccessUnknownError
from proxy.store.database import Database, StorageError, UrlError
from proxy.store.migrations import UnfitError
from proxy.store.rows import place
from proxy.store.spill import SpillFile, left_behind
from proxy.upgrades import WebSocketConnector, websocket_options
from proxy.upstreams import Upstream

if TYPE_CHECKING:
    from proxy.control_plane import ControlPlane

log = logging.getLogger("truezero")

_UPSTREAM_CLIENTS = {
    "http1": ("proxy.http1", "Http1Transport"),
    "aiohttp": ("proxy.transport", "AiohttpTransport"),
}
_HEARTBEAT_S = 5.0
_DRAIN_S = 60.0  # how long an answer is read on without its agent, where it is
GC_THRESHOLDS = (50_000, 20, 50)  # fewer, later collections: thousands of streams live long


_LISTEN_S = 0.5  # how often the event loop is asked how late it comes


class StartError(Exception):
    """Why the service cannot start, in one sentence."""


class Application:
    """The service of one process, as an ASGI application.

    Arguments:
        watching: told of every call that ended, beside metrics and traces.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        *,
        watching: Sequence[FlushObserver] = (),
    ) -> None:
        self._settings = settings
        self._database = Database(settings.database_url)
        self._worker = _new_id()
        self._place = _spill_place(self._database, settings)
        self._recorder = Recorder(
            self._database, worker=self._worker, spill=_spill(self._place, self._worker)
        )
        secret = self._database.secret("keyring")
        self._keyring = keyring = Keyring(secret)
        token = settings.admin_token.get_secret_value().encode() if settings.admin_token else None
        self._doors = PortPolicy(settings.control_port or None)
        self._guard = ControlAuth(
            token,
            Sessions.of(secret, token),
            time.time,
            urlsplit(settings.public_url or "").hostname,
        )
        self._upstreams = upstreams = settings.allow_list()
        self._standings = _standings(self._database)
        reach = AddressGuard.of(upstreams)
        self._transport = _upstream_client(settings.http_client, reach)
        house = RelayContext(
            upstreams=upstreams,
            transport=self._transport,
            recorder=self._recorder,
            keyring=keyring,
            salt=self._database.secret("salt"),
            new_id=_new_id,
            wall=time.time,
            clock=time.monotonic,
            limits=_limits(settings),
            stall_s=settings.stall_s,
            proof_required=token is not None,
            admits=self._admits if settings.require_registration else None,
            real_keys=settings.real_keys(environment),
            signers=signers(environment, time.monotonic),
            access=self._standings,
            concurrency=ConcurrencyLimiter(
                in_all=settings.max_concurrent_calls or None,
                each=settings.max_concurrent_calls_per_rollout or None,
            ),
        )
        self._relay = Relay(house)
        self._sockets = WebSocketRelay(house, WebSocketConnector(reach=reach))
        self._metrics = Metrics(
            self._recorder,
            census=lambda: self._database.census(time.time()),
            version=metadata.version("truezero"),
            shared=_shared_numbers(environment),
        )
        self._traces = _traces(settings, upstreams, self._worker)
        for observer in (self._metrics.observe, *watching):
            self._recorder.tell(observer)
        if self._traces is not None:
            self._recorder.tell(self._traces.observe)
        self._made: ControlPlane | None = None
        self._making_one = threading.Lock()
        self._making: asyncio.Task[ControlPlane] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Agents' calls and sockets go to the relays, everything else to the control plane."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        agents = self._doors.lets_agents_in(scope)
        if scope["type"] == "http":
            if agents and self._relay.claims(scope):
                await self._relay(scope, receive, send)
                return
            try:
                self._doors.check(scope)
                self._guard.check(scope)
            except Refusal as refusal:
                await _answer(refusal, send)
                return
        elif agents and self._sockets.claims(scope):
            await self._sockets(scope, receive, send)
            return
        control_plane = await self._control_plane()
        await control_plane.app(scope, receive, send)  # type: ignore[arg-type]  # dicts both

    def control_plane(self) -> ControlPlane:
        """The control plane; made at the first asking."""
        with self._making_one:
            if self._made is None:
                self._made = self._make_control_plane()
            return self._made

    def _make_control_plane(self) -> ControlPlane:
        # Loaded here: FastAPI and the rest are half of a start, and no agent's call needs them.
        from proxy import control_plane  # noqa: PLC0415

        near = control_plane.ServiceParts(
            database=self._database,
            recorder=self._recorder,
            keyring=self._keyring,
            upstreams=self._upstreams,
            guard=self._guard,
            metrics=self._metrics,
            new_id=_new_id,
            changed=self._standings.changed,
        )
        return control_plane.build(self._settings, near)

    async def _control_plane(self) -> ControlPlane:
        """The control plane, which whoever asks before it is there waits for."""
        if self._made is not None:
            return self._made
        if self._making is None:
            self._making = asyncio.create_task(run_in_thread(self.control_plane))
        return await asyncio.shield(self._making)

    async def _prepare_control_plane(self) -> None:
        try:
            await self._control_plane()
            gc.freeze()  # it too lives as long as the process
        except Exception:  # whatever it is: who asks is told 500, and agents are served
            log.exception("the control plane cannot be made")

    async def _admits(self, rollout_id: str) -> None:
        await (await self._control_plane()).desk.admits(rollout_id)

    async def _live(self, receive: Receive, send: Send) -> None:
        """The server's own questions: whether we have begun, and whether we have ended."""
        await receive()
        async with self._lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        self._recorder.start()
        await asyncio.to_thread(self._beat)
        work = (self._pulse(), self._listen_to_loop(), self._prepare_control_plane())
        tasks = [asyncio.create_task(each) for each in work]
        before = gc.get_threshold()
        gc.freeze()  # what lives as long as the process is not searched for garbage again
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        try:
            yield
        finally:
            gc.unfreeze()  # tests have several services in one process
            gc.set_threshold(*before)
            for task in tasks:
                task.cancel()
            await self._transport.aclose()
            await self._recorder.stop()
            self._metrics.sample()
            with contextlib.suppress(StorageError):
                await asyncio.to_thread(self._database.retire, self._worker)
            if self._traces is not None:
                await asyncio.to_thread(self._traces.close)
            self._database.close()

    async def _pulse(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            await asyncio.to_thread(self._beat)

    async def _listen_to_loop(self) -> None:
        """Time how long another thread's call waits for this loop, as a chunk that comes does."""
        while True:
            await asyncio.sleep(_LISTEN_S)
            self._metrics.sample()
            called = await asyncio.to_thread(time.perf_counter)
            self._metrics.late(time.perf_counter() - called)

    def _beat(self) -> None:
        try:
            self._database.heartbeat(self._worker, host=socket.gethostname(), now=time.time())
            self._standings.watch(self._database.drilled())
            self._guard.sessions.ended.update(self._database.ended_sessions())
            self._recover()
        except Exception as error:  # whatever it is: who is silent is taken for dead
            log.warning("the heartbeat cannot be written: %s", type(error).__name__)

    def _recover(self) -> None:
        """Write what dead processes had kept beside the database."""
        for spill in left_behind(self._place) if self._place else ():
            with contextlib.closing(spill):
                count = recover(self._database, spill, worker=self._worker)
            log.warning("%d exchanges that a dead process had kept are written", count)


def create() -> Application:
    """The application as uvicorn's worker processes build it, from the environment."""
    settings = load({}, os.environ)
    lines = _log(settings)
    lines.install()
    each = lines.exchanges()
    return Application(settings, os.environ, watching=() if each is None else (each,))


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
        "proxy.app:create",
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


def _spill_place(database: Database, settings: Settings) -> Path | None:
    return database.spill_place(Path(settings.spill_dir) if settings.spill_dir else None)


def _spill(place: Path | None, worker: str) -> SpillFile | None:
    return SpillFile.of(place, worker) if place else None


def _log(settings: Settings) -> Log:
    return Log(level=settings.log_level, style=settings.log_format)


def _shared_numbers(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(SHARED)
    return Path(named) if named else None


@contextlib.contextmanager
def _sharing_numbers(environment: MutableMapping[str, str]) -> Iterator[None]:
    """A folder in which worker processes add up their numbers; started anew with the service."""
    with shared.folder() as folder:
        environment[SHARED] = str(folder)
        try:
            yield
        finally:
            del environment[SHARED]


def _traces(
    settings: Settings, upstreams: Mapping[str, Upstream], worker: str
) -> traces.Traces | None:
    if settings.otlp_endpoint is None:
        return None
    return traces.to(settings.otlp_endpoint, upstreams, worker=worker)


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
            database.secret(name)
    except UnfitError as error:
        raise StartError(str(error)) from None
    except StorageError as error:
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


def _standings(database: Database) -> Access:
    def look_up(rollout_id: str) -> AccessState | None:
        from truezero.models import Fault  # noqa: PLC0415  the REST contract, 12 ms of a start

        with _away():
            row = database.rollout_row(rollout_id)
        if row is None:
            return None
        ends = [at for at in (row["outcome_at"], row["revoked_at"]) if at is not None]
        return AccessState(
            ends_at=min(ends, default=None),
            upstream=row["upstream"],
            fault=Fault.model_validate_json(row["fault"]) if row["fault"] else None,
        )

    def count(rollout_id: str) -> int:
        with _away():
            return database.next_drilled_call(rollout_id)

    return Access(look_up=look_up, count=count, wall=time.time, clock=time.monotonic)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise AccessUnknownError from error


def _limits(settings: Settings) -> CallLimits:
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        read_s=settings.read_timeout_s,
        write_s=settings.write_timeout_s,
        body_bytes=settings.body_limit,
        drain_s=_DRAIN_S if settings.drain_on_disconnect else 0.0,
    )


def _upstream_client(name: str, reach: AddressGuard) -> httpx.AsyncBaseTransport:
    """What asks the providers; the one that is not used is not loaded either (70 ms)."""
    module, transport = _UPSTREAM_CLIENTS[name]
    made: httpx.AsyncBaseTransport = getattr(import_module(module), transport)(reach=reach)
    return made


def _new_id() -> str:
    """An id that sorts by time: 13 hexadecimal digits of microseconds, 11 random ones."""
    return f"{time.time_ns() // 1000:013x}{random.getrandbits(44):011x}"


async def _answer(refusal: Refusal, send: Send) -> None:
    headers, body = problem(refusal)
    start: Message = {"type": "http.response.start", "status": refusal.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})


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
    except UnfitError as error:
        raise StartError(str(error)) from None
    except StorageError as error:
        raise StartError(_unwritable(settings, error)) from None
    finally:
        database.close()


def _named(settings: Settings) -> Database:
    try:
        return Database(settings.database_url)
    except UrlError as error:
        raise StartError(f"database_url: {error}") from None


def _unwritable(settings: Settings, error: StorageError) -> str:
    where, why = place(settings.database_url), str(error.orig).splitlines()[0]
    return f"the database {where!r} cannot be opened for writing: {why}"
