"""The backlog: in order, bounded, and honest about what it lost."""
# ruff: noqa: SLF001
# Private: the turn of a thread, taken by hand.

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from classifier.records import Ending
from proxy.recording import backlog
from proxy.recording import backlog as module
from proxy.recording.backlog import BATCH, Backlog, left_behind, recover
from proxy.recording.recorder import Recorder
from proxy.store.database import Database
from proxy.store.errors import RowRejected
from proxy.store.tables import CommitBatch, Gap
from tests.proxy.recording.memory_writer import (
    BEGUN,
    ENDED,
    PATIENCE_S,
    MemoryWriter,
    away,
    recording,
)
from tests.proxy.recording.test_spill import spilling
from tests.proxy.store.records import loaded


async def test_memory_is_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", 3)
    writer = MemoryWriter(fails=away)
    async with recording(writer) as recorder:
        for n in range(5):
            await recorder.record_durably(replace(ENDED, id=str(n)))
            assert recorder.missing("r") == n + 1
        assert recorder.gaps_counted == 2
        writer.fails = lambda _batch: None
        async with asyncio.timeout(PATIENCE_S):
            while recorder.missing("r"):
                await asyncio.sleep(0.02)
    assert len(writer.recorded) == 3
    assert sum(gap.count for batch in writer.batches for gap in batch.gaps.values()) == 2


def drained(backlog: Backlog) -> list[str]:
    """Ids of the exchanges, in the order in which they are committed."""
    ids: list[str] = []
    while (batch := backlog.next_batch()) is not None:
        exchanges = [*batch.opened, *batch.recorded]
        ids += [exchange.id for exchange in exchanges]
        backlog.remove(len(exchanges))
        backlog.settle(batch.gaps)
    return ids


def test_nothing_is_kept_unless_a_commit_has_failed() -> None:
    backlog = Backlog()
    assert not backlog.append([ENDED])
    assert (backlog.active, len(backlog), backlog.missing("r")) == (False, 0, 0)


def test_it_is_active_until_all_of_it_is_written_in_order() -> None:
    backlog = Backlog()
    backlog.activate([replace(ENDED, id=str(n)) for n in range(BATCH)])
    assert backlog.append([replace(ENDED, id=str(BATCH))])
    assert backlog.active
    assert len(backlog) == backlog.missing("r") == BATCH + 1
    assert drained(backlog) == [str(n) for n in range(BATCH + 1)]
    assert (backlog.active, len(backlog), backlog.missing("r")) == (False, 0, 0)


def test_a_call_kept_at_its_opening_and_at_its_end_is_missing_once() -> None:
    backlog = Backlog()
    backlog.activate([BEGUN])
    assert backlog.missing("r") == 1
    assert backlog.append([ENDED])
    assert backlog.missing("r") == 1


def test_a_lost_call_stays_missing_until_its_gap_is_written() -> None:
    backlog = Backlog()
    backlog.lose([ENDED, replace(ENDED, id="y")])
    written = {"r": Gap(1, 1.0)}
    backlog.settle(written)
    assert backlog.missing("r") == 1
    assert backlog.gaps == written
    backlog.settle(written)
    assert (backlog.missing("r"), backlog.gaps_counted) == (0, 2)


# --------------------------------------------------------------------------------------------------
# While the database fails, agents are served; what it did not take is written afterwards


async def test_agents_are_served_while_the_database_is_away_and_written_to_it_later() -> None:
    writer = MemoryWriter(fails=away)
    async with recording(writer) as recorder:
        await asyncio.wait_for(recorder.record_durably(ENDED), PATIENCE_S)
        assert recorder.failing
        assert (recorder.missing("r"), recorder.missing("other")) == (1, 0)
        writer.fails = lambda _batch: None
        async with asyncio.timeout(PATIENCE_S):
            while recorder.missing("r"):
                await asyncio.sleep(0.02)
        assert not recorder.failing
        assert recorder.gaps_counted == 0
    assert writer.recorded == ["x"]


async def test_trouble_that_nobody_thought_of_holds_no_agent_up_and_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "RETRY_S", 0.1)
    writer = MemoryWriter(fails=lambda _batch: RuntimeError("no more files"))
    async with recording(writer) as recorder:
        await asyncio.wait_for(recorder.record_durably(ENDED), PATIENCE_S)
        assert recorder.missing("r") == 1
        tries = 0

        def broken(_: CommitBatch) -> Exception:
            nonlocal tries
            tries += 1
            return RuntimeError("no more files")

        writer.fails = broken
        async with asyncio.timeout(PATIENCE_S):
            while tries < 2:  # it is tried again, and fails again
                await asyncio.sleep(0.02)
            writer.fails = lambda _batch: None
            while recorder.failing:
                await asyncio.sleep(0.02)
        await asyncio.wait_for(recorder.record_durably(replace(ENDED, id="y")), PATIENCE_S)
    assert writer.recorded == ["x", "y"]


async def test_a_row_no_database_takes_costs_only_itself() -> None:
    def poisoned(batch: CommitBatch) -> Exception | None:
        bad = any(exchange.id == "bad" for exchange in batch.recorded)
        return RowRejected("too long") if bad else None

    writer = MemoryWriter(fails=poisoned)
    async with recording(writer) as recorder:
        writer.gate.clear()
        waiting = [recorder.record_durably(replace(ENDED, id=i)) for i in ("a", "bad", "c")]
        writer.gate.set()
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
        await recorder.record_durably(replace(ENDED, id="d"))
        assert recorder.gaps_counted == 1
        assert not recorder.failing
    assert writer.recorded == ["a", "c", "d"]
    assert sum(gap.count for batch in writer.batches for gap in batch.gaps.values()) == 1


