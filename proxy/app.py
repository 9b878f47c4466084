"""The ASGI application of one process: builds its parts, joins them, and runs their lifespan."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from classifier.causes import Classify, classify, read_tables
from classifier.records import Exchange
from classifier.verdicts import UNTRUSTED, Verdict
from proxy.api.auth import ControlAuth, PortPolicy, Sessions
from proxy.asking.asker import ReferenceAsker
from proxy.asking.ways import Ways
from proxy.capture.observer import CauseRules, SilenceLimits
from proxy.clock import epoch_s
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service, ask_nothing, run_in_thread
from proxy.feature import only_module
from proxy.inbound.asgi import Receive, Scope, Send, noting_refusals, send_refusal
from proxy.inbound.connections import ConnectionLimits
from proxy.inbound.http import AgentCalls
from proxy.outbound.credentials import signers
from proxy.outbound.dial import is_own_address
from proxy.outbound.transport import Http1Transport
from proxy.parts import Parts, only, start
from proxy.recording.backlog import FlushObserver, SpillFile
from proxy.recording.recorder import Recorder
from proxy.recording.turned_away import TurnedAway
from proxy.relay.admission import Access, AccessState, AccessUnknownError, RolloutRule
from proxy.relay.context import (
    CallLimits,
    CallRecorder,
    LiveCalls,
    RefusedRequests,
    RelayContext,
    UnattributedCalls,
    WayNoted,
    note_nothing,
)
from proxy.relay.hold import Hold
from proxy.relay.relay import Relay
from proxy.relay.sockets import AgentSockets
from proxy.routing.address_guard import AddressGuard, LocalNames
from proxy.routing.errors import Refusal
from proxy.routing.headers import key_digest
from proxy.routing.keys import Keyring, KeyUse, OperatorKeys
from proxy.routing.target import Addresses
from proxy.routing.upstreams import asks_for_no_key
from proxy.server import background
from proxy.server.background import LEAVING, EndedRollouts, Heartbeat, garbage_collection
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.store.limits_reached import note_limits_reached

if TYPE_CHECKING:
    from proxy.control.look import Conditions
    from proxy.control_plane import ControlPlane


# --- parts of the service, built from its settings ---------------------------------------------


_DRAIN_S = 60.0  # how long a response is read on for its usage after the agent left


def spill_place(database: Database, settings: Settings) -> Path | None:
    """Return the common beginning of the spill files' paths; None if nothing is spilled."""
    return database.spill_place(Path(settings.spill_dir) if settings.spill_dir else None)


def open_spill(place: Path | None, worker: str) -> SpillFile | None:
    """Return this worker's spill file; None if nothing is spilled."""
    return SpillFile.of(place, worker) if place else None


def rollout_access(database: Database, rules: Sequence[RolloutRule], *, agents: str) -> Access:
    """Look up in the database what a rollout's key still opens, and the rules that it is under.

    Arguments:
        agents: how agents are trusted where a rollout's batch does not say.
    """

    def look_up(rollout_id: str) -> AccessState | None:
        with _away():
            row = database.rollouts.row(rollout_id)
            if row is None:
                return None
            known = {rule: found for rule in rules if (found := rule.look_up(row)) is not None}
        ends = [at for at in (row["outcome_at"], row["revoked_at"]) if at is not None]
        return AccessState(
            ends_at=min(ends, default=None),
            upstream=row["upstream"],
            rules=known,
            untrusted=(row["agents"] or agents) == UNTRUSTED,
        )

    def answered(rollout_id: str, upstream: str, response_digest: str) -> bool:
        with _away():
            return database.calls.answered(
                rollout_id, upstream=upstream, response_digest=response_digest
            )

    return Access(look_up=look_up, answered=answered, wall=epoch_s, clock=time.monotonic)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise AccessUnknownError from error


def control_auth(settings: Settings, secret: bytes) -> ControlAuth:
    """Return what authenticates requests to the control plane; ``secret`` signs sessions."""
    token = settings.admin_token.get_secret_value().encode() if settings.admin_token else None
    return ControlAuth(
        token,
        Sessions.of(secret, token),
        time.time,
        local_names(settings),
        status_public=settings.status_public,
    )


def local_names(settings: Settings) -> LocalNames:
    """Return the names under which the service is asked where no token is set."""
    return LocalNames(urlsplit(settings.public_url or "").hostname)


def unattributed_calls(settings: Settings) -> UnattributedCalls | None:
    """Return what lets in calls that name no rollout; None if they are refused.

    They are let in where only this machine's one user can make them.
    """
    if settings.exposed or settings.admin_token is not None or settings.require_registration:
        return None
    return UnattributedCalls(local_names(settings))


