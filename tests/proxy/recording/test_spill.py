"""The spill file: what was written is read back, and it stays within its limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from proxy.recording.backlog import SpillFile
from proxy.store.database import Database
from tests.proxy.recording.memory_writer import ENDED
from tests.proxy.store.records import FULL


def spilling(database: Database, worker: str = "dead", **limits: int) -> SpillFile:
    assert database.file is not None
    return SpillFile(database.file.with_name(f"t.db.{worker}.spill"), **limits)


def test_a_spill_grows_to_its_limit_and_no_further(database: Database) -> None:
    spill = spilling(database, limit_bytes=3000)
    kept = 0
    while spill.keep([replace(ENDED, id=str(kept))]):
        kept += 1
    (file,) = Path(database.file or "").parent.glob("*.spill")
    assert kept > 0
    assert file.stat().st_size <= 3000
    assert [each.id for each in spill.next(100)] == [str(number) for number in range(kept)]


def test_every_fact_of_an_exchange_survives_the_spill(database: Database) -> None:
    spill = spilling(database)
    spill.keep([FULL])
    assert spill.next(10) == [FULL]


def test_next_repeats_until_taken(database: Database) -> None:
    spill = spilling(database)
    spill.keep([replace(ENDED, id=each) for each in "abc"])
    assert [each.id for each in spill.next(2)] == [each.id for each in spill.next(2)] == ["a", "b"]
    spill.taken()
    assert [each.id for each in spill.next(2)] == ["c"]


def test_the_file_is_deleted_once_all_of_it_is_taken(database: Database) -> None:
    spill = spilling(database)
    spill.keep([ENDED])
    folder = Path(database.file or "").parent
    assert len(list(folder.glob("*.spill"))) == 1
    spill.next(10)
    spill.taken()
    spill.close()
    assert list(folder.glob("*.spill")) == []
