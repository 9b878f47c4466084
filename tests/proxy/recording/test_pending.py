"""Openings of calls: held back for milliseconds, so that a short call is written once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxy.recording import backlog
from tests.proxy.recording.memory_writer import BEGUN, ENDED, PATIENCE_S, MemoryWriter, recording


async def test_a_call_in_flight_is_written_within_milliseconds() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        await asyncio.wait_for(recorder.opened("x", lambda: BEGUN), PATIENCE_S)
        assert [exchange.id for batch in writer.batches for exchange in batch.opened] == ["x"]


async def test_who_waits_for_a_note_has_it_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        noted = recorder.opened("x", lambda: BEGUN)
        recorder.flush_starts()
        await asyncio.wait_for(noted, PATIENCE_S)
        assert writer.batches[0].opened == [BEGUN]


async def test_a_call_that_is_over_before_it_was_noted_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        noted = recorder.opened("x", lambda: BEGUN)
        await recorder.recorded(ENDED)
        assert noted.done()
        recorder.flush_starts()
    assert [(batch.opened, batch.recorded) for batch in writer.batches] == [([], [ENDED])]


async def test_a_call_that_has_only_begun_is_not_written_with_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        older = recorder.opened("x", lambda: BEGUN)
        recorder._openings.write_older()
        younger = recorder.opened("y", lambda: replace(BEGUN, id="y"))
        recorder._openings.write_older()
        await asyncio.wait_for(older, PATIENCE_S)
        assert [batch.opened for batch in writer.batches] == [[BEGUN]]
        assert not younger.done()


async def test_what_was_noted_when_the_service_stops_is_written() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        recorder.opened("x", lambda: BEGUN)
    assert writer.batches[0].opened == [BEGUN]