def relay_context(
    settings: Settings,
    environment: Mapping[str, str],
    *,
    transport: Http1Transport,
    recorder: CallRecorder,
    keyring: Keyring,
    salt: bytes,
    access: Access,
    holds: tuple[Hold, ...],
    refused: RefusedRequests,
    turned_away: TurnedAway,
    admits: Callable[[str], Awaitable[None]],
    classify: Classify = classify,
    on_failure: Callable[[Exchange], object] | None = None,
    note_way: WayNoted = note_nothing,
) -> RelayContext:
    """Return what the relays work with; ``admits`` is used if registration is required."""
    signing = signers(environment, time.monotonic)
    upstreams, unattributed = settings.allow_list(), refused.unattributed
    operator_keys = OperatorKeys(
        static=settings.real_keys(environment),
        signed=frozenset(signing),
        replace=settings.replaces_keys,
        any_path=settings.operator_key_paths == "any",
        guards_keyless=settings.admin_token is not None and settings.operator_key_paths != "any",
    )
    return RelayContext(
        upstreams=upstreams,
        transport=transport,
        recorder=recorder,
        addresses=Addresses(
            upstreams,
            keyring,
            operator_keys=operator_keys,
            proof_required=settings.admin_token is not None,
            unattributed=None if unattributed is None else unattributed.admit,
        ),
        salt=salt,
        new_id=new_id,
        wall=epoch_s,
        clock=time.monotonic,
        limits=call_limits(settings),
        admits=admits if settings.require_registration else None,
        operator_keys=operator_keys,
        signers=signing,
        access=access,
        holds=holds,
        refused=refused,
        live=LiveCalls(
            total=settings.max_concurrent_calls or None,
            per_rollout=settings.max_concurrent_calls_per_rollout or None,
            turned_away=turned_away,
        ),
        causes=cause_rules(settings, classify, on_failure),
        note_way=note_way,
    )


def _key_names(context: RelayContext, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the operator's keys are from, by the digests of the keys."""
    keys, names = context.operator_keys, {}
    for upstream in context.upstreams.values():
        if keys.use(upstream) in (KeyUse.OPERATORS, KeyUse.EITHER):
            digest = key_digest(keys.identity(upstream), context.salt)
            signed = f"the service's own {upstream.auth.value} credentials"
            names[digest or ""] = settings.get(upstream.name, signed)
    return names


def has_reference_key(context: RelayContext, name: str) -> bool:
    """Return True if the operator may have a key for an upstream, or it asks for none."""
    upstream, keys = context.upstreams.get(name), context.operator_keys
    if upstream is None:
        return False
    return keys.use(upstream) is not KeyUse.CALLERS or asks_for_no_key(upstream)


def call_limits(settings: Settings) -> CallLimits:
    """Return the limits of one call."""
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        read_s=settings.read_timeout_s,
        write_s=settings.write_timeout_s,
        body_bytes=settings.body_limit,
        drain_s=_DRAIN_S if settings.drain_on_disconnect else 0.0,
    )


