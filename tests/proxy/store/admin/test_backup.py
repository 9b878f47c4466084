"""A backup is one sound file that holds all that was there when it began."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.recording.backlog import SpillFile
from proxy.store.admin import backup
from proxy.store.database import Database
from proxy.store.errors import UnusableDatabase
from proxy.store.migrations import HEAD
from proxy.store.tables import CommitBatch
from tests.proxy.filled import contents
from tests.proxy.store.records import FULL


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "full.db"))


def test_a_backup_holds_every_row_and_is_served_at_once(full: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    assert backup.back_up(str(full), file) == file.stat().st_size
    assert contents(str(file)) == contents(str(full))
    assert Database(str(file)).prepare() == (HEAD, HEAD)


def test_a_backup_is_one_file_that_only_its_owner_reads(full: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept" / "kept.db"
    file.parent.mkdir()
    writer = Database(str(full))
    writer.calls.write(CommitBatch(recorded=[replace(FULL, id="in the log")]), worker="w")
    assert Path(f"{full}-wal").stat().st_size > 0, "what is committed is not in the file yet"
    backup.back_up(str(full), file)
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes()[18:20] == b"\1\1", "of a mode that needs no file beside it"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as raw:
        found = raw.execute("SELECT count(*) FROM exchanges WHERE id = 'in the log'").fetchone()
    assert found == (1,)


def test_a_backup_does_not_wait_for_a_writer_nor_take_what_it_has_not_committed(
    full: Path, tmp_path: Path
) -> None:
    before = contents(str(full))
    with closing(sqlite3.connect(full, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM exchanges")
        backup.back_up(str(full), tmp_path / "kept.db")
    assert contents(str(tmp_path / "kept.db")) == before


def test_a_file_that_is_there_is_not_overwritten(full: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    file.write_text("dear")
    with pytest.raises(FileExistsError):
        backup.back_up(str(full), file)
    assert file.read_text() == "dear"


def test_a_backup_that_fails_leaves_nothing_to_believe(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database file" * 1000)
    with pytest.raises(sqlite3.DatabaseError):
        backup.back_up(str(broken), tmp_path / "kept.db")
    assert list(tmp_path.iterdir()) == [broken]


def test_a_file_that_is_not_sound_is_said_to_be_so(full: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(full)) as raw, raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'batch VARCHAR(200)', 'batch VARCHAR(200)"
            " NOT NULL') WHERE name = 'rollouts'"
        )
    with pytest.raises(
        UnusableDatabase, match=r"the copy failed its integrity check: NULL value in rollouts.batch"
    ):
        backup.back_up(str(full), tmp_path / "kept.db")
    assert not list(tmp_path.glob("kept*"))


def test_what_waits_beside_the_database_is_told(full: Path) -> None:
    assert backup.left_out(str(full)) == []
    spill = SpillFile.of(full, "w1")
    spill.keep([FULL])
    assert [path.name for path in backup.left_out(str(full))] == ["full.db.w1.spill"]
    spill.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("none.db", "no database at none.db"),
        ("postgresql://u:secret@h/d", r"u:\*\*\*@h/d is not an SQLite.*pg_dump"),
    ],
)
def test_what_cannot_be_backed_up_is_refused_in_a_sentence(
    tmp_path: Path, url: str, said: str
) -> None:
    with pytest.raises(UnusableDatabase, match=said):
        backup.back_up(url, tmp_path / "kept.db")
    assert list(tmp_path.iterdir()) == []
