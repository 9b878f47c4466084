"""The work of traces in a process: to export a span of each call and each verdict."""

from __future__ import annotations

import asyncio

from proxy.features.traces import exporter
from proxy.features.traces.settings import TraceSettings
from proxy.parts import NOTHING, Parts, Started


def start(parts: Parts) -> Started:
    """Export spans if a collector is set."""
    endpoint = parts.settings_of(TraceSettings).otlp_endpoint
    if endpoint is None:
        return NOTHING
    traces = exporter.to(endpoint, parts.upstreams, worker=parts.worker)

    async def stop() -> None:
        await asyncio.to_thread(traces.close)

    return Started(flushed=traces.observe, judged=traces.judged, stop=stop)
