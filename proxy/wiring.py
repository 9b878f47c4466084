"""Build the parts of a service from its settings."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from proxy.api.auth import ControlAuth, Sessions
from proxy.capture.observer import SilenceLimits
from proxy.clock import epoch_s
from proxy.inbound.connections import Certificate, ConnectionLimits
from proxy.outbound.credentials import signers
from proxy.outbound.request import UpstreamTransport
from proxy.recording.backlog import SpillFile
from proxy.relay.admission import Access, AccessState, AccessUnknownError
from proxy.relay.context import (
    CallLimits,
    CallRecorder,
    LiveCalls,
    RelayContext,
    RequestNotices,
    UnattributedCalls,
)
from proxy.routing.addresses import LocalNames
from proxy.routing.keys import Keyring, OperatorKeys
from proxy.routing.target import Addresses
from proxy.routing.upstreams import Upstream
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.telemetry import traces
from proxy.telemetry.metrics import SHARED

_DRAIN_S = 60.0  # how long a response is read on for its usage after the agent left


def spill_place(database: Database, settings: Settings) -> Path | None:
    """Return the common beginning of the spill files' paths; None if nothing is spilled."""
    return database.spill_place(Path(settings.spill_dir) if settings.spill_dir else None)


def open_spill(place: Path | None, worker: str) -> SpillFile | None:
    """Return this worker's spill file; None if nothing is spilled."""
    return SpillFile.of(place, worker) if place else None


def shared_metrics_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder in which workers share their metrics; None for a single process."""
    named = environment.get(SHARED)
    return Path(named) if named else None


def trace_exporter(
    settings: Settings, upstreams: Mapping[str, Upstream], worker: str
) -> traces.Traces | None:
    """Return the exporter of traces; None if no endpoint is set."""
    if settings.otlp_endpoint is None:
        return None
    return traces.to(settings.otlp_endpoint, upstreams, worker=worker)


def rollout_access(database: Database) -> Access:
    """Look up in the database what a rollout's key still opens, and its injected fault."""

    def look_up(rollout_id: str) -> AccessState | None:
        from truezero.models import Fault  # noqa: PLC0415  the REST contract, 12 ms of a start

        with _away():
            row = database.rollouts.row(rollout_id)
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
            return database.rollouts.next_drilled_call(rollout_id)

    def answered(rollout_id: str, upstream: str, response_digest: str) -> bool:
        with _away():
            return database.calls.answered(
                rollout_id, upstream=upstream, response_digest=response_digest
            )

    return Access(
        look_up=look_up,
        count=count,
        answered=answered,
        wall=epoch_s,
        clock=time.monotonic,
    )


@contextlib.contextmanager
def _away() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise AccessUnknownError from error


def certificate(settings: Settings) -> Certificate | None:
    """Return what agents are shown; None where they speak plain HTTP.

    Raises:
        CertificateError: the files cannot be used.
    """
    if settings.certfile is None or settings.keyfile is None:
        return None
    return Certificate(settings.certfile, settings.keyfile)


def control_auth(settings: Settings, secret: bytes) -> ControlAuth:
    """Return what authenticates requests to the control plane; ``secret`` signs sessions."""
    token = settings.admin_token.get_secret_value().encode() if settings.admin_token else None
    return ControlAuth(token, Sessions.of(secret, token), time.time, local_names(settings))


def local_names(settings: Settings) -> LocalNames:
    """Return the names under which the service is asked where no token is set."""
    return LocalNames(urlsplit(settings.public_url or "").hostname)


def unattributed_calls(settings: Settings) -> UnattributedCalls | None:
    """Return what lets in calls that name no rollout; None where they are refused.

    They are let in where only this machine's one user can make them.
    """
    if settings.exposed or settings.admin_token is not None or settings.require_registration:
        return None
    return UnattributedCalls(local_names(settings))


def relay_context(
    settings: Settings,
    environment: Mapping[str, str],
    *,
    transport: UpstreamTransport,
    recorder: CallRecorder,
    keyring: Keyring,
    salt: bytes,
    access: Access,
    admits: Callable[[str], Awaitable[None]],
) -> RelayContext:
    """Return what the relays work with; ``admits`` is used if registration is required."""
    signing = signers(environment, time.monotonic)
    upstreams, unattributed = settings.allow_list(), unattributed_calls(settings)
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
        notices=RequestNotices(unattributed=unattributed),
        live=LiveCalls(
            total=settings.max_concurrent_calls or None,
            per_rollout=settings.max_concurrent_calls_per_rollout or None,
        ),
    )


def call_limits(settings: Settings) -> CallLimits:
    """Return the limits of one call."""
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        read_s=settings.read_timeout_s,
        write_s=settings.write_timeout_s,
        body_bytes=settings.body_limit,
        drain_s=_DRAIN_S if settings.drain_on_disconnect else 0.0,
        silence=SilenceLimits(
            stall_s=settings.stall_s,
            first_content_s=settings.first_content_s,
            whole_answer_s=settings.whole_answer_s,
        ),
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of agents' connections."""
    return ConnectionLimits(
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=settings.idle_timeout_s,
        total=settings.max_connections or None,
        per_address=settings.max_connections_per_address or None,
        certificate=certificate(settings),
    )


_newest_us = 0  # of the ids, in microseconds since the epoch


def new_id() -> str:
    """Return an id that sorts by time: 13 hexadecimal digits of microseconds, 11 random ones."""
    global _newest_us  # noqa: PLW0603  the ids of one process go up, whatever its clock does
    now_us = time.time_ns() // 1000
    _newest_us = now_us if now_us > _newest_us else _newest_us + 1
    return f"{_newest_us:013x}{random.getrandbits(44):011x}"