def cause_rules(
    settings: Settings,
    classify: Classify = classify,
    on_failure: Callable[[Exchange], object] | None = None,
) -> CauseRules:
    """Return what names the causes of failed calls."""
    return CauseRules(
        silence=SilenceLimits(
            stall_s=settings.stall_s,
            first_content_s=settings.first_content_s,
            whole_answer_s=settings.whole_answer_s,
        ),
        classify=classify,
        on_failure=on_failure,
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of agents' connections."""
    return ConnectionLimits(
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=settings.idle_timeout_s,
        total=settings.max_connections or None,
        per_address=settings.max_connections_per_address or None,
    )


_newest_us = 0  # of the ids, in microseconds since the epoch


def new_id() -> str:
    """Return an id that sorts by time: 13 hexadecimal digits of microseconds, 11 random ones."""
    global _newest_us  # noqa: PLW0603  the ids of one process go up, whatever its clock does
    now_us = time.time_ns() // 1000
    _newest_us = now_us if now_us > _newest_us else _newest_us + 1
    return f"{_newest_us:013x}{random.getrandbits(44):011x}"


# --- application -------------------------------------------------------------------------------


log = logging.getLogger("truezero")


class Application:
    """The service of one process, as an ASGI application.

    Arguments:
        observers: called with every flush of the recorder, beside those of features.
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
        keyring, salt = Keyring(secret), database.deployment.secret("salt")
        upstreams = settings.allow_list()
        self._ports = PortPolicy(settings.control_port or None)
        self._auth = control_auth(settings, secret)
        prices = PriceTable(upstreams)
        refused = RefusedRequests(unattributed=unattributed_calls(settings))
        self._features = start(
            Parts(
                settings=settings,
                policy=settings.policy,
                environment=environment,
                database=database,
                recorder=self._recorder,
                upstreams=upstreams,
                prices=prices,
                refused=refused,
                worker=worker,
                workers=settings.workers,
                agents_only=agents_only,
                conditions=self._conditions,
            )
        )
        self._on_failure = [e.failed for e in self._features if e.failed is not None]
        self._on_final_verdict = [e.judged for e in self._features if e.judged is not None]
        rules = [each.rule for each in self._features if each.rule is not None]
        self._access = rollout_access(database, rules, agents=settings.policy.agents)
        self._heartbeat = Heartbeat(
            database,
            worker=worker,
            access=self._access,
            rules=rules,
            ended_sessions=self._auth.sessions.ended,
            spill_place=spills,
        )
        self._turned_away = TurnedAway(partial(note_limits_reached, database.connections))
        guard = AddressGuard.of(upstreams, settings.own_addresses(is_own_address))
        self._transport = Http1Transport(reach=guard)
        ways = Ways(database.references)
        context = relay_context(
            settings,
            environment,
            transport=self._transport,
            recorder=self._recorder,
            keyring=keyring,
            salt=salt,
            access=self._access,
            holds=tuple(each.hold for each in self._features if each.hold is not None),
            refused=refused,
            turned_away=self._turned_away,
            admits=self._admits,
            classify=only(each.classify for each in self._features) or classify,
            on_failure=self._failed,
            note_way=ways.note,
        )
        self._access.on_untrusted = context.live.conversations.compare
        self.on_connections_full = context.live.share  # as the server's connections say
        self._closer = EndedRollouts(
            database.closings,
            worker=worker,
            access=self._access,
            live=context.live,
            missing=self._recorder.missing,
            grace_s=settings.outcome_grace_s,
        )
        self._asker = ReferenceAsker(
            context,
            database.references,
            database.rollouts,
            worker=worker,
            agents=settings.policy.agents,
            ways=ways,
            enabled=settings.reference_calls,
            cost=prices.of_question,
        )
        self._relay = Relay(context)
        sockets = only_module("sockets")
        self._sockets: AgentSockets | None = (
            None if sockets is None else sockets.relay(context, guard)
        )
        flushed = [each.flushed for each in self._features if each.flushed is not None]
        for observer in (*flushed, *observers):
            self._recorder.add_observer(observer)
        service = Service(
            database=database,
            recorder=self._recorder,
            keyring=keyring,
            upstreams=upstreams,
            prices=prices,
            policy=settings.policy,
            salt=salt,
            new_id=new_id,
            stopping=LEAVING.is_set,
            proof_required=settings.admin_token is not None,
            registration_required=settings.require_registration,
            access_changed=self._access.changed,
            worker=worker,
            close_here=self._closer.close,
            ask_references=self._asker.ask if settings.reference_calls else ask_nothing,
            ask_reference=self._asker.ask_now,
            reference_key=partial(has_reference_key, context),
            refused_calls=self._refused_calls(),
            on_final_verdict=self._judged,
            pages_url=settings.dashboard_url or settings.public_url,
            key_names=_key_names(context, settings.key_names(environment)),
        )
        self._control_plane = LazyControlPlane(lambda: self._build_control_plane(settings, service))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass agents' WebSockets to who takes them, all else to the control plane."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if scope["type"] == "http":
            send = noting_refusals(send, self.refused.control)
            try:
                self._ports.check(scope)
                self._auth.check(scope)
            except Refusal as refusal:
                await send_refusal(refusal, send)
                return
        elif (
            self._sockets is not None
            and self._ports.serves_agents(scope)
            and self._sockets.claims(scope["raw_path"])
        ):
            await self._sockets(scope, receive, send)
            return
        control_plane = await self._control_plane.ready()
        await control_plane.app(scope, receive, send)  # type: ignore[arg-type]  # dicts both

    def agent_calls(self, scope: Scope) -> AgentCalls | None:
        """Return what relays the calls of a connection; None for one of the control plane."""
        return self._relay.agent_calls() if self._ports.serves_agents(scope) else None

    @property
    def refused(self) -> RefusedRequests:
        """Counts and log lines about requests, kept beside the exchanges."""
        return self._relay.refused

    def control_plane(self) -> ControlPlane:
        """Return the control plane, built if need be."""
        return self._control_plane.get()

    def _judged(self, verdict: Verdict) -> None:
        for judged in self._on_final_verdict:
            judged(verdict)

    def _build_control_plane(self, settings: Settings, service: Service) -> ControlPlane:
        # Imported here: FastAPI and the rest are half of a start, and no agent's call needs them.
        from proxy import control_plane  # noqa: PLC0415

        read_tables()  # a start need not wait for them, nor an agent whose call fails first
        state = {name: one for each in self._features for name, one in each.state.items()}
        return control_plane.build(settings, service, auth=self._auth, state=state)

    def _refused_calls(self) -> Callable[[], Mapping[str, int]]:
        """Return what counts agents' refused requests: a feature in all processes, else this."""
        counted = [e.refused_calls for e in self._features if e.refused_calls is not None]
        return counted[0] if counted else lambda: self.refused.calls.counts

    def _failed(self, exchange: Exchange) -> None:
        self._asker.failed(exchange)
        for failed in self._on_failure:
            failed(exchange)

    async def _conditions(self) -> Conditions:
        return await (await self._control_plane.ready()).conditions()

    async def _admits(self, rollout_id: str) -> None:
        await (await self._control_plane.ready()).require_registered(rollout_id)

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
            self._control_plane.prepare(),
        ]
        work += [each.run() for each in self._features if each.run is not None]
        tasks = [asyncio.create_task(each) for each in work]
        with garbage_collection():
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await self._stop()

    async def _stop(self) -> None:
        await self._asker.aclose()
        await self._transport.aclose()
        await self._recorder.stop()
        await self._turned_away.stop()
        for each in self._features:
            if each.stop is not None:
                await each.stop()
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self._heartbeat.retire)
        self._database.close()


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
