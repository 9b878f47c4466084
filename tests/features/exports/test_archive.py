"""An archive holds all about every rollout, and gives it back byte for byte, or refuses."""
# ruff: noqa: SLF001
# Private: what a process has remembered, and how many groups an archive holds.

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from classifier.codec import decode_exchange, encode_exchange
from classifier.records import UNATTRIBUTED, Ending, Exchange
from proxy.control.rollouts import nameable
from proxy.features.exports import archive, rows
from proxy.features.exports.archive import ArchiveError, ImportResult
from proxy.features.exports.rows import RECORD_TYPES, Record
from proxy.features.prune import deletion
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.errors import UnusableDatabase
from proxy.store.tables import CommitBatch, Gap, Registration, as_json
from tests import postgres
from tests.classifier.test_codec import EXCHANGES
from tests.features.exports.archives import changed, exported, imported, records_of
from tests.proxy.filled import NAMES, contents, fill, run
from tests.proxy.store.records import BARE, FULL
from tests.proxy.store.test_batch_counts import check
from tests.proxy.store.test_verdicts import verdict

# --- round trips ---------------------------------------------------------------------------


def test_what_was_exported_imported_and_exported_is_the_same_bytes(
    full: str, tmp_path: Path
) -> None:
    first = exported(full)
    other = str(tmp_path / "other.db")
    taken = imported(other, first)
    assert exported(other) == first
    assert taken.added == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    assert not taken.unchanged
    assert not taken.refused
    before, after = contents(full), contents(other)
    for table in ("rollouts", "verdicts", "breakers"):
        assert after[table] == before[table], table
    assert set(before["exchanges"]) < set(after["exchanges"])
    again = imported(other, first)
    assert contents(other) == after
    assert (again.unchanged, again.added) == (taken.added, {})


def test_a_batch_that_is_imported_has_ended(full: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    for _ in range(2):
        imported(other, exported(full))
        ended = []
        for url in (full, other):
            database = Database(url)
            ended.append(database.runs.ended("b1"))
            database.close()
        assert ended == [False, True], "its run goes on elsewhere"


def test_rollouts_come_in_the_order_of_their_code_points_each_with_its_own(whole: bytes) -> None:
    found = [json.loads(line) for line in whole.splitlines()][1:-1]
    owners = [r["id"] if r["type"] == "rollout" else r.get("rollout_id") for r in found]
    assert [owner for owner, _ in itertools.groupby(owners)] == [*NAMES, None]
    assert [r["type"] for r in found if "😀" in (r.get("id"), r.get("rollout_id"))] == [
        "rollout", "exchange", "exchange", "exchange",
    ]  # fmt: skip


def test_a_call_in_flight_is_lost_to_whoever_takes_the_archive(full: str, tmp_path: Path) -> None:
    lost = [
        record for record in records_of(exported(full), "exchange") if record["ending"] == "lost"
    ]
    assert [(record["rollout_id"], record["id"]) for record in lost] == [("a", "flying")]
    assert (lost[0]["model"], lost[0]["usage_source"]) == ("m", "absent")
    other = str(tmp_path / "other.db")
    imported(other, exported(full))
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
    assert imported(other, exported(full)).added["exchange"] == 30
    assert exported(other) == exported(full)


def test_no_secret_and_no_process_is_in_an_archive(full: str) -> None:
    whole = exported(full)
    kept = dict(contents(full)["server"])
    secrets = [kept[name] for name in ("salt", "keyring")]
    assert not [secret for secret in secrets if secret.encode() in whole]
    assert {json.loads(line)["type"] for line in whole.splitlines()[1:-1]} == RECORD_TYPES.keys()


def test_an_archive_of_a_batch_holds_all_about_it_and_nothing_else(
    full: str, tmp_path: Path
) -> None:
    whole = exported(full, "b1")
    assert {record["batch"] for record in records_of(whole, "rollout")} == {"b1"}
    ids = {record["id"] for record in records_of(whole, "rollout")}
    assert {record["rollout_id"] for record in records_of(whole, "exchange")} == ids
    assert [record["batch"] for record in records_of(whole, "breaker")] == ["b1"]
    other = str(tmp_path / "other.db")
    imported(other, whole)
    assert exported(other) == whole
    imported(other, exported(full))
    assert exported(other) == exported(full)


def test_an_archive_goes_to_postgresql_and_back(
    full: str, tmp_path: Path, postgres_url: str
) -> None:
    first = exported(full)
    imported(postgres_url, first)
    assert exported(postgres_url) == first
    assert not imported(postgres_url, first).added
    assert exported(postgres_url, "b1") == exported(full, "b1")
    back = str(tmp_path / "back.db")
    imported(back, exported(postgres_url))
    assert exported(back) == first


def test_on_postgresql_imported_calls_stand_in_the_partitions_of_their_months(
    full: str, postgres_url: str
) -> None:
    imported(postgres_url, exported(full))
    count = text("SELECT tableoid::regclass::text, count(*) FROM exchanges GROUP BY 1 ORDER BY 1")
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(count)]
    engine.dispose()
    assert found == [("exchanges_1970_01", 9), ("exchanges_2023_11", 16)]


