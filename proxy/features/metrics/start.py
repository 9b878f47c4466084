"""The work of metrics in a process: to count calls, and to measure the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from proxy.control.pricing import PriceTable
from proxy.control.queries import version
from proxy.features.metrics.metrics import AGENTS, CONTROL, Metrics, RequestCounts
from proxy.features.metrics.multiprocess import SHARED
from proxy.parts import Parts, Started
from proxy.relay.context import RefusedRequests
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.tables import StoreCounts


def start(parts: Parts) -> Started:
    """Count what is written and refused; add it up with other workers where they share a folder."""
    metrics = Metrics(
        parts.recorder,
        census=partial(_census, parts.database, parts.prices),
        version=version(),
        prices=parts.prices,
        requests=_request_counts(parts.refused),
        shared=shared_folder(parts.environment),
    )

    async def stop() -> None:
        metrics.sample()

    return Started(
        run=partial(measure_loop_lag, metrics),
        stop=stop,
        flushed=metrics.observe,
        judged=metrics.judged,
        refused_calls=metrics.refused_calls,
        state={"exposition": metrics.exposition},
    )


def shared_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder in which workers share their metrics; None for a single process."""
    named = environment.get(SHARED)
    return Path(named) if named else None


def _census(database: Database, prices: PriceTable) -> StoreCounts:
    """Count what the database holds.

    Raises:
        StoreError: the database is unavailable.
    """
    from proxy.control import health  # noqa: PLC0415  with the control plane, not at the start

    now = time.time()
    lanes = health.lane_counts(database, prices, now)
    return replace(database.read(statistics.counts, now), lanes=lanes)


def _request_counts(refused: RefusedRequests) -> RequestCounts:
    """Return the counts that metrics read."""
    unattributed = refused.unattributed
    return RequestCounts(
        refused={
            AGENTS: lambda: refused.calls.counts,
            CONTROL: lambda: refused.control.counts,
        },
        unattributed=lambda: {} if unattributed is None else unattributed.counts,
    )


# --- lag of the event loop ---------------------------------------------------------------------


_INTERVAL_S = 0.5


async def measure_loop_lag(metrics: Metrics) -> None:
    """Measure until cancelled how long a callback from another thread waits for this loop.

    A chunk that arrives waits as long. Takes a sample of the other metrics each time, too.
    """
    while True:
        await asyncio.sleep(_INTERVAL_S)
        await asyncio.to_thread(metrics.sample)
        called = await asyncio.to_thread(time.perf_counter)
        metrics.late(time.perf_counter() - called)
