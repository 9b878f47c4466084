"""Lag of the event loop: how late it runs what is ready to run."""

from __future__ import annotations

import asyncio
import time

from proxy.telemetry.metrics import Metrics

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