def test_an_archive_of_postgresql_holds_what_one_of_sqlite_does(
    full: str, postgres_url: str
) -> None:
    """Filled by the same calls, and ordered by the same code points."""
    fill(postgres_url).close()
    assert exported(postgres_url) == exported(full)


def test_a_language_of_postgresqls_changes_no_order(full: str, english_postgres_url: str) -> None:
    imported(english_postgres_url, exported(full))
    assert exported(english_postgres_url) == exported(full)


# --- histories -----------------------------------------------------------------------------

ROLLOUTS, STRAYS = ("r", "s", "t/é"), (UNATTRIBUTED, "pruned", "r.2")
STEP = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(ROLLOUTS), st.sampled_from((None, "b", "c"))),
    st.tuples(st.just("call"), st.sampled_from((*ROLLOUTS, UNATTRIBUTED)), EXCHANGES),
    st.tuples(st.just("stray"), st.sampled_from(STRAYS), EXCHANGES),
    st.tuples(st.just("begin"), st.sampled_from((*ROLLOUTS, UNATTRIBUTED)), EXCHANGES),
    st.tuples(st.sampled_from(("end", "die", "prune")), st.none(), st.none()),
    st.tuples(st.just("gap"), st.sampled_from(ROLLOUTS), st.integers(1, 9)),
    st.tuples(st.just("report"), st.sampled_from(ROLLOUTS), st.sampled_from((0.0, 0.5))),
    st.tuples(st.just("judge"), st.sampled_from(ROLLOUTS), st.booleans()),
    st.tuples(st.just("revoke"), st.sampled_from(ROLLOUTS), st.none()),
)
HISTORIES = st.lists(STEP, max_size=12)
SPENT = [  # every kind of call that the property is about, whatever hypothesis makes of them
    ("call", UNATTRIBUTED, BARE), ("begin", UNATTRIBUTED, replace(BARE, id="x3")),
    ("register", "r", "b"), ("begin", "r", replace(BARE, id="x4")), ("die", None, None),
    ("report", "r", 0.0), ("judge", "r", False), ("stray", "pruned", replace(BARE, id="x5")),
    ("call", "r", replace(BARE, id="x6", ending=Ending.COMPLETE)),
    ("begin", UNATTRIBUTED, replace(BARE, id="x7")),
]  # fmt: skip

KEPT = [  # and every other step
    ("register", "t/é", "c"), ("call", "t/é", FULL), ("report", "t/é", 0.5), ("prune", None, None),
    ("register", "s", "b"), ("register", "r", None), ("begin", "s", FULL), ("gap", "s", 3),
    ("end", None, None), ("judge", "s", True), ("revoke", "r", None), ("stray", "r.2", FULL),
]  # fmt: skip


def storable(call: Exchange) -> Exchange:
    """The same in a few months, and without NUL, which PostgreSQL stores in no text."""
    plain = decode_exchange(json.loads(json.dumps(encode_exchange(call)).replace("\\u0000", "?")))
    began = 1.79e9 + call.timing.started_at % 1e7
    return replace(plain, timing=replace(plain.timing, started_at=began))


