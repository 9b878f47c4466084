"""SQLite's group commits: all or nothing, and errors by whose fault they are."""
# ruff: noqa: SLF001
# Private: who holds which lock.

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.engine import URL

from proxy.store import sqlite
from proxy.store.connections import Commit, Connections
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable, RowRejected
from proxy.store.rows import exchange_row
from proxy.store.sqlite import PriorityWriteLock, SqliteCommitWriter
from tests.proxy.store.records import FULL
from tests.waiting import until


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


def test_a_new_file_and_those_beside_it_are_its_owners_alone(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(os.umask, os.umask(0o022)))
    file = tmp_path / "t.db"
    with closing(Database(str(file))) as database:
        database.prepare()
        modes = {path.name: stat.filemode(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("t.db", "t.db-wal", "t.db-shm"), "-rw-------")


def test_a_file_that_is_there_keeps_its_mode(file: Path) -> None:
    file.chmod(0o640)
    with closing(Database(str(file))) as database:
        database.prepare()
    assert stat.filemode(file.stat().st_mode) == "-rw-r-----"


@pytest.mark.parametrize("url", [":memory:", "sqlite:///file:t.db?mode=memory&uri=true"])
def test_a_database_in_memory_has_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Database(url)) as database, database.connections.reading() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    assert list(tmp_path.iterdir()) == []


def test_a_commit_is_written_whole_or_not_at_all(file: Path, opened: Connections) -> None:
    rows = Commit(rollouts=[("r1", 1.0)], recorded=[(*exchange_row(FULL)[:-1], object())])
    with pytest.raises(RowRejected):
        opened.commits.commit(rows)
    assert count(file, "rollouts") == 0
    opened.commits.commit(Commit(rollouts=[("r1", 1.0)], recorded=[exchange_row(FULL)]))
    assert (count(file, "rollouts"), count(file, "exchanges")) == (1, 1)
    opened.close()


def test_a_commit_of_one_call_alone_is_whole_or_nothing(file: Path, opened: Connections) -> None:
    opened.commits.commit(Commit(rollouts=[(FULL.rollout_id, 1.0)]))
    with pytest.raises(RowRejected):
        opened.commits.commit(Commit(recorded=[(*exchange_row(FULL)[:-1], object())]))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="locked"):
            opened.commits.commit(Commit(recorded=[exchange_row(FULL)]))
        other.execute("ROLLBACK")
    assert (count(file, "exchanges"), count(file, "call_usage")) == (0, 0)
    said: list[str] = []
    driven = cast(SqliteCommitWriter, opened.commits)._connection
    assert driven is not None
    driven.set_trace_callback(said.append)
    opened.commits.commit(Commit(recorded=[exchange_row(FULL)]))
    assert {each.split()[0] for each in said} == {"BEGIN", "INSERT", "COMMIT"}  # triggers too
    assert (count(file, "exchanges"), count(file, "call_usage")) == (1, 1)
    opened.commits.commit(Commit(recorded=[exchange_row(FULL)], closed=[(FULL.id,)]))
    assert said[-1] == "COMMIT"
    opened.close()


