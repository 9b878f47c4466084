"""A copy is the same in every row, goes on wherever it was killed, and overwrites nothing."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from proxy.store.admin import copy as copy_module
from proxy.store.admin import maintenance
from proxy.store.admin.copy import TableComparison
from proxy.store.database import Database
from proxy.store.errors import UnusableDatabase
from proxy.store.migrations import HEAD
from proxy.store.tables import CommitBatch
from tests.proxy.filled import contents, fill, run
from tests.proxy.store.records import FULL
from truezero.cli import app

ROOT = Path(__file__).parent.parent.parent.parent.parent


class Killed(Exception):
    """In place of a signal, at a place that a test can choose."""


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> str:
    return str(shutil.copy(filled, tmp_path / "full.db"))


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target.db")


@pytest.fixture(scope="session")
def copied(filled: Path) -> Path:
    """A copy that is whole, of which tests take copies of their own."""
    file = filled.with_name("copied.db")
    assert all(each.same for each in copy(str(filled), str(file)))
    return file


@pytest.fixture
def there(copied: Path, target: str) -> str:
    """The target, where the copy has been."""
    return str(shutil.copy(copied, target))


def quietly(_table: str, _rows: int) -> None:
    """Nothing is told."""


def copy(source: str, target: str) -> list[TableComparison]:
    return copy_module.copy(source, target, quietly)


def dying_at(commit: int) -> Callable[[str, int], None]:
    """Return a progress callback that raises after so many commits."""
    left = itertools.count(commit - 1, -1)

    def told(_table: str, _rows: int) -> None:
        if next(left) == 0:
            raise Killed

    return told


def test_a_copy_holds_every_row_secrets_included(full: str, target: str) -> None:
    before = contents(full)
    found = copy(full, target)
    assert all(each.same for each in found)
    assert {each.table: each.source.rows for each in found} == {
        table: len(rows) for table, rows in before.items()
    }
    assert contents(target) == contents(full) == before
    assert min(len(rows) for rows in before.values()) > 0, "no table goes untried"


def test_a_copy_is_served_as_the_original_was(full: str, there: str) -> None:
    one, two = Database(full), Database(there)
    assert two.prepare() == (HEAD, HEAD)
    assert [two.deployment.secret(name) for name in ("salt", "keyring")] == [
        one.deployment.secret(name) for name in ("salt", "keyring")
    ]
    found, kept = two.rollouts.load("é"), one.rollouts.load("é")
    assert found is not None and kept is not None
    assert found[1] == kept[1]
    assert {**found[0], "change": 0} == {**kept[0], "change": 0}, "changes are numbered anew"
    assert one.batches.count_invalidated() == 0
    assert two.batches.count_invalidated() == 3
    for batch in ("b0", "b1", "b2"):
        summed = two.batches.summed(batch)
        assert summed is not None
        assert summed == one.batches.summed(batch)
    assert (
        two.read(maintenance.check) == one.read(maintenance.check) == maintenance.Recount(checked=3)
    )
    two.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert two.events.last_id() > one.events.last_id(), (
        "numbers go on behind those that were copied"
    )


@pytest.mark.parametrize(
    "death", [pytest.param(n, marks=[] if n == 34 else pytest.mark.slow) for n in range(1, 73, 11)]
)
def test_a_copy_that_died_at_any_commit_goes_on_where_it_was(
    full: str, target: str, monkeypatch: pytest.MonkeyPatch, death: int
) -> None:
    monkeypatch.setattr(copy_module, "CHUNK", 1)
    whole = contents(full)
    with pytest.raises(Killed):
        copy_module.copy(full, target, dying_at(death))
    held = contents(target)
    assert sum(len(rows) for rows in held.values()) == death
    assert all(set(held[table]) <= set(whole[table]) for table in whole)
    assert all(each.same for each in copy(full, target))
    assert contents(target) == whole


# Copies in a process of its own each time it reads a line, which says at which commit of
# exchanges to tell the process's number; the copy goes on, and waits behind the commit after.
KILLABLE = """
import itertools, os, signal, sys
from proxy.store.admin import copy as copying
copying.CHUNK = 10

def copy(tells_at):
    commits = itertools.count(1)
    def told(table, rows):
        if table != "exchanges":
            return
        commit = next(commits)
        if commit == tells_at:
            print(os.getpid(), flush=True)
        if commit > tells_at:
            signal.pause()
    copying.copy(*sys.argv[1:], told)

