"""The ASGI application of one process: builds its parts, joins them, and runs their lifespan."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING

from classifier.verdicts import Verdict
from proxy.api.auth import PortPolicy
from proxy.control.pricing import PriceTable
from proxy.control.queries import run_in_thread
from proxy.inbound.asgi import Receive, Scope, Send, noting_refusals, send_refusal
from proxy.inbound.http import TakePlain
from proxy.outbound.dial import is_own_address
from proxy.outbound.transport import Http1Transport
from proxy.outbound.websocket import WebSocketConnector
from proxy.recording.backlog import FlushObserver
from proxy.recording.recorder import Recorder
from proxy.relay.context import RequestNotices
from proxy.relay.relay import Relay
from proxy.relay.websocket import WebSocketRelay
from proxy.routing.addresses import AddressGuard
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring
from proxy.server import background
from proxy.server.background import Heartbeat, RolloutCloser, garbage_collection
from proxy.server.webhook import webhook
from proxy.settings import Settings
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.telemetry.metrics import AGENTS, CONTROL, Metrics, RequestCounts
from proxy.wiring import (
    connection_limits,
    control_auth,
    new_id,
    open_spill,
    relay_context,
    rollout_access,
    shared_metrics_folder,
    spill_place,
    trace_exporter,
)

if TYPE_CHECKING:
    from proxy.control.alerts import AlertWatch
    from proxy.control_plane import ControlPlane

log = logging.getLogger("truezero")


class Application:
    """The service of one process, as an ASGI application.

    Arguments:
        observers: called with every flush of the recorder, beside metrics and traces.
        agents_only: whether another process serves the control plane, and looks for alerts.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        *,
        observers: Sequence[FlushObserver] = (),
        agents_only: bool = False,
    ) -> None:
        self.connection_limits = connection_limits(settings)  # for the server's connections
        worker = new_id()
        self._database = database = Database(settings.database_url)
        spills = spill_place(database, settings)
        self._recorder = Recorder(database.calls, worker=worker, spill=open_spill(spills, worker))
        secret = database.deployment.secret("keyring")
        keyring = Keyring(secret)
        upstreams = settings.allow_list()
        self._ports = PortPolicy(settings.control_port or None)
        self._auth = control_auth(settings, secret)
        self._access = rollout_access(database)
        self._heartbeat = Heartbeat(
            database,
            worker=worker,
            access=self._access,
            ended_sessions=self._auth.sessions.ended,
            spill_place=spills,
        )
        guard = AddressGuard.of(upstreams, settings.own_addresses(is_own_address))
        self._transport = Http1Transport(reach=guard)
        context = relay_context(
            settings,
            environment,
            transport=self._transport,
            recorder=self._recorder,
            keyring=keyring,
            salt=database.deployment.secret("salt"),
            access=self._access,
            admits=self._admits,
        )
        self._closer = RolloutCloser(
            database.closings,
            worker=worker,
            access=self._access,
            live=context.live,
            missing=self._recorder.missing,
            grace_s=settings.outcome_grace_s,
        )
        self._relay = Relay(context)
        self._websockets = WebSocketRelay(context, WebSocketConnector(reach=guard))
        self._metrics = Metrics(
            self._recorder,
            census=lambda: database.read(statistics.counts, time.time()),
            version=metadata.version("truezero"),
            prices=PriceTable(upstreams),
            requests=_request_counts(context.notices),
            shared=shared_metrics_folder(environment),
        )
        self._traces = trace_exporter(settings, upstreams, worker)
        for observer in (self._metrics.observe, *observers):
            self._recorder.add_observer(observer)
        if self._traces is not None:
            self._recorder.add_observer(self._traces.observe)
        self._control_plane = LazyControlPlane(
            lambda: self._build_control_plane(settings, keyring, worker)
        )
        self._webhook = None if agents_only else webhook(settings, database, self._alert_watch)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass agents' calls and WebSockets to the relays, all else to the control plane."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        agents = self._ports.serves_agents(scope)
        if scope["type"] == "http":
            if agents and self._relay.claims(scope):
                await self._relay(scope, receive, send)
                return
            send = noting_refusals(send, self.notices.control)
            try:
                self._ports.check(scope)
                self._auth.check(scope)
            except Refusal as refusal:
                await send_refusal(refusal, send)
                return
        elif agents and self._websockets.claims(scope):
            await self._websockets(scope, receive, send)
            return
        control_plane = await self._control_plane.ready()
        await control_plane.app(scope, receive, send)  # type: ignore[arg-type]  # dicts both

    def plain_calls(self, scope: Scope) -> TakePlain | None:
        """Return what relays a connection's plain calls without a task, if anything does."""
        return self._relay.plain_calls() if self._ports.serves_agents(scope) else None

    @property
    def notices(self) -> RequestNotices:
        """What is counted and logged of requests beside exchanges."""
        return self._relay.notices

    def control_plane(self) -> ControlPlane:
        """Return the control plane, built if need be."""
        return self._control_plane.get()

    def _judged(self, verdict: Verdict) -> None:
        self._metrics.judged(verdict)
        if self._traces is not None:
            self._traces.judged(verdict)

    def _build_control_plane(
        self, settings: Settings, keyring: Keyring, worker: str
    ) -> ControlPlane:
        # Imported here: FastAPI and the rest are half of a start, and no agent's call needs them.
        from proxy import control_plane  # noqa: PLC0415

        parts = control_plane.ServiceParts(
            database=self._database,
            recorder=self._recorder,
            keyring=keyring,
            upstreams=settings.allow_list(),
            auth=self._auth,
            metrics=self._metrics,
            new_id=new_id,
            changed=self._access.changed,
            worker=worker,
            close_here=self._closer.close,
            judged=self._judged,
        )
        return control_plane.build(settings, parts)

    async def _alert_watch(self) -> AlertWatch:
        return (await self._control_plane.ready()).services.alerts

    async def _admits(self, rollout_id: str) -> None:
        await (await self._control_plane.ready()).services.rollouts.require_registered(rollout_id)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        self._recorder.start()
        await asyncio.to_thread(self._closer.begin)
        await asyncio.to_thread(self._heartbeat.beat)
        work = [
            self._heartbeat.run(),
            self._closer.run(),
            background.checkpoint_loop(self._database),
            background.measure_loop_lag(self._metrics),
            self._control_plane.prepare(),
        ]
        if self._webhook is not None:
            work.append(self._webhook.run())
        tasks = [asyncio.create_task(each) for each in work]
        with garbage_collection():
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await self._stop()

    async def _stop(self) -> None:
        await self._transport.aclose()
        await self._recorder.stop()
        self._metrics.sample()
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self._heartbeat.retire)
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)
        self._database.close()


