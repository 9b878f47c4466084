"""Calls as the recorder tells of them: each that ended is counted once."""

from __future__ import annotations

from dataclasses import replace

from tests.features.metrics.test_metrics import metrics, value
from tests.proxy.recording.memory_writer import ENDED, MemoryWriter, recording


async def test_a_call_that_is_written_twice_is_told_once() -> None:
    counting = metrics()
    async with recording(MemoryWriter()) as recorder:
        recorder.add_observer(counting.observe)
        recorder.begin_durably(ENDED.id, lambda: replace(ENDED, ending=None))
        recorder.flush_starts()
        await recorder.record_durably(ENDED)
        await recorder.record_durably(replace(ENDED, response_bytes=14))
        await recorder.record_durably(replace(ENDED, id="y"))
    assert value(counting, "truezero_exchanges_total", ending="complete") == 2