def test_a_commit_waits_for_a_transaction_of_this_process_with_the_patience_of_all(
    file: Path, opened: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Commit(rollouts=[("r1", 1.0)])
    with ThreadPoolExecutor(1) as pool:
        with opened.writing():
            commit = pool.submit(opened.commits.commit, rows)
            until(lambda: waited_for(opened))
        commit.result()
        with opened.writing():
            monkeypatch.setattr(sqlite, "_BUSY_S", 0.01)
            with pytest.raises(DatabaseUnavailable, match="locked by this process"):
                opened.commits.commit(rows)
            opened.commits.close()  # and so does not wait for it
    opened.commits.commit(rows)
    assert count(file, "rollouts") == 1
    opened.close()


def test_a_commit_does_not_wait_behind_a_transaction_that_waits_for_another_process(
    file: Path, opened: Connections
) -> None:
    def wait() -> None:
        with opened.writing():
            pass

    commits = cast(SqliteCommitWriter, opened.commits)
    with (
        ThreadPoolExecutor(1) as pool,
        closing(sqlite3.connect(file, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        waiting = pool.submit(wait)
        until(commits._turns._writing.locked)
        with pytest.raises(DatabaseUnavailable, match=r"database is locked$"):
            commits.commit(Commit(rollouts=[("r1", 1.0)]))  # it heard that from SQLite
        other.execute("ROLLBACK")
        waiting.result()
    opened.close()


def waited_for(opened: Connections) -> bool:
    """Whether a commit waits for the end of a transaction of this process."""
    return cast(SqliteCommitWriter, opened.commits)._turns._line.locked()


def wal(file: Path) -> int:
    return file.with_name(f"{file.name}-wal").stat().st_size


@pytest.mark.slow
def test_checkpoints_have_the_wal_begin_anew_while_others_write(
    file: Path, opened: Connections
) -> None:
    """Without the turn of its own, a write during each of them would let it grow for ever."""
    assert opened.checkpoints is not None
    written, done = 0, threading.Event()

    def write() -> None:
        nonlocal written
        while not done.is_set():
            opened.commits.commit(Commit(rollouts=[(f"r{written}", 1.0)]))
            written += 1

    def another() -> None:
        before = written
        until(lambda: written >= before + 2 or writing.done())  # the first may have begun before

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            beginnings = set[bytes]()
            for _ in range(20):
                another()
                opened.checkpoints.run()
                another()
                beginnings.add(salt(file))
        finally:
            done.set()
        writing.result()
    assert len(beginnings) == 20
    assert wal(file) < 2 * 4096 * sqlite._WAL_PAGES  # at once as many as a commit leaves
    opened.close()


def salt(file: Path) -> bytes:
    """What tells one beginning of the WAL from the next (https://www.sqlite.org/walformat.html)."""
    with file.with_name(f"{file.name}-wal").open("rb") as log:
        return log.read(24)[16:]


def test_a_checkpoint_leaves_to_the_next_what_a_reader_or_writer_keeps_it_from(
    file: Path, opened: Connections
) -> None:
    assert opened.checkpoints is not None
    opened.commits.commit(Commit(rollouts=[("r1", 1.0)]))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        for begin in ("BEGIN", "BEGIN IMMEDIATE"):
            other.execute(begin)
            other.execute("SELECT count(*) FROM rollouts").fetchone()
            opened.checkpoints.run()
            other.execute("ROLLBACK")
    opened.commits.commit(Commit(rollouts=[("r2", 1.0)]))
    size = wal(file)
    for number in range(3, 20):
        opened.checkpoints.run()
        opened.commits.commit(Commit(rollouts=[(f"r{number}", 1.0)]))
    assert wal(file) == size
    opened.close()


def test_no_checkpoint_is_made_of_a_file_that_is_gone(file: Path, opened: Connections) -> None:
    assert opened.checkpoints is not None
    opened.commits.commit(Commit(rollouts=[("r1", 1.0)]))
    file.rename(file.with_name("moved.db"))
    with pytest.raises(DatabaseUnavailable, match="moved or deleted"):
        opened.checkpoints.run()
    opened.close()


# --- Who writes next to a file: the recorder before the others, and nobody twice ------------------

PATIENCE_S = 300.0


def test_the_first_waits_for_one_other_however_many_there_are() -> None:
    turns, order = PriorityWriteLock(), list[str]()

    def other(name: str) -> None:
        with turns.taken(PATIENCE_S):
            order.append(name)

    def first() -> None:
        turns.take_first(PATIENCE_S)
        order.append("first")
        turns.release()

    with turns.taken(PATIENCE_S):
        threads = [threading.Thread(target=other, args=(f"other {n}",)) for n in range(5)]
        threads.append(threading.Thread(target=first))
        for thread in threads:
            thread.start()
        until(turns._line.locked)  # where the first stands; the others wait before it
        assert order == []
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order[0] == "first"
    assert sorted(order[1:]) == [f"other {n}" for n in range(5)]


def test_who_passes_its_turn_on_has_it_again_after_the_first() -> None:
    turns, order = PriorityWriteLock(), list[str]()

    def first() -> None:
        turns.take_first(PATIENCE_S)
        order.append("first")
        turns.release()

    with turns.taken(PATIENCE_S):
        thread = threading.Thread(target=first)
        thread.start()
        until(turns._line.locked)
        turns.pass_on()
        order.append("other")
        turns.pass_on()  # nobody waits
        with pytest.raises(DatabaseUnavailable):
            turns.take_first(0.01)
    thread.join(PATIENCE_S)
    assert order == ["first", "other"]


def test_who_waits_too_long_is_told_and_takes_nothing_along() -> None:
    turns = PriorityWriteLock()
    with turns.taken(PATIENCE_S):
        with pytest.raises(DatabaseUnavailable, match="locked by this process"):
            turns.take_first(0.01)
        with pytest.raises(DatabaseUnavailable, match="locked"), turns.taken(0.01):
            pytest.fail("it is another's turn")
    turns.take_first(0.01)
    with pytest.raises(DatabaseUnavailable), turns.taken(0.01):
        pytest.fail("it is the first's turn")
    turns.release()
    with turns.taken(0.01):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    turns = PriorityWriteLock()
    with pytest.raises(ZeroDivisionError), turns.taken(0.01):
        raise ZeroDivisionError
    turns.take_first(0.01)
