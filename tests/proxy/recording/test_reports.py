"""Reports to observers: each call that ended once, and no observer hurts another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.recording.backlog import FlushResult
from tests.proxy.recording.memory_writer import ENDED, MemoryWriter, recording
from tests.proxy.telemetry.test_metrics import metrics, value


async def test_a_call_that_is_written_twice_is_told_once() -> None:
    counting = metrics()
    async with recording(MemoryWriter()) as recorder:
        recorder.add_observer(counting.observe)
        recorder.opened(ENDED.id, lambda: replace(ENDED, ending=None))
        recorder.flush_starts()
        await recorder.recorded(ENDED)
        await recorder.recorded(replace(ENDED, response_bytes=14))
        await recorder.recorded(replace(ENDED, id="y"))
    assert value(counting, "truezero_exchanges_total", ending="complete") == 2


async def test_what_was_told_is_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.recording.recorder._REMEMBERED", 10)
    turns: list[FlushResult] = []
    async with recording(MemoryWriter()) as recorder:
        recorder.add_observer(turns.append)
        for n in range(25):
            await recorder.recorded(replace(ENDED, id=str(n)))
            await recorder.recorded(replace(ENDED, id=str(max(0, n - 5))))  # a late second one
        assert len(recorder._reports._reported) + len(recorder._reports._reported_before) <= 20
    assert [e.id for turn in turns for e in turn.ended] == [str(n) for n in range(25)]


async def test_who_watches_badly_hurts_nobody() -> None:
    def broken(_turn: FlushResult) -> None:
        raise RuntimeError

    turns: list[FlushResult] = []
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        recorder.add_observer(broken)
        recorder.add_observer(turns.append)
        await recorder.recorded(ENDED)
        await recorder.recorded(replace(ENDED, id="y"))
    assert writer.recorded == ["x", "y"]
    assert len(turns) == 2