for line in sys.stdin:
    child = os.fork()
    if not child:
        copy(int(line))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
def test_a_copy_that_is_killed_again_and_again_comes_to_its_end(
    tmp_path: Path, target: str
) -> None:
    source = str(tmp_path / "large.db")
    fill(source, calls=25).close()
    command = [sys.executable, "-c", KILLABLE, source, target]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    held = 0
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for commit in (1, 3, 6):
            print(commit, file=process.stdin, flush=True)
            copier = int(process.stdout.readline())
            assert copier > 1, "it ended before it could be killed"
            os.kill(copier, signal.SIGKILL)
            assert int(process.stdout.readline()) == -signal.SIGKILL
            held, before = len(contents(target)["exchanges"]), held
            assert held - before in (10 * commit, 10 * (commit + 1))
            with pytest.raises(UnusableDatabase, match="a copy into the database did not finish"):
                Database(target).prepare()
        process.stdin.close()
    assert 100 <= held <= 130
    done = CliRunner().invoke(app, ["db", "copy", "--from", source, "--to", target])
    assert done.exit_code == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["same"] * 15
    assert contents(target) == contents(source)


def test_what_is_written_meanwhile_is_in_none_or_in_all_of_it(full: str, target: str) -> None:
    """The source is read as it stands at one moment."""
    before = contents(full)
    writer = Database(full)

    def told(table: str, _rows: int) -> None:
        late = replace(FULL, id=f"late-{table}", rollout_id=f"late-{table}")
        writer.calls.write(CommitBatch(recorded=[late]), worker="w")

    assert all(each.same for each in copy_module.copy(full, target, told))
    assert contents(target) == before
    assert len(contents(full)["exchanges"]) > len(before["exchanges"])


def test_the_half_of_a_copy_is_served_by_nobody(full: str, target: str) -> None:
    def told(table: str, _rows: int) -> None:
        if table == "rollouts":
            raise Killed

    with pytest.raises(Killed):
        copy_module.copy(full, target, told)
    with pytest.raises(UnusableDatabase, match="a copy into the database did not finish"):
        Database(target).prepare()
    with pytest.raises(UnusableDatabase, match="a copy into the database did not finish"):
        copy_module.verify(full, target, quietly)
    copy(full, target)
    Database(target).prepare()


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE exchanges SET status = 201 WHERE rollout_id = 'a'", "exchanges"),
        ("DELETE FROM exchanges WHERE rollout_id = 'a'", "exchanges"),
        ("UPDATE server SET value = '00' WHERE name = 'salt'", "server"),
        ("INSERT INTO rollouts (id, created_at) VALUES ('aa', 1)", "rollouts"),
        ("INSERT INTO rollouts (id, created_at) VALUES ('😀😀', 1)", "rollouts"),
    ],
)
def test_a_target_with_other_data_is_refused_and_stays(
    full: str, there: str, statement: str, table: str
) -> None:
    run(Path(there), statement)
    before = contents(there)
    with pytest.raises(UnusableDatabase, match=f"holds other data in {table}"):
        copy(full, there)
    assert contents(there) == before
    Database(there).prepare()


def test_a_service_that_began_on_the_target_makes_it_other_data(full: str, target: str) -> None:
    fresh = Database(target)
    fresh.prepare()
    fresh.deployment.secret("salt")
    with pytest.raises(UnusableDatabase, match="holds other data in server"):
        copy(full, target)


def test_copying_again_changes_nothing(full: str, there: str) -> None:
    assert all(each.same for each in copy(full, there))
    assert contents(there) == contents(full)


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE exchanges SET duration_s = 0.3 WHERE rollout_id = 'a'", "exchanges"),
        ("UPDATE exchanges SET first_byte_s = 0 WHERE first_byte_s IS NULL", "exchanges"),
        ("DELETE FROM verdicts WHERE rollout_id = 'a'", "verdicts"),
        ("INSERT INTO rollouts (id, created_at) VALUES ('aa', 1)", "rollouts"),
        ("UPDATE breakers SET state = '{}'", "breakers"),
        ("UPDATE server SET value = '00' WHERE name = 'salt'", "server"),
    ],
)
def test_comparing_tells_the_table_that_differs_and_writes_nothing(
    full: str, there: str, statement: str, table: str
) -> None:
    run(Path(there), statement)
    before = contents(there)
    found = copy_module.verify(full, there, quietly)
    assert [each.table for each in found if not each.same] == [table]
    assert contents(there) == before


