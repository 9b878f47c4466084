"""SQLite's group commits: all or nothing, and errors by whose fault they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from proxy.store import sqlite
from proxy.store.commit import Commit
from proxy.store.connections import Connections
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable, RowRejected
from proxy.store.rows import exchange_row
from tests.proxy.store.records import FULL


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    database = Database(str(path))
    database.prepare()
    database.close()
    return path


@pytest.fixture
def opened(file: Path) -> Connections:
    return sqlite.connections(URL.create("sqlite", database=str(file)))


def count(file: Path, table: str) -> int:
    with closing(sqlite3.connect(file)) as raw:
        return int(raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_commit_is_written_whole_or_not_at_all(file: Path, opened: Connections) -> None:
    rows = Commit(rollouts=[("r1", 1.0)], recorded=[(*exchange_row(FULL)[:-1], object())])
    with pytest.raises(RowRejected):
        opened.commits.commit(rows)
    assert count(file, "rollouts") == 0
    opened.commits.commit(Commit(rollouts=[("r1", 1.0)], recorded=[exchange_row(FULL)]))
    assert (count(file, "rollouts"), count(file, "exchanges")) == (1, 1)
    opened.close()


def test_a_locked_file_is_unavailable_and_works_again_once_free(
    file: Path, opened: Connections
) -> None:
    rows = Commit(rollouts=[("r1", 1.0)])
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="locked") as raised:
            opened.commits.commit(rows)
        assert raised.value.kind == "OperationalError"
        other.execute("ROLLBACK")
    opened.commits.commit(rows)
    assert count(file, "rollouts") == 1
    opened.close()


def test_a_transaction_of_this_process_delays_a_commit_no_longer_than_another_ones(
    file: Path, opened: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Commit(rollouts=[("r1", 1.0)])
    with opened.writing():
        monkeypatch.setattr(sqlite, "_RECORDING_BUSY_S", 0.01)
        with pytest.raises(DatabaseUnavailable, match="locked"):
            opened.commits.commit(rows)
    opened.commits.commit(rows)
    assert count(file, "rollouts") == 1
    opened.close()


def test_a_closed_writer_opens_another_connection(file: Path, opened: Connections) -> None:
    opened.commits.commit(Commit(rollouts=[("r1", 1.0)]))
    opened.commits.close()
    opened.commits.commit(Commit(rollouts=[("r2", 2.0)]))
    assert count(file, "rollouts") == 2
    opened.close()
