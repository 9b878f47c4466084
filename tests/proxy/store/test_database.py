"""One database: shared by processes, named by a URL, refused in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proxy import store
from proxy.store import migrations
from proxy.store.admin.location import place
from proxy.store.database import Database
from proxy.store.errors import BadUrl, DatabaseUnavailable
from tests.proxy.store.records import FULL, exchanges_of, write


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_is_the_one_driver(scheme: str) -> None:
    database = Database(f"{scheme}://me:s3cret@db.example/traces")
    assert database.url == "postgresql+psycopg://me:s3cret@db.example/traces"
    assert "s3cret" not in place(database.url)


@pytest.mark.parametrize("url", ["mysql://me@db.example/traces", "://", "what is this://"])
def test_a_url_of_another_kind_is_refused_in_words(url: str) -> None:
    with pytest.raises(BadUrl):
        Database(url)


def test_without_the_extra_postgresql_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(store, "postgres", raising=False)
    monkeypatch.delitem(sys.modules, "proxy.store.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BadUrl, match=r"pip install 'truezero\[postgres\]'"):
        Database("postgresql://db.example/traces")


def test_each_database_has_its_own_place_for_what_it_does_not_take(tmp_path: Path) -> None:
    urls = ["postgresql://a/x", "postgresql://b/x", "postgresql://a/y", "a/t.db", "b/t.db"]
    places = [Database(url).spill_place(tmp_path) for url in urls]
    assert len(set(places)) == len(urls)
    assert {place.parent for place in places if place} == {tmp_path}
    assert Database("a/t.db").spill_place(None) == Path("a/t.db")


def test_the_newest_migration_is_the_one_the_code_expects(database: Database) -> None:
    folder = Path(migrations.__file__).parent / "versions"
    newest = max(path.name for path in folder.glob("[0-9]*.py"))
    assert newest.startswith(migrations.HEAD)
    assert database.prepare() == (migrations.HEAD, migrations.HEAD)


def test_a_database_is_reachable_once_it_is_prepared(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    assert not Database(str(tmp_path / "no" / "folder" / "t.db")).is_reachable()
    database.prepare()
    assert database.is_reachable()
    database.close()


def test_a_file_that_replaces_another_is_prepared_with_the_same_secrets(tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    database = Database(str(file))
    database.prepare()
    salt = database.deployment.secret("salt")
    database.close()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(DatabaseUnavailable):
        write(database, FULL)
    write(database, FULL)
    assert exchanges_of(database) == (FULL,)
    assert database.deployment.secret("salt") == salt
    database.close()