def lived(database: Database, history: list[tuple[str, Any, Any]]) -> None:
    """Have a database see a history: calls of rollouts and of none, lost, late, in flight."""
    flying: list[Exchange] = []
    for at, (what, owner, given_) in enumerate(history):
        now = 1.8e9 + at
        if what in ("call", "begin", "stray"):
            each = replace(storable(given_), id=f"{at:04}", rollout_id=owner)
            if what == "stray":  # the process knows its rollout, which was deleted meanwhile
                database.calls._remember([owner])
            if what == "begin":
                flying.append(each)
            batch = CommitBatch(
                opened=[each] if what == "begin" else (),
                recorded=() if what == "begin" else [each],
                late=bool(at % 2),
            )
            database.calls.write(batch, worker="w")
        elif what == "end" and flying:
            database.calls.write(CommitBatch(recorded=[flying.pop()]), worker="w")
        elif what == "die":
            database.workers.retire("w")
            flying.clear()
        elif what == "prune":
            deletion.prune(database, before=now, pause=lambda _s: None)
        elif what == "gap":
            database.calls.write(CommitBatch(gaps={owner: Gap(given_, now)}), worker="w")
        elif what == "register":
            database.rollouts.register(Registration(id=owner, batch=given_), now=now)
        elif what == "report":
            seen = {"status": "success", "rewards": {"reward": given_}}
            database.rollouts.report(owner, as_json(seen), now=now)
        elif what == "judge" and (row := database.rollouts.row(owner)) is not None:
            database.verdicts.store(
                verdict(owner, batch=row["batch"], provisional=given_, began_at=row["created_at"])
            )
        elif what == "revoke":
            database.rollouts.revoke(owner, now=now)


def returned(source: str, target: str) -> bytes:
    """Take an archive of one database to an empty one, and back out of it: the same bytes."""
    first = exported(source)
    taken = imported(target, first)
    assert (taken.refused, taken.unchanged.total()) == (0, 0)
    assert exported(target) == first
    again = imported(target, first)
    assert (again.refused, again.added.total(), again.unchanged) == (0, 0, taken.added)
    database = Database(target)
    try:
        check(database, "import")
    finally:
        database.close()
    return first


def held_calls(url: str) -> set[tuple[str, str]]:
    """All calls of a database, those in flight too, whether they have a rollout or not."""
    tables = contents(url)
    ended = {(row[0], row[1]) for row in tables["exchanges"]}
    return ended | {(row[1], row[0]) for row in tables["open_calls"]}


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORIES)
@example(SPENT)
def test_whatever_a_service_lived_through_comes_back_the_same(
    emptied: Path, history: list[tuple[str, Any, Any]]
) -> None:
    comes_back_the_same(emptied, history)


@pytest.mark.parametrize("history", [SPENT, KEPT], ids=["spent", "kept"])
def test_what_a_service_lived_through_comes_back_the_same(
    emptied: Path, history: list[tuple[str, Any, Any]]
) -> None:
    """Every step there is, in two histories."""
    comes_back_the_same(emptied, history)


def comes_back_the_same(emptied: Path, history: list[tuple[str, Any, Any]]) -> None:
    one, two = (str(shutil.copy(emptied, emptied.with_name(name))) for name in ("one", "two"))
    database = Database(one)
    lived(database, history)
    database.close()
    first = returned(one, two)
    stated = {(each["rollout_id"], each["id"]) for each in records_of(first, "exchange")}
    assert stated == held_calls(one)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=max(5, settings().max_examples // 3),
)
@given(HISTORIES)
@example(SPENT)
def test_whatever_a_service_on_postgresql_lived_through_comes_back_the_same(
    emptied: Path, postgres_server: postgres.Server, history: list[tuple[str, Any, Any]]
) -> None:
    sqlite = str(shutil.copy(emptied, emptied.with_name("sqlite")))
    with postgres_server.database() as one, postgres_server.database() as two:
        database = Database(one)
        lived(database, history)
        database.close()
        assert returned(one, two) == returned(one, sqlite)