@pytest.mark.postgres_smoke
async def test_a_number_beyond_64_bits_stops_nothing(database_url: str) -> None:
    database = Database(database_url)
    database.prepare()
    recorder = Recorder(database.calls, worker="w")
    recorder.start()
    huge = replace(ENDED, id="huge", usage=replace(ENDED.usage, input_tokens=10**30))
    await asyncio.wait_for(recorder.record_durably(huge), PATIENCE_S)
    await asyncio.wait_for(recorder.record_durably(ENDED), PATIENCE_S)
    await recorder.stop()
    assert [exchange.id for exchange in loaded(database, "r")[1].exchanges] == ["x"]
    assert recorder.gaps_counted == 1


# --- the spill of a dead process --------------------------------------------------------------


def recovered(database: Database) -> dict[str, Ending | None]:
    """How the exchanges ended that dead processes left behind."""
    assert database.file is not None
    for spill in left_behind(database.file):
        recover(database.calls, spill, worker="w")
        spill.close()
    found = database.rollouts.load("r")
    return {} if found is None else {each.id: each.ending for each in found[1].exchanges}


def test_a_call_whose_end_a_dead_process_did_not_keep_is_lost(database: Database) -> None:
    spill = spilling(database)
    assert spill.keep([replace(ENDED, ending=None), replace(ENDED, id="y", ending=None)])
    assert spill.keep([replace(ENDED, id="y")])
    spill.close()
    assert recovered(database) == {"x": Ending.LOST, "y": Ending.COMPLETE}


def test_a_line_that_a_process_died_over_spoils_no_other(database: Database) -> None:
    spill = spilling(database)
    spill.keep([ENDED])
    spill.close()
    (file,) = Path(database.file or "").parent.glob("*.spill")
    with file.open("ab") as lines:
        lines.write(b'{"id": "z", "rollout_id": "r", "ups')
    assert recovered(database) == {"x": Ending.COMPLETE}
    assert not file.exists()


def test_the_spill_of_a_living_process_is_left_alone(database: Database) -> None:
    spill = spilling(database, "alive")
    spill.keep([ENDED])
    assert recovered(database) == {}
    spill.close()
    assert recovered(database) == {"x": Ending.COMPLETE}


async def test_calls_that_end_while_others_are_written_back_keep_their_order(
    database: Database, tmp_path: Path
) -> None:
    """A stream is recorded at its terminal event, and again where more bytes came after it."""
    recorder = Recorder(database.calls, worker="w", spill=spilling(database, "w"))
    recorder.start()
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for number in range(500):
            await recorder.record_durably(replace(ENDED, id=str(number)))
        other.execute("ROLLBACK")
    for number in range(500):
        await recorder.record_durably(replace(ENDED, id=str(number), response_bytes=7))
        assert recorder.missing("other") == 0
    await recorder.stop()
    assert [each.response_bytes for each in loaded(database, "r")[1].exchanges] == [7] * 500
    assert recorder.missing("r") == 0
    assert not list(tmp_path.glob("*.spill"))


def test_a_row_rejected_from_a_dead_processs_spill_is_counted_as_a_gap(database: Database) -> None:
    """Its verdict would otherwise call the rollout complete."""
    spill = spilling(database)
    huge = replace(ENDED, id="huge", request_bytes=2**63)
    assert spill.keep([ENDED, huge])
    spill.close()
    assert recovered(database) == {"x": Ending.COMPLETE}
    assert loaded(database, "r")[1].gaps == 1


# --- Openings of calls: held back for milliseconds, so that a short call is written once ----------


async def test_a_call_in_flight_is_written_within_milliseconds() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        await asyncio.wait_for(recorder.begin_durably("x", lambda: BEGUN), PATIENCE_S)
        assert [exchange.id for batch in writer.batches for exchange in batch.opened] == ["x"]


async def test_who_waits_for_a_note_has_it_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        noted = recorder.begin_durably("x", lambda: BEGUN)
        recorder.flush_starts()
        await asyncio.wait_for(noted, PATIENCE_S)
        assert writer.batches[0].opened == [BEGUN]


async def test_a_call_that_is_over_before_it_was_noted_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        noted = recorder.begin_durably("x", lambda: BEGUN)
        await recorder.record_durably(ENDED)
        assert noted.done()
        recorder.flush_starts()
    assert [(batch.opened, batch.recorded) for batch in writer.batches] == [([], [ENDED])]


async def test_a_call_that_has_only_begun_is_not_written_with_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "_DELAY_S", 3600)
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        older = recorder.begin_durably("x", lambda: BEGUN)
        recorder._openings.write_older()
        younger = recorder.begin_durably("y", lambda: replace(BEGUN, id="y"))
        recorder._openings.write_older()
        await asyncio.wait_for(older, PATIENCE_S)
        assert [batch.opened for batch in writer.batches] == [[BEGUN]]
        assert not younger.done()


async def test_what_was_noted_when_the_service_stops_is_written() -> None:
    writer = MemoryWriter()
    async with recording(writer) as recorder:
        recorder.begin_durably("x", lambda: BEGUN)
    assert writer.batches[0].opened == [BEGUN]
