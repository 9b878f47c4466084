"""An archive holds all about every rollout, and gives it back byte for byte, or refuses."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings

from classifier.records import Exchange
from proxy.store.admin import archive, jsonl, nouns, parquet, rows, validate
from proxy.store.admin.archive import ImportResult
from proxy.store.admin.manifest import ArchiveError
from proxy.store.admin.nouns import NOUNS, Record
from proxy.store.database import Database
from proxy.store.errors import UnusableDatabase
from proxy.store.types import CommitBatch
from tests.classifier.test_codec import EXCHANGES
from tests.proxy.api.test_routes import empty
from tests.proxy.filled import NAMES, contents, fill, run
from tests.proxy.store.records import BARE


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> str:
    return str(shutil.copy(filled, tmp_path / "full.db"))


def written(url: str, batch: str | None = None) -> bytes:
    out = io.BytesIO()
    with archive.export_records(url, batch=batch) as records:
        jsonl.write(records, out)
    return out.getvalue()


def take(url: str, whole: bytes) -> ImportResult:
    return archive.import_records(url, jsonl.read(whole.splitlines(keepends=True)))


def records(whole: bytes, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in whole.splitlines()]
    return [record for record in found if record["type"] == kind]


def changed(whole: bytes, change: Callable[[dict[str, Any]], object], *, at: int = 0) -> bytes:
    """An archive with one of its exchanges changed."""
    lines = whole.splitlines(keepends=True)
    where = [n for n, line in enumerate(lines) if b'{"type":"exchange"' in line][at]
    record = json.loads(lines[where])
    change(record)
    lines[where] = json.dumps(record).encode() + b"\n"
    return b"".join(lines)


# --- round trips ---------------------------------------------------------------------------


def test_what_was_exported_imported_and_exported_is_the_same_bytes(
    full: str, tmp_path: Path
) -> None:
    first = written(full)
    other = str(tmp_path / "other.db")
    taken = take(other, first)
    assert written(other) == first
    assert taken.added == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    assert not taken.unchanged
    assert not taken.refused


def test_an_archive_is_read_back_row_by_row(full: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    take(other, written(full))
    before, after = contents(full), contents(other)
    for table in ("rollouts", "verdicts", "breakers"):
        assert after[table] == before[table], table
    assert set(before["exchanges"]) < set(after["exchanges"])


def test_rollouts_come_in_the_order_of_their_code_points_each_with_its_own(full: str) -> None:
    found = [json.loads(line) for line in written(full).splitlines()][1:-1]
    owners = [r["id"] if r["type"] == "rollout" else r.get("rollout_id") for r in found]
    assert [owner for owner, _ in itertools.groupby(owners)] == [*NAMES, None]
    assert [r["type"] for r in found if "😀" in (r.get("id"), r.get("rollout_id"))] == [
        "rollout", "exchange", "exchange", "exchange",
    ]  # fmt: skip


def test_a_call_in_flight_is_lost_to_whoever_takes_the_archive(full: str, tmp_path: Path) -> None:
    lost = [record for record in records(written(full), "exchange") if record["ending"] == "lost"]
    assert [(record["rollout_id"], record["id"]) for record in lost] == [("a", "flying")]
    assert (lost[0]["model"], lost[0]["usage_source"]) == ("m", "absent")
    other = str(tmp_path / "other.db")
    take(other, written(full))
    found = Database(other).rollouts.load("a")
    assert found is not None
    assert "lost" in {exchange.ending for exchange in found[1].exchanges}
    assert found[1].gaps == 2


def test_calls_in_flight_stand_with_their_rollouts(full: str, tmp_path: Path) -> None:
    database = Database(full)
    flying = [
        replace(BARE, id=call, rollout_id=owner)
        for call, owner in (("1", "😀"), ("2", "A/b"), ("3", "é"), ("4", "a"), ("0", "é"))
    ]
    database.calls.write(CommitBatch(opened=flying), worker="w")
    other = str(tmp_path / "other.db")
    assert take(other, written(full)).added["exchange"] == 30
    assert written(other) == written(full)


def test_no_secret_and_no_process_is_in_an_archive(full: str) -> None:
    whole = written(full)
    secrets = [value for _, value in contents(full)["server"]]
    assert len(secrets) == 2
    assert not [secret for secret in secrets if secret.encode() in whole]
    assert {json.loads(line)["type"] for line in whole.splitlines()[1:-1]} == NOUNS.keys()


def test_an_archive_of_a_batch_holds_all_about_it_and_nothing_else(
    full: str, tmp_path: Path
) -> None:
    whole = written(full, "b1")
    assert {record["batch"] for record in records(whole, "rollout")} == {"b1"}
    ids = {record["id"] for record in records(whole, "rollout")}
    assert {record["rollout_id"] for record in records(whole, "exchange")} == ids
    assert [record["batch"] for record in records(whole, "breaker")] == ["b1"]
    other = str(tmp_path / "other.db")
    take(other, whole)
    assert written(other) == whole
    take(other, written(full))
    assert written(other) == written(full)


def test_an_archive_goes_to_postgresql_and_back(
    full: str, tmp_path: Path, postgres_url: str
) -> None:
    first = written(full)
    take(postgres_url, first)
    assert written(postgres_url) == first
    assert not take(postgres_url, first).added
    assert written(postgres_url, "b1") == written(full, "b1")
    back = str(tmp_path / "back.db")
    take(back, written(postgres_url))
    assert written(back) == first


def test_an_archive_of_postgresql_holds_what_one_of_sqlite_does(
    full: str, postgres_url: str
) -> None:
    """Filled by the same calls, and ordered by the same code points."""
    fill(postgres_url).close()
    assert written(postgres_url) == written(full)


def test_a_language_of_postgresqls_changes_no_order(full: str, english_postgres_url: str) -> None:
    take(english_postgres_url, written(full))
    assert written(english_postgres_url) == written(full)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXCHANGES)
def test_any_exchange_goes_through_an_archive(tmp_path: Path, exchange: Exchange) -> None:
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    database = Database(str(one))
    for file in (one, two):
        if file.exists():
            empty(str(file), but=())
    if not one.exists():
        database.prepare()
    database.calls.write(CommitBatch(recorded=[exchange]), worker="w")
    database.close()
    take(str(two), written(str(one)))
    assert contents(str(two))["exchanges"] == contents(str(one))["exchanges"]
    assert written(str(two)) == written(str(one))


# --- importing again, and into what is there -----------------------------------------------


def test_importing_again_changes_nothing(full: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    take(other, written(full))
    before = contents(other)
    again = take(other, written(full))
    assert contents(other) == before
    assert not again.added
    assert again.unchanged == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}


def test_an_import_that_was_cut_short_goes_on_where_it_was(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "CHUNK", 1)  # a commit for each rollout
    other = str(tmp_path / "other.db")
    lines = written(full).splitlines(keepends=True)
    for cut in (7, 15, 29):
        with pytest.raises(ArchiveError, match="truncated"):
            take(other, b"".join(lines[:cut]))
        held = contents(other)
        whole = {rollout[0] for rollout in held["rollouts"]}
        assert held["rollouts"] == [row for row in contents(full)["rollouts"] if row[0] in whole]
        for name in whole:
            assert len([row for row in held["exchanges"] if row[0] == name]) == (3 + (name == "a"))
    take(other, b"".join(lines))
    assert written(other) == b"".join(lines)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE rollouts SET gaps = 7 WHERE id = 'é'", "rollout: gaps"),
        ("UPDATE exchanges SET status = 500 WHERE rollout_id = 'é'", "exchange: status"),
        ("UPDATE exchanges SET tool_calls = NULL WHERE rollout_id = 'é'", "exchange: tool_calls"),
        (
            "DELETE FROM exchanges WHERE rollout_id = 'é'",
            "0 exchanges stored, 3 in the archive",
        ),
        ("UPDATE exchanges SET id = 'x' || id WHERE rollout_id = 'é'", "exchange: id"),
    ],
)
def test_a_rollout_that_is_there_with_other_facts_is_refused_and_stays(
    full: str, tmp_path: Path, statement: str, said: str
) -> None:
    other = tmp_path / "other.db"
    whole = written(full)
    take(str(other), whole)
    run(other, statement)
    run(other, "DELETE FROM rollouts WHERE id = 'A/b'")
    run(other, "DELETE FROM exchanges WHERE rollout_id = 'A/b'")
    run(other, "DELETE FROM verdicts WHERE rollout_id = 'A/b'")
    before = contents(str(other))
    taken = take(str(other), whole)
    assert taken.conflicts == [f"rollout 'é' already exists with different data ({said})"]
    assert taken.refused == 1
    assert taken.added["rollout"] == 1, "the others are taken"
    after = contents(str(other))
    for table in ("rollouts", "exchanges", "verdicts"):
        kept = [row for row in after[table] if "A/b" not in row[:2]]
        assert kept == before[table]


def test_a_breaker_in_another_state_is_refused_and_stays(full: str, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    take(str(other), written(full))
    run(other, "UPDATE breakers SET state = '{}'")
    taken = take(str(other), written(full))
    assert taken.conflicts == [
        "the breaker of 'b1' on 'openai/gpt-5/key-0' already exists in a different state"
    ]
    assert contents(str(other))["breakers"] == [("b1", "openai/gpt-5/key-0", "{}")]


def test_a_verdict_that_was_given_since_stays(full: str, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    take(str(other), written(full))
    run(other, "UPDATE verdicts SET given_at = 9.0")
    taken = take(str(other), written(full))
    assert not taken.refused
    assert {row[15] for row in contents(str(other))["verdicts"]} == {9.0}


def test_many_refusals_are_counted_and_the_first_told(full: str, tmp_path: Path) -> None:
    other = tmp_path / "many.db"
    whole = written(full)
    take(str(other), whole)
    run(other, "UPDATE rollouts SET created_at = created_at + 1")
    taken = ImportResult()
    for number in range(12):
        taken.refuse(str(number))
    assert (taken.refused, len(taken.conflicts)) == (12, 10)
    assert take(str(other), whole).refused == len(NAMES)


# --- invalid archives ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: r.update(status="429"), "line 3: status: '429' has the wrong type"),
        (lambda r: r.update(injected=1), "line 3: injected: 1 has the wrong type"),
        (lambda r: r.update(upstream=None), "line 3: upstream: None has the wrong type"),
        (lambda r: r.update(shoe=1), "line 3: shoe: not a field of exchange"),
        (lambda r: r.pop("kind"), "line 3: kind: missing"),
        (lambda r: r.update(ending="never"), "line 3: 'never' is not a known value"),
        (lambda r: r.update(type="shoe"), "line 3: type: 'shoe' is not one of rollout"),
        (lambda r: r.update(started_at=1e15),
         "line 3: started_at: 1000000000000000.0 is not a valid time"),
        (lambda r: r.update(rollout_id="!"), "'!': no rollout record"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_of_ours_is_named(
    full: str, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], said: str
) -> None:
    with pytest.raises((ArchiveError, nouns.RecordError)) as refusal:
        take(str(tmp_path / "other.db"), changed(written(full), spoil))
    assert said in str(refusal.value)


def test_records_that_are_not_sorted_are_refused(full: str, tmp_path: Path) -> None:
    one, two = [r for r in jsonl.read(written(full).splitlines()) if r[0] == "rollout"][:2]
    with pytest.raises(nouns.RecordError, match="'' comes after 'A/b'"):
        archive.import_records(str(tmp_path / "other.db"), [two, one])
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("column", "value"), [("metadata", "{"), ("outcome", "[]"), ("fault", "not JSON")]
)
def test_text_that_should_be_json_is_looked_at(full: str, column: str, value: str) -> None:
    record = records(written(full), "rollout")[0]
    del record["type"]
    with pytest.raises(nouns.RecordError, match=f"{column}: not a JSON object"):
        validate.row_of("rollout", {**record, column: value})


def test_a_field_that_a_later_schema_adds_may_be_missing(full: str) -> None:
    record = records(written(full), "rollout")[1]
    del record["type"]
    whole = validate.row_of("rollout", record)
    for name in ("gaps", "registered", "usage_channel", "outcome"):
        at = NOUNS["rollout"].columns.index(name)
        less = {key: value for key, value in record.items() if key != name}
        default = validate.row_of("rollout", less)[at]
        assert (default, type(default)) in [
            (0, int),
            (False, bool),
            ("proxy", str),
            (None, type(None)),
        ]
        assert validate.row_of("rollout", less)[:at] == whole[:at]


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (b"", "not an archive"),
        (b'{"record":"rollout","id":"r"}\n', "not an archive"),
        (b"PAR1", "line 1: "),
        (b"[]\n", "line 1: not a JSON object"),
        (b'{"type":"truezero-archive","version":2,"schema":"0001"}\n', "has format version 2"),
        (b'{"type":"truezero-archive","version":1,"schema":"9999"}\n', "has schema 9999"),
        (b'{"type":"truezero-archive","version":1,"schema":"0001"}\n', "truncated"),
        (b'{"type":"truezero-archive","version":1,"schema":"0001"}\n{"type":"end","rollout":1}\n',
         "number of records differs"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused_in_a_sentence(
    tmp_path: Path, whole: bytes, said: str
) -> None:
    with pytest.raises(ArchiveError, match=said):
        take(str(tmp_path / "other.db"), whole)
    assert list(tmp_path.iterdir()) == [], "no database is made of it"


def test_a_database_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnusableDatabase, match="no database at"):
        written(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == [], "and none was made"
    (tmp_path / "empty.db").touch()
    with pytest.raises(UnusableDatabase, match="is not a truezero database"):
        written(str(tmp_path / "empty.db"))


# --- Parquet -------------------------------------------------------------------------------


def test_a_folder_of_parquet_gives_back_the_same(full: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "tables", str(tmp_path / "other.db")
    with archive.export_records(full) as found:
        count = parquet.write_folder(found, folder)
    assert count == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    archive.import_records(other, parquet.read(folder))
    assert written(other) == written(full)
    assert not (tmp_path / "tables.part").exists()


def test_parquet_has_a_table_for_each_noun_with_types_and_nulls(full: str, tmp_path: Path) -> None:
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    assert {path.name for path in (tmp_path / "t").iterdir()} == {
        f"{noun}s.parquet" for noun in NOUNS
    }
    table = pyarrow.parquet.read_table(tmp_path / "t" / "exchanges.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["status"] == "int64"
    assert kinds["started_at"] == "double"
    assert kinds["injected"] == "bool"
    assert kinds["model"] == "string"
    assert table["status"].null_count == 17


def test_many_row_groups_are_one_table(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_GROUP", 4)
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    assert pyarrow.parquet.ParquetFile(tmp_path / "t" / "exchanges.parquet").num_row_groups == 7
    archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    assert written(str(tmp_path / "other.db")) == written(full)


def test_a_folder_that_is_there_stays_and_one_that_fails_is_gone(full: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with archive.export_records(full) as found, pytest.raises(FileExistsError):
        parquet.write_folder(found, tmp_path / "t")

    def broken() -> Iterator[Record]:
        with archive.export_records(full) as found:
            yield from itertools.islice(found, 5)
        raise UnusableDatabase("gone")

    with pytest.raises(UnusableDatabase):
        parquet.write_folder(broken(), tmp_path / "u")
    assert not list(tmp_path.glob("u*"))


@pytest.mark.parametrize("noun", NOUNS)
def test_a_folder_that_is_no_archive_is_refused_in_a_sentence(
    full: str, tmp_path: Path, noun: str
) -> None:
    with archive.export_records(full) as found:
        parquet.write_folder(found, tmp_path / "t")
    file = tmp_path / "t" / f"{noun}s.parquet"
    table = pyarrow.parquet.read_table(file)
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), file)
    with pytest.raises(ArchiveError, match=f"{file.name}: not part of an archive"):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    file.write_bytes(b"PAR1")
    with pytest.raises(ArchiveError, match=file.name):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))
    file.unlink()
    with pytest.raises(ArchiveError, match=f"{file.name} is missing"):
        archive.import_records(str(tmp_path / "other.db"), parquet.read(tmp_path / "t"))


def test_without_pyarrow_one_is_told_what_to_install(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        archive.export_records(full) as found,
        pytest.raises(ArchiveError, match=r"pip install 'truezero\[parquet\]'"),
    ):
        parquet.write_folder(found, tmp_path / "t")


# --- size ----------------------------------------------------------------------------------


def test_no_more_than_a_few_rollouts_are_held_at_once(full: str, tmp_path: Path) -> None:
    """A source that counts what was asked of it, and what the database has by then."""
    other = str(tmp_path / "other.db")
    row = validate.row_of
    whole = written(full)
    like = next(r for r in jsonl.read(whole.splitlines()) if r[0] == "rollout")
    assert row is not None
    behind = 0

    def many() -> Iterable[Record]:
        nonlocal behind
        for number in range(3 * rows.CHUNK):
            yield "rollout", (f"{number:08}", *like[1][1:])
            if number == 2 * rows.CHUNK + 5:
                behind = number - len(contents(other)["rollouts"])

    archive.import_records(other, many())
    assert 0 < behind <= rows.CHUNK
