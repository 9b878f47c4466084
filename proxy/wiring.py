"""Build the parts of a service from its settings."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from proxy.recording.spill import SpillFile
from proxy.relay.admission import Access, AccessState, AccessUnknownError
from proxy.relay.context import CallLimits
from proxy.routing.upstreams import Upstream
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.telemetry import traces
from proxy.telemetry.metrics import SHARED

_DRAIN_S = 60.0  # how long an answer is read on without its agent, where it is


def spill_folder(database: Database, settings: Settings) -> Path | None:
    """The folder of the spill files; None where nothing is spilled."""
    return database.spill_place(Path(settings.spill_dir) if settings.spill_dir else None)


def open_spill(place: Path | None, worker: str) -> SpillFile | None:
    """This worker's spill file; None where nothing is spilled."""
    return SpillFile.of(place, worker) if place else None


def shared_metrics_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder in which workers share their metrics; None for one process."""
    named = environment.get(SHARED)
    return Path(named) if named else None


def trace_exporter(
    settings: Settings, upstreams: Mapping[str, Upstream], worker: str
) -> traces.Traces | None:
    """The exporter of traces; None where no endpoint is set."""
    if settings.otlp_endpoint is None:
        return None
    return traces.to(settings.otlp_endpoint, upstreams, worker=worker)


def rollout_access(database: Database) -> Access:
    """What opens a rollout, looked up in the database."""

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

    return Access(look_up=look_up, count=count, wall=time.time, clock=time.monotonic)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise AccessUnknownError from error


def call_limits(settings: Settings) -> CallLimits:
    """The bounds of one call, from the settings."""
    return CallLimits(
        connect_s=settings.connect_timeout_s,
        read_s=settings.read_timeout_s,
        write_s=settings.write_timeout_s,
        body_bytes=settings.body_limit,
        drain_s=_DRAIN_S if settings.drain_on_disconnect else 0.0,
    )


def new_id() -> str:
    """An id that sorts by time: 13 hexadecimal digits of microseconds, 11 random ones."""
    return f"{time.time_ns() // 1000:013x}{random.getrandbits(44):011x}"
