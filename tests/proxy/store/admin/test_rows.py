"""Rows of any table: ordered by code point, hashed whatever their order, read in a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from proxy.store import migrations
from proxy.store.admin import rows
from proxy.store.admin.rows import VERSION, ArchiveError, check_head, head
from proxy.store.errors import BadUrl, UnusableDatabase
from proxy.store.tables import exchanges, rollouts
from tests.proxy.filled import NAMES


def test_a_digest_does_not_depend_on_the_order_and_tells_rows_apart() -> None:
    some = [("a", 1, None), ("b", 2.5, True)]
    assert rows.digest(some) == rows.digest(reversed(some))
    assert rows.digest(some).rows == 2
    assert rows.digest(some) != rows.digest([*some, some[0]])
    assert rows.digest([("a", 0.0, 1)]) == rows.digest([("a", -0.0, 1)]), "SQLite has one zero"
    assert rows.digest([("a", None)]) != rows.digest([("a", 0)])


def test_the_last_chunk_may_be_shorter() -> None:
    assert list(rows.chunks(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(rows.chunks([], 2)) == []


def test_keys_are_ordered_by_code_point(full: str) -> None:
    with rows.reading(full) as connection:
        query = select(rollouts.c.id).order_by(*rows.by_key(connection, rollouts))
        assert [row[0] for row in rows.stream(connection, query)] == list(NAMES)
        assert tuple(rows.last_key(connection, rollouts) or ()) == (NAMES[-1],)
        upto = select(rollouts.c.id).where(rows.up_to(connection, rollouts, (NAMES[2],)))
        assert {row[0] for row in rows.stream(connection, upto)} == set(NAMES[:3])


def test_rows_that_are_inserted_are_those_that_were_read(full: str, tmp_path: Path) -> None:
    with rows.reading(full) as here, rows.writing(str(tmp_path / "other.db")) as there:
        stored = list(rows.stream(here, select(exchanges)))
        with there.begin() as connection:
            rows.insert(connection, exchanges, stored)
            rows.insert(connection, exchanges, [])
        with there.begin() as connection:
            assert rows.digest(rows.stream(connection, select(exchanges))) == rows.digest(stored)


def test_looking_at_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with rows.looking(str(tmp_path / "none.db")) as connection:
        assert migrations.current(connection) is None
    assert list(tmp_path.iterdir()) == []


def test_a_place_is_printed_without_its_password() -> None:
    assert rows.place("sqlite:///a/t.db") == rows.place("a/t.db") == "a/t.db"
    assert rows.place("postgresql://me:s3cret@h/d") == "postgresql+psycopg://me:***@h/d"
    with pytest.raises(BadUrl):
        rows.place("mysql://h/d")


def test_two_spellings_of_one_file_are_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rows.same_place("t.db", f"sqlite:///{tmp_path}/t.db")
    assert not rows.same_place("t.db", "u.db")
    assert rows.same_place("postgres://h/d", "postgresql://h/d")
    assert not rows.same_place("t.db", "postgresql://h/d")


def test_a_database_of_an_earlier_schema_is_named(full: str) -> None:
    with create_engine(f"sqlite:///{full}").begin() as raw:
        raw.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    message = r"has schema 0001.*truezero db upgrade"
    with pytest.raises(UnusableDatabase, match=message), rows.reading(full):
        raise AssertionError("it was read")


# --- An archive's header says who can read it -----------------------------------------------------


def test_this_version_reads_what_it_writes() -> None:
    assert head() == {"version": VERSION, "schema": migrations.HEAD}
    check_head(head())


def test_an_archive_of_an_earlier_schema_is_read() -> None:
    check_head({**head(), "schema": "0001"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": 2}, "format version 2, but this version of truezero reads 1"),
        ({"version": None}, "format version None"),
        ({"schema": "9999"}, "schema 9999, but this version of truezero supports schemas up to"),
    ],
)
def test_an_archive_of_a_later_version_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        check_head({**head(), **changed})
