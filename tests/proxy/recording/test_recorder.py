"""The recorder: a call is durable when its future is done, in few commits."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from classifier.records import Ending
from proxy.recording.backlog import FlushResult
from proxy.store.tables import CommitBatch
from tests.proxy.clocks import HandTurned
from tests.proxy.recording.memory_writer import BEGUN, ENDED, MemoryWriter, recording


async def test_done_means_durable() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        await recorder.record_durably(ENDED)
        assert writer.recorded == ["x"]


async def test_what_waits_together_is_committed_together() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        writer.gate.clear()
        waiting = [recorder.record_durably(replace(ENDED, id=str(n))) for n in range(100)]
        await asyncio.sleep(0.05)
        writer.gate.set()
        await asyncio.gather(*waiting)
    assert len(writer.batches) <= 2
    assert sorted(writer.recorded, key=int) == [str(n) for n in range(100)]


async def test_stopping_writes_what_is_queued() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        for n in range(50):
            recorder.record_durably(replace(ENDED, id=str(n)))
    assert len(writer.recorded) == 50


async def test_a_waiter_that_was_cancelled_hurts_nobody() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        recorder.record_durably(ENDED).cancel()
        await recorder.record_durably(replace(ENDED, id="y"))
    assert writer.recorded == ["x", "y"]


async def test_who_wants_no_future_is_called_when_it_is_durable() -> None:
    writer, called = MemoryWriter(), list[str]()
    async with recording(writer) as recorder:
        recorder.begin("x", lambda: BEGUN, lambda: called.append("begun"))
        recorder.flush_starts()
        recorder.record(ENDED, lambda: called.append("ended"))
        assert (called, recorder.in_flight) == ([], 0)
        recorder.begin("y", lambda: BEGUN, lambda: called.append("never: it ends first"))
        recorder.record(replace(ENDED, id="y"), lambda: called.append("y"))
        await recorder.record_durably(replace(ENDED, id="z"))
        assert called == ["begun", "ended", "y"]
    assert [each.id for batch in writer.batches for each in batch.opened] == ["x"]


async def test_calls_are_in_flight_until_they_end() -> None:
    async with recording(MemoryWriter()) as recorder:
        for begun in (replace(ENDED, id=name, ending=None) for name in "ab"):
            await recorder.begin_durably(begun.id, partial(replace, begun))
        assert recorder.in_flight == 2
        await recorder.record_durably(replace(ENDED, id="a"))
        assert recorder.in_flight == 1
        await recorder.record_durably(
            replace(ENDED, id="c", ending=Ending.LEFT_BY_AGENT)
        )  # unnoted
        assert recorder.in_flight == 1


@pytest.mark.reaches_in
async def test_a_call_waits_as_long_as_its_commit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    class Telling(MemoryWriter):
        def write(self, batch: CommitBatch, *, worker: str) -> None:
            began.set()
            super().write(batch, worker=worker)

    writer, turns, clock = Telling(), list[FlushResult](), HandTurned(20.0)
    monkeypatch.setattr("proxy.recording.recorder.time", SimpleNamespace(perf_counter=clock))
    async with recording(writer) as recorder:
        recorder.add_observer(turns.append)
        writer.gate.clear()
        done = recorder.record_durably(ENDED)
        while not began.is_set():
            await asyncio.sleep(0.005)
        clock.now += 0.2
        writer.gate.set()
        await done
    (waited_s,) = turns[0].waited_s
    assert waited_s == pytest.approx(0.2)
    assert turns[0].took_s == pytest.approx(0.2)


# --- Reports to observers: each call that ended once, and no observer hurts another ---------------


async def test_what_was_told_is_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.recording.recorder._REMEMBERED", 10)
    turns: list[FlushResult] = []
    async with recording(MemoryWriter()) as recorder:
        recorder.add_observer(turns.append)
        for n in range(25):
            await recorder.record_durably(replace(ENDED, id=str(n)))
            await recorder.record_durably(
                replace(ENDED, id=str(max(0, n - 5)))
            )  # a late second one
        assert len(recorder._reports._reported) + len(recorder._reports._reported_before) <= 20  # noqa: SLF001  what is remembered is bounded
    assert [e.id for turn in turns for e in turn.ended] == [str(n) for n in range(25)]


async def test_who_watches_badly_hurts_nobody() -> None:
    def broken(_turn: FlushResult) -> None:
        raise RuntimeError

    turns: list[FlushResult] = []
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        recorder.add_observer(broken)
        recorder.add_observer(turns.append)
        await recorder.record_durably(ENDED)
        await recorder.record_durably(replace(ENDED, id="y"))
    assert writer.recorded == ["x", "y"]
    assert len(turns) == 2