def test_the_order_of_rows_does_not_matter_to_a_digest_and_their_number_does() -> None:
    from proxy.store.admin.rows import digest

    one, two = (1, "a", None), (2, "b", 0.5)
    assert digest([one, two]) == digest([two, one])
    assert digest([(1, -0.0, 2)]) == digest([(1, 0.0, 2)]), "SQLite knows one zero only"
    assert len({digest(rows) for rows in ([one], [two], [one, one], [one, two], [])}) == 5


def test_names_that_are_no_source_or_no_target_are_refused(full: str, target: str) -> None:
    with pytest.raises(UnusableDatabase, match="cannot be copied to itself"):
        copy(full, f"sqlite:///{Path(full).parent}/../{Path(full).parent.name}/full.db")
    with pytest.raises(UnusableDatabase, match="no database at"):
        copy(f"{full}.none", target)
    assert not Path(target).exists()
    run(Path(full), "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnusableDatabase, match="schema 9999, but this version"):
        copy(full, target)
    assert not Path(target).exists()


def test_a_target_of_another_schema_is_not_touched(full: str, target: str) -> None:
    Database(target).prepare()
    run(Path(target), "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(UnusableDatabase, match="has a different schema version"):
        copy(full, target)


# --- from one kind to the other ------------------------------------------------------------


def test_a_copy_goes_to_postgresql_and_back(full: str, target: str, postgres_url: str) -> None:
    assert all(each.same for each in copy(full, postgres_url))
    assert all(each.same for each in copy_module.verify(full, postgres_url, quietly))
    assert all(each.same for each in copy(postgres_url, target))
    assert contents(target) == contents(full)


def test_on_postgresql_calls_stand_in_the_partitions_of_their_months(
    full: str, postgres_url: str
) -> None:
    copy(full, postgres_url)
    count = text("SELECT tableoid::regclass::text, count(*) FROM exchanges GROUP BY 1 ORDER BY 1")
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(count)]
    engine.dispose()
    assert found == [("exchanges_1970_01", 8), ("exchanges_2023_11", 16)]


def test_on_postgresql_numbers_go_on_behind_those_that_were_copied(
    full: str, postgres_url: str
) -> None:
    copy(full, postgres_url)
    last = Database(full).events.last_id()
    database = Database(postgres_url)
    database.calls.write(CommitBatch(recorded=[replace(FULL, rollout_id="new")]), worker="w")
    assert database.events.last_id() == last + 1
    database.close()


def test_a_copy_to_postgresql_that_died_goes_on_where_it_was(
    full: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_module, "CHUNK", 2)
    for death in (1, 9, 20):
        with pytest.raises(Killed):
            copy_module.copy(full, postgres_url, dying_at(death))
        with pytest.raises(UnusableDatabase, match="a copy into the database did not finish"):
            Database(postgres_url).prepare()
    assert all(each.same for each in copy(full, postgres_url))


def test_a_language_of_postgresqls_changes_nothing_where_a_copy_goes_on(
    full: str, target: str, english_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_module, "CHUNK", 1)
    for source, end, death in (
        (full, english_postgres_url, 12),
        (english_postgres_url, target, 37),
    ):
        with pytest.raises(Killed):
            copy_module.copy(source, end, dying_at(death))
        assert all(each.same for each in copy(source, end))
    assert contents(target) == contents(full)


def test_postgresql_with_other_data_is_refused_and_stays(full: str, postgres_url: str) -> None:
    fill(postgres_url).close()
    before = contents(postgres_url)
    with pytest.raises(UnusableDatabase, match="holds other data in server"):
        copy(full, postgres_url)
    assert contents(postgres_url) == before


def test_what_postgresql_cannot_hold_ends_the_copy_and_leaves_it_marked(
    full: str, postgres_url: str
) -> None:
    run(Path(full), "UPDATE rollouts SET task = char(65, 0, 66) WHERE id = 'a'")
    with pytest.raises(DBAPIError):
        copy(full, postgres_url)
    with pytest.raises(UnusableDatabase, match="a copy into the database did not finish"):
        Database(postgres_url).prepare()
