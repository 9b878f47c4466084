"""`truezero serve` and `db upgrade`: what cannot start is one sentence and an exit code."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from proxy.store.database import Database
from tests.proxy.store import records
from tests.truezero.cli.test_cli import truezero


def test_an_unwritable_database_is_one_sentence(tmp_path: Path) -> None:
    where = str(tmp_path / "no" / "folder" / "t.db")
    for command in (["serve", "--port", "0"], ["db", "upgrade"]):
        said = truezero(*command, "--database", where, folder=tmp_path)
        assert said.returncode == 1
        assert said.stdout == ""
        assert len(said.stderr.strip().splitlines()) == 1
        assert where in said.stderr


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database file, however one looks at it" * 100)
    said = truezero("serve", "--port", "0", "--database", str(junk), folder=tmp_path)
    assert said.returncode == 1
    assert len(said.stderr.strip().splitlines()) == 1
    assert "not a database" in said.stderr


def test_a_port_in_use_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = truezero("serve", "--make-token", "--port", port, folder=tmp_path)
    assert said.returncode == 1
    assert len(said.stderr.strip().splitlines()) == 1
    assert port in said.stderr
    assert "in use" in said.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TRUEZERO_PROT": "1"}, "TRUEZERO_PROT"),
        ({"TRUEZERO_WORKERS": "many"}, "TRUEZERO_WORKERS"),
        ({"TRUEZERO_HOST": "0.0.0.0"}, "TRUEZERO_ADMIN_TOKEN"),
        ({"TRUEZERO_UPSTREAM_DOCS": "https://x.example"}, "docs"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_exit_2(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    got = truezero("serve", "--port", "0", folder=tmp_path, **environment)
    assert got.returncode == 2
    assert len(got.stderr.strip().splitlines()) == 1
    assert said in got.stderr


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    kept = Path(records.__file__).parent / "releases" / "0.1.0.sql"
    with closing(sqlite3.connect(tmp_path / "t.db")) as old:
        old.executescript(kept.read_text("utf-8"))
    first = truezero("db", "upgrade", "--database", "t.db", folder=tmp_path)
    second = truezero("db", "upgrade", "--database", "t.db", folder=tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert " → " in first.stdout
    assert "→" not in second.stdout


def test_token_prints_what_is_kept_or_set_and_a_link_once_the_service_was_started(
    tmp_path: Path,
) -> None:
    absent = str(tmp_path / "absent" / "token")
    failed = truezero("token", "--make", folder=tmp_path, TRUEZERO_ADMIN_TOKEN_FILE=absent)
    assert failed.stderr.startswith(
        f"truezero: cannot make the admin token in {tmp_path}/absent: No"
    )
    none = truezero("token", folder=tmp_path)
    assert (none.returncode, none.stdout) == (1, "")
    assert "--make-token" in none.stderr
    made = truezero("token", "--make", folder=tmp_path)
    kept = (tmp_path / "admin-token").read_text()
    assert (made.returncode, made.stdout) == (0, kept)
    assert truezero("token", folder=tmp_path).stdout == kept
    assert truezero("token", folder=tmp_path, TRUEZERO_ADMIN_TOKEN="mine").stdout == "mine\n"
    early = truezero("token", "--link", folder=tmp_path)
    assert (early.returncode, early.stdout) == (1, "")
    assert "start the service first" in early.stderr
    assert not (tmp_path / "truezero.db").exists()
    with closing(Database(str(tmp_path / "truezero.db"))) as database:
        database.prepare()
    link = truezero("token", "--link", folder=tmp_path).stdout
    assert link.startswith("http://127.0.0.1:8383/ui/sign-in#")
    elsewhere = truezero("token", "--link", "--port", "8484", folder=tmp_path).stdout
    assert elsewhere.startswith("http://127.0.0.1:8484/ui/sign-in#")
    assert kept.strip() not in link