@pytest.fixture(scope="module")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file as new, which is copied."""
    file = tmp_path_factory.mktemp("emptied") / "new"
    database = Database(str(file))
    database.prepare()
    database.close()
    return file


# --- calls without a rollout ---------------------------------------------------------------


def nameless(url: Path, *ids: str, owner: str = UNATTRIBUTED, status: int = 200) -> str:
    """Write calls that have no rollout; returns the database."""
    database = Database(str(url))
    database.prepare()
    if owner != UNATTRIBUTED:
        database.calls._remember([owner])  # as a process does whose rollout is deleted meanwhile
    made = [
        replace(BARE, id=each, rollout_id=owner, status=status, ending=Ending.COMPLETE)
        for each in ids
    ]
    database.calls.write(CommitBatch(recorded=made), worker="w")
    database.close()
    return str(url)


def test_lone_calls_of_two_services_are_added_up(tmp_path: Path) -> None:
    one, two = nameless(tmp_path / "1.db", "a", "b"), nameless(tmp_path / "2.db", "b", "c")
    taken = imported(two, exported(one))
    assert (taken.added, taken.unchanged, taken.refused) == ({"exchange": 1}, {"exchange": 1}, 0)
    assert [each["id"] for each in records_of(exported(two), "exchange")] == ["a", "b", "c"]


def test_a_lone_call_that_is_there_with_other_data_is_refused_and_stays(tmp_path: Path) -> None:
    one = nameless(tmp_path / "1.db", "a", "b", status=200)
    two = nameless(tmp_path / "2.db", "b", status=500)
    taken = imported(two, exported(one))
    assert taken.conflicts == [
        "call 'b' without a rollout already exists with different data (status)"
    ]
    assert [each["status"] for each in records_of(exported(two), "exchange")] == [200, 500]


def test_a_lone_call_in_flight_is_the_one_that_an_archive_calls_lost(tmp_path: Path) -> None:
    one = tmp_path / "1.db"
    database = Database(nameless(one))
    database.calls.write(
        CommitBatch(opened=[replace(BARE, id="a", rollout_id=UNATTRIBUTED)]), worker="w"
    )
    database.close()
    taken = imported(str(one), exported(str(one)))
    assert (taken.added, taken.unchanged) == ({}, {"exchange": 1})


@pytest.mark.parametrize("archived", ["only calls", "a rollout"])
def test_calls_and_a_rollout_of_one_id_are_not_mixed(tmp_path: Path, archived: str) -> None:
    lone = nameless(tmp_path / "1.db", "a", owner="r1")
    whole = str(tmp_path / "2.db")
    database = Database(whole)
    database.prepare()
    database.rollouts.register(Registration(id="r1"), now=1.0)
    database.close()
    source, target = (lone, whole) if archived == "only calls" else (whole, lone)
    before = exported(target)
    taken = imported(target, exported(source))
    said = "only calls in the archive" if archived == "only calls" else "only calls are stored"
    assert taken.conflicts == [f"rollout 'r1' already exists with different data ({said})"]
    assert exported(target) == before


def test_no_more_than_a_few_lone_calls_are_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "CHUNK", 3)
    sizes = []
    groups = archive._groups

    def measured(records: Iterable[Record]) -> Iterator[archive.Group]:
        for owner, part in groups(records):
            sizes.append(len(part))
            yield owner, part

    monkeypatch.setattr(archive, "_groups", measured)
    one, two = nameless(tmp_path / "1.db", *"abcdefgh"), str(tmp_path / "2.db")
    imported(two, exported(one))
    assert sizes == [3, 3, 2]
    assert exported(two) == exported(one)


def test_a_verdict_whose_rollout_was_deleted_is_in_no_archive(full: str, tmp_path: Path) -> None:
    run(Path(full), "DELETE FROM rollouts WHERE id = 'a'")
    assert "a" not in {each["rollout_id"] for each in records_of(exported(full), "verdict")}
    other = str(tmp_path / "other.db")
    imported(other, exported(full))
    assert exported(other) == exported(full)


# --- importing again, and into what is there -----------------------------------------------


def test_an_import_that_was_cut_short_goes_on_where_it_was(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "CHUNK", 1)  # a commit for each rollout
    other = str(tmp_path / "other.db")
    lines, stored = exported(full).splitlines(keepends=True), contents(full)["rollouts"]
    for cut in (7, 29):
        with pytest.raises(ArchiveError, match="truncated"):
            imported(other, b"".join(lines[:cut]))
        held = contents(other)
        whole = {rollout[0] for rollout in held["rollouts"]}
        assert held["rollouts"] == [row for row in stored if row[0] in whole]
        for name in whole:
            assert len([row for row in held["exchanges"] if row[0] == name]) == (3 + (name == "a"))
    imported(other, b"".join(lines))
    assert exported(other) == b"".join(lines)


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
    whole: bytes, tmp_path: Path, statement: str, said: str
) -> None:
    other = tmp_path / "other.db"
    imported(str(other), whole)
    run(other, statement)
    run(other, "DELETE FROM rollouts WHERE id = 'A/b'")
    run(other, "DELETE FROM exchanges WHERE rollout_id = 'A/b'")
    run(other, "DELETE FROM verdicts WHERE rollout_id = 'A/b'")
    before = contents(str(other))
    taken = imported(str(other), whole)
    assert taken.conflicts == [f"rollout 'é' already exists with different data ({said})"]
    assert taken.refused == 1
    assert taken.added["rollout"] == 1, "the others are taken"
    after = contents(str(other))
    for table in ("rollouts", "exchanges", "verdicts"):
        kept = [row for row in after[table] if "A/b" not in row[:2]]
        assert kept == before[table]


def test_a_breaker_in_another_state_is_refused_and_stays(whole: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    imported(str(other), whole)
    run(other, "UPDATE breakers SET state = '{}'")
    taken = imported(str(other), whole)
    assert taken.conflicts == [
        "the breaker of 'b1' on 'openai/gpt-5/key-0' already exists in a different state"
    ]
    assert contents(str(other))["breakers"] == [("b1", "openai/gpt-5/key-0", "{}")]


def test_a_verdict_that_was_given_since_stays(whole: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    imported(str(other), whole)
    run(other, "UPDATE verdicts SET given_at = 9.0")
    taken = imported(str(other), whole)
    assert not taken.refused
    assert {row[15] for row in contents(str(other))["verdicts"]} == {9.0}


def test_a_verdict_of_an_earlier_archive_learns_when_its_rollout_began(
    full: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    kept = contents(full)["verdicts"]
    run(Path(full), "UPDATE verdicts SET began_at = NULL")
    imported(str(other), exported(full))
    assert contents(str(other))["verdicts"] == kept


def test_many_refusals_are_counted_and_the_first_told(whole: bytes, tmp_path: Path) -> None:
    other = tmp_path / "many.db"
    imported(str(other), whole)
    run(other, "UPDATE rollouts SET created_at = created_at + 1")
    taken = ImportResult()
    for number in range(12):
        taken.refuse("rollout", str(number))
    assert (taken.refused, len(taken.conflicts)) == (12, 10)
    assert imported(str(other), whole).refused == len(NAMES)


# --- invalid archives ----------------------------------------------------------------------


def test_records_out_of_order_twice_or_without_their_rollout_are_refused(
    whole: bytes, tmp_path: Path
) -> None:
    records = [*archive.read(whole.splitlines())]
    first, second = [record for record in records if record[0] == "rollout"][:2]
    verdict = records_of(whole, "verdict")[0] | {"rollout_id": "!"}
    del verdict["type"]
    for part, said in (
        ([second, first], "'!' comes after 'A/b'"),
        ([first, first], "more than one rollout record"),
        ([("verdict", archive.row_of("verdict", verdict))], "'!': no rollout record"),
    ):
        with pytest.raises(rows.RecordError, match=said):
            archive.import_records(str(tmp_path / "other.db"), part)


def test_a_database_that_cannot_be_read_is_refused_in_a_sentence(full: str, tmp_path: Path) -> None:
    run(Path(full), "UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(UnusableDatabase, match=r"has schema 0001.*truezero db upgrade"):
        exported(full)
    Path(full).unlink()
    with pytest.raises(UnusableDatabase, match="no database at"):
        exported(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == [], "and none was made"
    (tmp_path / "empty.db").touch()
    with pytest.raises(UnusableDatabase, match="is not a truezero database"):
        exported(str(tmp_path / "empty.db"))


# --- size ----------------------------------------------------------------------------------


def test_no_more_than_a_few_rollouts_are_held_at_once(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that counts what was asked of it, and what the database has by then."""
    chunk = 100
    monkeypatch.setattr(archive, "CHUNK", chunk)
    other = str(tmp_path / "other.db")
    row = archive.row_of
    like = next(r for r in archive.read(whole.splitlines()) if r[0] == "rollout")
    assert row is not None
    behind = 0

    def many() -> Iterable[Record]:
        nonlocal behind
        for number in range(3 * chunk):
            yield "rollout", (f"{number:08}", *like[1][1:])
            if number == 2 * chunk + 5:
                behind = number - len(contents(other)["rollouts"])

    archive.import_records(other, many())
    assert 0 < behind <= chunk


