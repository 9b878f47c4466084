"""The backlog: in order, bounded, and honest about what it lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxy.recording import backlog as module
from proxy.recording.backlog import BATCH, Backlog
from proxy.store.tables import Gap
from tests.proxy.recording.memory_writer import (
    BEGUN,
    ENDED,
    PATIENCE_S,
    MemoryWriter,
    away,
    recording,
)


async def test_memory_is_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", 3)
    writer = MemoryWriter(fails=away)
    async with recording(writer) as recorder:
        for n in range(5):
            await recorder.recorded(replace(ENDED, id=str(n)))
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
