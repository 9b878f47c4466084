"""Moving data as an operator does it: real processes, exit codes, one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proxy.filled import run
from tests.truezero.cli.operating import here, made, told, truezero

HELD = "8 rollouts, 25 exchanges, 6 verdicts, 1 breaker"
NONE = "0 rollouts, 0 exchanges, 0 verdicts, 0 breakers"


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A folder with a database that `truezero` takes without being told which."""
    shutil.copy(filled, tmp_path / "truezero.db")
    return tmp_path


def test_an_archive_goes_through_pipes_and_files(folder: Path) -> None:
    out = truezero("export", "--full", folder=folder)
    assert told(out) == (0, f"truezero: exported {HELD}\n")
    taken = truezero("import", "-", "--database", "o.db", folder=folder, given=out.stdout)
    assert told(taken) == (0, f"truezero: imported {HELD}; already present: {NONE}\n")
    again = truezero("export", "--full", folder=folder, TRUEZERO_DATABASE_URL="o.db")
    assert again.stdout == out.stdout
    assert told(truezero("export", "--full", "--out", "archive", folder=folder))[0] == 0
    assert (folder / "archive").read_bytes() == out.stdout
    taken = truezero("import", "archive", "--database", "o.db", folder=folder)
    assert told(taken) == (0, f"truezero: imported {NONE}; already present: {HELD}\n")
    assert {path.name for path in folder.iterdir()} == {"archive", "truezero.db", "o.db"}


def test_an_import_counts_what_it_refused_by_kind(folder: Path) -> None:
    run(folder / "truezero.db", "DELETE FROM rollouts WHERE id = 'é'")
    run(folder / "truezero.db", "DELETE FROM verdicts WHERE rollout_id = 'é'")
    whole = truezero("export", "--full", folder=folder).stdout
    run(folder / "truezero.db", "UPDATE exchanges SET status = 299 WHERE rollout_id = 'é'")
    run(folder / "truezero.db", "UPDATE rollouts SET gaps = 9 WHERE id = 'a'")
    run(folder / "truezero.db", "UPDATE breakers SET state = '{}'")
    code, said = told(truezero("import", "-", folder=folder, given=whole))
    assert code == 1
    assert "truezero: rollout 'a' already exists with different data (rollout: gaps)\n" in said
    refused = "1 rollout, 3 calls without a rollout, 1 breaker"
    assert said.endswith(f"truezero: rejected and left unchanged: {refused}\n")


def test_the_format_of_the_last_release_warns_and_writes_json_lines(folder: Path) -> None:
    done = truezero("export", "--full", "--format", "parquet", folder=folder)
    assert done.stdout == truezero("export", "--full", folder=folder).stdout
    warning = "warning: --format is gone, and has no effect: an archive is JSON lines\n"
    assert told(done) == (0, f"{warning}truezero: exported {HELD}\n")


def test_an_export_says_what_an_import_will_refuse(folder: Path) -> None:
    file = folder / "truezero.db"
    run(file, "UPDATE rollouts SET created_at = 1e12 WHERE id = 'a'")
    run(file, "UPDATE exchanges SET started_at = -1.0 WHERE rollout_id = 'é'")
    run(file, "UPDATE rollouts SET id = 'x' || char(27) WHERE id = '～'")
    done = truezero("export", "--full", "--out", "archive", folder=folder)
    code, said = told(done)
    assert code == 0
    exported, refused = said.splitlines()
    assert exported.startswith("truezero: exported 8 rollouts")
    assert refused == (
        "truezero: an import of this archive will fail: it refuses 5 records: "
        "rollout 'a' (created_at: 1000000000000.0 is not a valid time), "
        "rollout 'x\\x1b' (id: a rollout id must not contain control characters), "
        "exchange of 'é' (started_at: -1.0 is not a valid time), …"
    )
    taken = truezero("import", "archive", "--database", "o.db", folder=folder)
    assert told(taken)[0] == 1


SENTENCES = [
    (["export", "--full", "--database", "none.db"], 1, "no database at none.db"),
    (["export", "--database", "truezero.db"], 2, "--database requires --full"),
    (["export", "--full", "--out", "no/where"], 1, "no/where.part: No such file"),
    (["export", "--full", "--database", "junk"], 1, "file is not a database"),
    (["import", "none"], 1, "none: No such file"),
    (["import", "junk"], 1, "line 1: "),
    (["import", "junk", "--database", "o.db"], 1, "line 1: "),
    (["import", "folder"], 1, "folder is a folder: an archive is a file of JSON lines"),
    (["export", "--full", "--database", "oracle://h/d"], 1, "only SQLite and"),
]


def test_what_cannot_be_done_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "junk").write_bytes(b"this is no database and no archive" * 100)
    (folder / "folder").mkdir()
    before = made(folder)
    for words, code, said in SENTENCES:
        done = here(monkeypatch, folder, words)
        assert done.exit_code == code, words
        assert len(done.stderr.strip().splitlines()) == 1, (words, done.stderr)
        assert said in done.stderr, words
        assert "secret" not in done.stderr, words
        assert made(folder) == before, words


OPENED = [["export", "--full"], ["import", "-"]]


def test_a_database_of_a_later_version_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = here(monkeypatch, folder, ["export", "--full"]).stdout_bytes
    run(folder / "truezero.db", "UPDATE alembic_version SET version_num = '9999'")
    later = "truezero: the database has schema 9999, but this version"
    for words in OPENED:
        done = here(monkeypatch, folder, words, archive)
        assert done.exit_code == 1, words
        assert done.stderr.startswith(later), words
        assert len(done.stderr.splitlines()) == 1, words