# --- JSON-lines archives: whole files, and refusals that name the line ----------------------------


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
        imported(str(tmp_path / "other.db"), whole)
    assert list(tmp_path.iterdir()) == [], "no database is made of it"


def test_a_file_gets_its_name_once_it_is_complete(full: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    with archive.export_records(full) as found:
        count = archive.write_file(found, path)
    assert count == {"rollout": 8, "exchange": 25, "verdict": 6, "breaker": 1}
    assert path.read_bytes() == exported(full)

    def broken() -> Iterator[Record]:
        yield next(archive.read(path.read_bytes().splitlines()))
        raise UnusableDatabase("gone")

    before = path.read_bytes()
    with pytest.raises(UnusableDatabase):
        archive.write_file(broken(), path)
    assert path.read_bytes() == before, "the earlier file stays"
    assert not list(tmp_path.glob("*.part"))


def test_an_archive_may_count_no_record_of_a_type_that_its_service_lacks(whole: bytes) -> None:
    *lines, last = whole.splitlines()
    lines = [line for line in lines if b'"type":"breaker"' not in line]
    counts = json.loads(last) | {"other": 0}
    for counted in ({**counts, "breaker": 0}, {k: v for k, v in counts.items() if k != "breaker"}):
        assert len(list(archive.read([*lines, json.dumps(counted).encode()]))) == len(lines) - 1
    with pytest.raises(ArchiveError, match="number of records differs"):
        list(archive.read([*lines, json.dumps({**counts, "breaker": 0, "other": 1}).encode()]))


# --- Records are checked field by field before they become rows -----------------------------------


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
        (lambda r: r.update(rollout_id="a\n"),
         "line 3: rollout_id: a rollout id must not contain control characters"),
        (lambda r: r.update(rollout_id="a" * 201),
         "line 3: rollout_id: a rollout id has at most 200 characters"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_of_ours_is_named(
    whole: bytes, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], said: str
) -> None:
    with pytest.raises((ArchiveError, rows.RecordError)) as refusal:
        imported(str(tmp_path / "other.db"), changed(whole, spoil))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        ("rollout", "metadata", "{", "not a JSON object"),
        ("rollout", "outcome", "[]", "not a JSON object"),
        ("rollout", "fault", "not JSON", "not a JSON object"),
        ("rollout", "limit_reached", "1", "not a JSON object"),
        ("rollout", "limit_reached", "{}", "scope"),  # nobody could judge by it
        *(
            (kind, field, at, "is not a valid time")  # no page could show it
            for kind, field in (
                ("rollout", "created_at"), ("rollout", "outcome_at"), ("exchange", "started_at"),
                ("verdict", "given_at"), ("verdict", "began_at"),
            )
            for at in (-1.0, 1e12, 1e300)
        ),
    ],
)  # fmt: skip
def test_a_value_that_nobody_could_use_is_refused(
    whole: bytes, kind: str, field: str, value: object, said: str
) -> None:
    record = records_of(whole, kind)[0]
    del record["type"]
    with pytest.raises(rows.RecordError, match=f"{field}.*{said}"):
        archive.row_of(kind, {**record, field: value})


def test_a_field_that_a_later_schema_adds_may_be_missing(whole: bytes) -> None:
    record = records_of(whole, "rollout")[1]
    del record["type"]
    row = archive.row_of("rollout", record)
    for name in ("gaps", "registered", "usage_channel", "outcome"):
        at = RECORD_TYPES["rollout"].columns.index(name)
        less = {key: value for key, value in record.items() if key != name}
        default = archive.row_of("rollout", less)[at]
        assert (default, type(default)) in [
            (0, int),
            (False, bool),
            ("proxy", str),
            (None, type(None)),
        ]
        assert archive.row_of("rollout", less)[:at] == row[:at]


@pytest.mark.parametrize("name", ["", "a\0", "a\u2028", "a" * 201, "unattributed", "_reference"])
def test_an_id_that_registration_refuses_is_refused(whole: bytes, name: str) -> None:
    with pytest.raises(Refusal):
        nameable(name)
    for kind, field in (("rollout", "id"), ("verdict", "rollout_id")):
        record = records_of(whole, kind)[0]
        del record["type"]
        with pytest.raises(rows.RecordError, match=f"^{field}: "):
            archive.row_of(kind, {**record, field: name})