def _request_counts(notices: RequestNotices) -> RequestCounts:
    """Return what metrics read of notices."""
    unattributed = notices.unattributed
    return RequestCounts(
        refused={
            AGENTS: lambda: notices.refusals.counts,
            CONTROL: lambda: notices.control.counts,
        },
        unattributed=lambda: {} if unattributed is None else unattributed.counts,
    )


class LazyControlPlane:
    """The control plane, built in a thread while agents are served already.

    Arguments:
        build: builds it; called by one thread at a time.
    """

    def __init__(self, build: Callable[[], ControlPlane]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._built: ControlPlane | None = None
        self._building: asyncio.Task[ControlPlane] | None = None

    def get(self) -> ControlPlane:
        """Return the control plane, building it in this thread if need be."""
        with self._lock:
            if self._built is None:
                self._built = self._build()
            return self._built

    async def ready(self) -> ControlPlane:
        """Wait for the control plane; raises what building it raised, and the next call retries."""
        if self._built is not None:
            return self._built
        if self._building is None or self._building.done():
            self._building = asyncio.create_task(run_in_thread(self.get))
        return await asyncio.shield(self._building)

    async def prepare(self) -> None:
        """Build the control plane; a failure is logged, and requests for it answer 500."""
        try:
            await self.ready()
            gc.freeze()  # it too lives as long as the process
        except Exception:  # of any kind: agents are served without it
            log.exception("cannot build the control plane")
