"""The ledger: grouped commits, and honesty when the database is away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from classifier.records import Ending, Exchange, Timing
from proxy.recording import backlog, failover, pending
from proxy.recording.recorder import Recorder
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable, RowRejected
from proxy.store.types import CommitBatch

PATIENCE_S = 60
ENDED = Exchange(
    id="x", rollout_id="r", upstream="u", api="a", timing=Timing(started_at=1.0),
    ending=Ending.COMPLETE,
)  # fmt: skip


@dataclass
class Shelf:
    """A writer in memory that can be told to fail."""

    batches: list[CommitBatch] = field(default_factory=list)
    fails: Callable[[CommitBatch], Exception | None] = lambda _batch: None
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        assert worker == "w"
        self.gate.wait(PATIENCE_S)
        if error := self.fails(batch):
            raise error
        self.batches.append(batch)

    @property
    def recorded(self) -> list[str]:
        return [exchange.id for batch in self.batches for exchange in batch.recorded]


def away(_batch: CommitBatch) -> Exception:
    return DatabaseUnavailable("disk I/O error")


@asynccontextmanager
async def recording(shelf: Shelf) -> AsyncIterator[Recorder]:
    recorder = Recorder(shelf, worker="w")
    recorder.start()
    try:
        yield recorder
    finally:
        shelf.gate.set()
        await recorder.stop()


async def test_done_means_durable() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        await recorder.recorded(ENDED)
        assert shelf.recorded == ["x"]


async def test_what_waits_together_is_committed_together() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        shelf.gate.clear()
        waiting = [recorder.recorded(replace(ENDED, id=str(n))) for n in range(100)]
        await asyncio.sleep(0.05)
        shelf.gate.set()
        await asyncio.gather(*waiting)
    assert len(shelf.batches) <= 2
    assert sorted(shelf.recorded, key=int) == [str(n) for n in range(100)]


BEGUN = replace(ENDED, ending=None)


async def test_a_call_in_flight_is_written_within_milliseconds() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        await asyncio.wait_for(recorder.opened("x", lambda: BEGUN), PATIENCE_S)
        assert [exchange.id for batch in shelf.batches for exchange in batch.opened] == ["x"]


async def test_who_waits_for_a_note_has_it_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_DELAY_S", 3600)
    shelf = Shelf()
    async with recording(shelf) as recorder:
        noted = recorder.opened("x", lambda: BEGUN)
        recorder.hurry()
        await asyncio.wait_for(noted, PATIENCE_S)
        assert shelf.batches[0].opened == [BEGUN]


async def test_a_call_that_is_over_before_it_was_noted_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "_DELAY_S", 3600)
    shelf = Shelf()
    async with recording(shelf) as recorder:
        noted = recorder.opened("x", lambda: BEGUN)
        await recorder.recorded(ENDED)
        assert noted.done()
        recorder.hurry()
    assert [(batch.opened, batch.recorded) for batch in shelf.batches] == [([], [ENDED])]


async def test_a_call_that_has_only_begun_is_not_written_with_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "_DELAY_S", 3600)
    shelf = Shelf()
    async with recording(shelf) as recorder:
        older = recorder.opened("x", lambda: BEGUN)
        recorder._openings.write_older()
        younger = recorder.opened("y", lambda: replace(BEGUN, id="y"))
        recorder._openings.write_older()
        await asyncio.wait_for(older, PATIENCE_S)
        assert [batch.opened for batch in shelf.batches] == [[BEGUN]]
        assert not younger.done()


async def test_what_was_noted_when_the_service_stops_is_written() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        recorder.opened("x", lambda: BEGUN)
    assert shelf.batches[0].opened == [BEGUN]


async def test_stopping_writes_what_is_queued() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        for n in range(50):
            recorder.recorded(replace(ENDED, id=str(n)))
    assert len(shelf.recorded) == 50


async def test_a_waiter_that_was_cancelled_hurts_nobody() -> None:
    shelf = Shelf()
    async with recording(shelf) as recorder:
        recorder.recorded(ENDED).cancel()
        await recorder.recorded(replace(ENDED, id="y"))
    assert shelf.recorded == ["x", "y"]


async def test_agents_are_served_while_the_database_is_away() -> None:
    shelf = Shelf(fails=away)
    async with recording(shelf) as recorder:
        await asyncio.wait_for(recorder.recorded(ENDED), PATIENCE_S)
        assert recorder.failing
        assert recorder.missing("r") == 1
        assert recorder.missing("other") == 0


async def test_what_was_kept_is_written_when_the_database_is_back() -> None:
    shelf = Shelf(fails=away)
    async with recording(shelf) as recorder:
        await recorder.recorded(ENDED)
        shelf.fails = lambda _batch: None
        async with asyncio.timeout(PATIENCE_S):
            while recorder.missing("r"):
                await asyncio.sleep(0.02)
        assert not recorder.failing
        assert recorder.gaps_counted == 0
    assert shelf.recorded == ["x"]


async def test_trouble_that_nobody_thought_of_holds_no_agent_up_and_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failover, "RETRY_S", 0.1)
    shelf = Shelf(fails=lambda _batch: RuntimeError("no more files"))
    async with recording(shelf) as recorder:
        await asyncio.wait_for(recorder.recorded(ENDED), PATIENCE_S)
        assert recorder.missing("r") == 1
        tries = 0

        def broken(_: CommitBatch) -> Exception:
            nonlocal tries
            tries += 1
            return RuntimeError("no more files")

        shelf.fails = broken
        async with asyncio.timeout(PATIENCE_S):
            while tries < 2:  # it is tried again, and fails again
                await asyncio.sleep(0.02)
            shelf.fails = lambda _batch: None
            while recorder.failing:
                await asyncio.sleep(0.02)
        await asyncio.wait_for(recorder.recorded(replace(ENDED, id="y")), PATIENCE_S)
    assert shelf.recorded == ["x", "y"]


async def test_memory_is_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_IN_MEMORY", 3)
    shelf = Shelf(fails=away)
    async with recording(shelf) as recorder:
        for n in range(5):
            await recorder.recorded(replace(ENDED, id=str(n)))
            assert recorder.missing("r") == n + 1
        assert recorder.gaps_counted == 2
        shelf.fails = lambda _batch: None
        async with asyncio.timeout(PATIENCE_S):
            while recorder.missing("r"):
                await asyncio.sleep(0.02)
    assert len(shelf.recorded) == 3
    assert sum(gap.count for batch in shelf.batches for gap in batch.gaps.values()) == 2


async def test_a_row_no_database_takes_costs_only_itself() -> None:
    def poisoned(batch: CommitBatch) -> Exception | None:
        bad = any(exchange.id == "bad" for exchange in batch.recorded)
        return RowRejected("too long") if bad else None

    shelf = Shelf(fails=poisoned)
    async with recording(shelf) as recorder:
        shelf.gate.clear()
        waiting = [recorder.recorded(replace(ENDED, id=i)) for i in ("a", "bad", "c")]
        shelf.gate.set()
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
        await recorder.recorded(replace(ENDED, id="d"))
        assert recorder.gaps_counted == 1
        assert not recorder.failing
    assert shelf.recorded == ["a", "c", "d"]
    assert sum(gap.count for batch in shelf.batches for gap in batch.gaps.values()) == 1


async def test_a_number_beyond_64_bits_stops_nothing(database_url: str) -> None:
    database = Database(database_url)
    database.prepare()
    recorder = Recorder(database.calls, worker="w")
    recorder.start()
    huge = replace(ENDED, id="huge", usage=replace(ENDED.usage, input_tokens=10**30))
    await asyncio.wait_for(recorder.recorded(huge), PATIENCE_S)
    await asyncio.wait_for(recorder.recorded(ENDED), PATIENCE_S)
    await recorder.stop()
    found = database.rollouts.load("r")
    assert found is not None
    assert [exchange.id for exchange in found[1].exchanges] == ["x"]
    assert recorder.gaps_counted == 1
