"""Keeping data as an operator does it: real processes, exit codes, one sentence."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from tests.forked import ROOT
from tests.proxy.filled import contents, fill, run
from tests.proxy.store.migrations.test_migrations import EVER
from tests.truezero.cli.operating import here, made, told, truezero
from truezero.cli import app


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("filled") / "truezero.db"
    fill(str(file)).close()
    assert list(file.parent.iterdir()) == [file], "it is whole without a log beside it"
    return file


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A folder with a database that `truezero` takes without being told which."""
    shutil.copy(filled, tmp_path)
    return tmp_path


def test_a_backup_says_what_it_is(folder: Path) -> None:
    code, said = told(truezero("db", "backup", "kept.db", folder=folder))
    assert code == 0
    assert said.startswith("truezero: kept.db: integrity check passed, 0.")
    assert "It contains secrets" in said
    assert contents(str(folder / "kept.db")) == contents(str(folder / "truezero.db"))


SENTENCES = [
    (["db", "backup", "junk"], 1, "junk: File exists"),
    (["db", "backup", "k.db", "--database", "junk"], 1, "file is not a database"),
    (["db", "backup", "no/where.db"], 1, "no/where.db.part: No such file"),
    (["db", "backup", "k.db", "--database", "postgresql://u:secret@h/d"], 1, "pg_dump"),
]


def test_what_cannot_be_done_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "junk").write_bytes(b"this is no database and no archive" * 100)
    before = made(folder)
    for words, code, said in SENTENCES:
        done = here(monkeypatch, folder, words)
        assert done.exit_code == code, words
        assert len(done.stderr.strip().splitlines()) == 1, (words, done.stderr)
        assert said in done.stderr, words
        assert "secret" not in done.stderr, words
        assert made(folder) == before, words


OPENED = [["serve", "--port", "0"], ["db", "upgrade"]]


def test_a_database_of_a_later_version_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder / "truezero.db", "UPDATE alembic_version SET version_num = '9999'")
    later = "truezero: the database has schema 9999, but this version"
    for words in OPENED:
        done = here(monkeypatch, folder, words)
        assert done.exit_code == 1, words
        assert done.stderr.startswith(later), words
        assert len(done.stderr.splitlines()) == 1, words


def test_the_half_of_a_copy_by_an_earlier_version_is_not_served(folder: Path) -> None:
    run(folder / "truezero.db", "CREATE TABLE unfinished_copy (half INTEGER)")
    code, said = told(truezero("serve", "--port", "0", folder=folder))
    assert (code, len(said.splitlines())) == (1, 1)
    assert "a copy into the database by an earlier version did not finish" in said


# Commands on the database of a service, and those that make one.
FINDING = [
    ["prune", "--older-than", "1d"],
    ["prune", "--older-than", "1d", "--dry-run"],
    ["db", "upgrade"],
    ["db", "backup", "kept.db"],
    ["export", "--full"],
    ["export", "--full", "--out", "all.jsonl"],
]
MAKING = {"serve", "import"}
KEEPING_NONE = {"token"}  # it needs one for a link alone


def on_the_database(group: click.Group, *words: str) -> Iterator[str]:
    """Yield the commands that take a database."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from on_the_database(command, *words, name)
        elif command is not None and any(each.name == "database_url" for each in command.params):
            yield " ".join((*words, name))


def test_a_command_that_should_find_a_database_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in FINDING:
        done = here(monkeypatch, tmp_path, words)
        assert done.exit_code == 1, words
        said = f"truezero: no database at truezero.db (in {tmp_path}): run the command in the"
        assert done.stderr.startswith(said), words
        assert len(done.stderr.splitlines()) == 1, words
        assert list(tmp_path.iterdir()) == [], words


def test_each_command_on_the_database_finds_or_makes_it() -> None:
    finding = {" ".join(words[: 2 if words[0] == "db" else 1]) for words in FINDING}
    assert set(on_the_database(app)) == finding | MAKING | KEEPING_NONE


def test_a_database_of_something_else_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "truezero.db"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE songs (name TEXT)")
    before = file.read_bytes()
    for words in FINDING:
        if words[:2] == ["db", "backup"]:  # it copies any SQLite file
            continue
        done = here(monkeypatch, tmp_path, words)
        assert done.exit_code == 1, words
        assert "truezero.db is not a truezero database" in done.stderr, words
        assert file.read_bytes() == before, words
        assert made(tmp_path) == {"truezero.db"}, words


@pytest.mark.slow
def test_the_commands_of_the_page_run(folder: Path) -> None:
    page = (ROOT / "docs" / "operations" / "data.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    row = "[[causes]]\nstatus = 418\ncause = 'quota'\n"
    (folder / "truezero.toml").write_text(row, encoding="utf-8")
    for line in "".join(blocks).splitlines():
        command, *words = shlex.split(line)
        assert command == "truezero"
        assert (code := told(truezero(*words, folder=folder)))[0] == 0, (line, code)
    left = {path.name for path in folder.iterdir()} - {"truezero.db", "truezero.toml"}
    assert left == {"kept.db", "night.jsonl", "other.db", "judged.jsonl"}


def test_upgrading_names_the_newest_schema() -> None:
    page = (ROOT / "docs" / "operations" / "upgrading.md").read_text()
    assert re.findall(r"^Schema (\d{4})", page, re.MULTILINE)[0] == EVER[-1]
