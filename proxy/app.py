"""The roof: builds every room, joins them, and runs the server.

It is the only place where things are wired; nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy.api.auth import ControlAuth, PortPolicy
from proxy.api.sessions import Sessions
from proxy.control.threads import run_in_thread
from proxy.inbound.asgi import Message, Receive, Scope, Send
from proxy.outbound.credentials import signers
from proxy.outbound.http1 import Http1Transport
from proxy.outbound.websocket import WebSocketConnector
from proxy.recording.failover import recover
from proxy.recording.ports import FlushObserver
from proxy.recording.recorder import Recorder
from proxy.recording.spill import left_behind
from proxy.relay.context import RelayContext
from proxy.relay.http import Relay
from proxy.relay.websocket import WebSocketRelay
from proxy.routing.address_guard import AddressGuard
from proxy.routing.errors import Refusal, problem
from proxy.routing.limits import ConcurrencyLimiter
from proxy.routing.rollout_keys import Keyring
from proxy.settings import Settings
from proxy.store import dashboard
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.telemetry.metrics import Metrics
from proxy.wiring import (
    call_limits,
    new_id,
    open_spill,
    rollout_access,
    shared_metrics_folder,
    spill_folder,
    trace_exporter,
)

if TYPE_CHECKING:
    from proxy.control_plane import ControlPlane

log = logging.getLogger("truezero")

_HEARTBEAT_S = 5.0
GC_THRESHOLDS = (50_000, 20, 50)  # fewer, later collections: thousands of streams live long


_LISTEN_S = 0.5  # how often the event loop is asked how late it comes


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
        self._worker = new_id()
        self._place = spill_folder(self._database, settings)
        self._recorder = Recorder(
            self._database.calls, worker=self._worker, spill=open_spill(self._place, self._worker)
        )
        secret = self._database.deployment.secret("keyring")
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
        self._standings = rollout_access(self._database)
        reach = AddressGuard.of(upstreams)
        self._transport = Http1Transport(reach=reach)
        house = RelayContext(
            upstreams=upstreams,
            transport=self._transport,
            recorder=self._recorder,
            keyring=keyring,
            salt=self._database.deployment.secret("salt"),
            new_id=new_id,
            wall=time.time,
            clock=time.monotonic,
            limits=call_limits(settings),
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
            census=lambda: self._database.read(dashboard.counts, time.time()),
            version=metadata.version("truezero"),
            shared=shared_metrics_folder(environment),
        )
        self._traces = trace_exporter(settings, upstreams, self._worker)
        for observer in (self._metrics.observe, *watching):
            self._recorder.add_observer(observer)
        if self._traces is not None:
            self._recorder.add_observer(self._traces.observe)
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
            new_id=new_id,
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
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._database.workers.retire, self._worker)
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
            self._standings.watch(self._database.rollouts.drilled())
            self._guard.sessions.ended.update(self._database.deployment.ended_sessions())
            self._recover()
        except Exception as error:  # whatever it is: who is silent is taken for dead
            log.warning("the heartbeat cannot be written: %s", type(error).__name__)

    def _recover(self) -> None:
        """Write what dead processes had kept beside the database."""
        for spill in left_behind(self._place) if self._place else ():
            with contextlib.closing(spill):
                count = recover(self._database.calls, spill, worker=self._worker)
            log.warning("%d exchanges that a dead process had kept are written", count)


async def _answer(refusal: Refusal, send: Send) -> None:
    headers, body = problem(refusal)
    start: Message = {"type": "http.response.start", "status": refusal.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})
