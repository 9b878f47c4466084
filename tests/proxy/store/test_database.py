"""What is written can be read back, by any process, after any death."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Engine, create_engine, event, inspect, update

from classifier.records import (
    Attribution,
    Cause,
    Ending,
    Exchange,
    Kind,
    Timing,
    Usage,
    UsageSource,
)
from classifier.verdicts import Subcategory
from proxy import store
from proxy.store import migrations
from proxy.store.admin.rows import place
from proxy.store.database import Database
from proxy.store.errors import BadUrl, DatabaseUnavailable
from proxy.store.tables import metadata, workers
from proxy.store.types import CommitBatch, Gap, Registration

FULL = Exchange(
    id="x1", rollout_id="r1", upstream="openai", api="openai.chat",
    timing=Timing(started_at=1000.5, first_byte_s=0.1, first_token_s=0.2, duration_s=1.5),
    kind=Kind.INFERENCE, method="POST", role="agent", model="gpt-5", answered_model="gpt-5-x",
    status=429, ending=Ending.COMPLETE, streamed=True,
    usage=Usage(
        input_tokens=0, output_tokens=2, cached_input_tokens=3, cache_write_tokens=4,
        reasoning_tokens=5, total_tokens=6, input_total=7, output_total=8,
        source=UsageSource.PROVIDER, cost_usd=0.25,
    ),
    finish_reason="stop", tool_calls=0, output_seen=False, has_tools=True,
    cause=Cause(
        subcategory=Subcategory.QUOTA, transient=False, rule="openai.quota", reason="plan",
        code="insufficient_quota", retry_after_s=2.5,
    ),
    provider_request_id="req_1", request_bytes=10, response_bytes=20, request_digest="ab",
    sdk_retry=1, attribution=Attribution.HEADER, key_digest="key-00000000", injected=True,
    deaf="line too long",
)  # fmt: skip
BARE = Exchange(
    id="x2", rollout_id="r1", upstream="u", api="opaque", timing=Timing(started_at=1001.0)
)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    opened.prepare()
    yield opened
    opened.close()


def seen(database: Database, rollout_id: str = "r1") -> tuple[Exchange, ...]:
    found = database.rollouts.load(rollout_id)
    assert found is not None
    return found[1].exchanges


def test_an_exchange_comes_back_as_it_went_in(database: Database) -> None:
    ended = replace(BARE, ending=Ending.NEVER_CONNECTED)
    database.calls.write(CommitBatch(recorded=[FULL, ended]), worker="w")
    assert seen(database) == (FULL, ended)


def test_unknown_stays_null_and_zero_stays_zero(database: Database) -> None:
    database.calls.write(
        CommitBatch(recorded=[FULL, replace(BARE, ending=Ending.COMPLETE)]), worker="w"
    )
    full, bare = seen(database)
    assert full.usage.input_tokens == 0
    assert full.output_seen is False
    assert bare.usage == Usage()
    assert bare.output_seen is None
    assert bare.streamed is None


def test_a_rollout_is_created_by_its_first_exchange(database: Database) -> None:
    assert database.rollouts.load("r1") is None
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert not database.rollouts.is_registered("r1")


def test_a_call_in_flight_is_visible_and_its_end_replaces_it(database: Database) -> None:
    database.calls.write(CommitBatch(opened=[BARE]), worker="w")
    assert seen(database) == (BARE,)
    assert database.calls.in_flight("r1") == 1
    database.calls.write(CommitBatch(recorded=[replace(BARE, ending=Ending.COMPLETE)]), worker="w")
    assert [exchange.ending for exchange in seen(database)] == [Ending.COMPLETE]
    assert database.calls.in_flight("r1") == 0


def test_a_call_that_ends_while_it_is_looked_at_is_seen_all_the_same(database: Database) -> None:
    """Open calls and ended ones are two tables, read one after the other."""
    database.calls.write(CommitBatch(opened=[BARE]), worker="w")
    written: list[CommitBatch] = []

    def end(*said: Any) -> None:
        if "FROM exchanges" in said[2] and not written:
            written.append(CommitBatch(recorded=[replace(BARE, ending=Ending.COMPLETE)]))
            database.calls.write(written[0], worker="w")

    event.listen(database._connections.reader, "after_cursor_execute", end)
    assert [exchange.id for exchange in seen(database)] == ["x2"]
    assert written


def test_recording_again_replaces(database: Database) -> None:
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    database.calls.write(CommitBatch(recorded=[replace(FULL, response_bytes=99)]), worker="w")
    assert [exchange.response_bytes for exchange in seen(database)] == [99]


def test_what_a_dead_process_had_open_is_lost(database: Database) -> None:
    database.heartbeat("dead", host="here", now=100.0)
    database.calls.write(CommitBatch(opened=[BARE], recorded=[FULL]), worker="dead")
    database.heartbeat("me", host="elsewhere", now=101.0)
    assert database.calls.in_flight("r1") == 1, "a worker seen a second ago may live"
    database.heartbeat("me", host="elsewhere", now=195.0)
    database.heartbeat("me", host="elsewhere", now=200.0)
    assert [exchange.ending for exchange in seen(database)] == [Ending.COMPLETE, Ending.LOST]
    assert database.calls.in_flight("r1") == 0


def test_who_was_away_itself_takes_nobody_for_dead(database: Database) -> None:
    """After a database that was away for a minute, all its workers were silent for a minute."""
    for worker in ("a", "b"):
        database.heartbeat(worker, host=worker, now=100.0)
    database.calls.write(CommitBatch(opened=[BARE]), worker="a")
    for now in (160.0, 164.0):
        database.heartbeat("b", host="b", now=now)
        database.heartbeat("a", host="a", now=now + 1)
    assert database.calls.in_flight("r1") == 1


def test_a_predecessor_with_our_own_pid_is_dead_at_once(database: Database) -> None:
    """A container's process is number 1 again after every restart."""
    database.heartbeat("before", host="here", now=100.0)
    database.calls.write(CommitBatch(opened=[BARE]), worker="before")
    database.heartbeat("after", host="here", now=100.1)
    assert [exchange.ending for exchange in seen(database)] == [Ending.LOST]


def test_a_living_neighbour_is_left_alone(database: Database) -> None:
    database.heartbeat("parent", host="here", now=100.0)
    with create_engine(database.url).begin() as raw:
        raw.execute(update(workers).values(pid=os.getppid()))
    database.calls.write(CommitBatch(opened=[BARE]), worker="parent")
    database.heartbeat("me", host="here", now=101.0)
    assert database.calls.in_flight("r1") == 1


def test_a_late_end_replaces_lost(database: Database) -> None:
    database.calls.write(CommitBatch(opened=[BARE]), worker="slow")
    database.workers.retire("slow")
    assert [exchange.ending for exchange in seen(database)] == [Ending.LOST]
    database.calls.write(
        CommitBatch(recorded=[replace(BARE, ending=Ending.COMPLETE)]), worker="slow"
    )
    assert [exchange.ending for exchange in seen(database)] == [Ending.COMPLETE]


def test_gaps_add_up_also_on_rollouts_never_seen(database: Database) -> None:
    for _ in range(2):
        database.calls.write(CommitBatch(gaps={"r9": Gap(3, 50.0)}), worker="w")
    found = database.rollouts.load("r9")
    assert found is not None
    assert found[1].gaps == 6
    assert found[0]["created_at"] == 50.0


def test_registration_fills_in_what_traffic_created(database: Database) -> None:
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert not database.rollouts.register(
        Registration(id="r1", batch="b", model="m"), now=2.0
    ).conflict
    found = database.rollouts.load("r1")
    assert found is not None
    assert (found[1].batch, found[1].model, len(found[1].exchanges)) == ("b", "m", 1)


def test_registering_twice_is_harmless_with_the_same_facts_only(database: Database) -> None:
    assert not database.rollouts.register(Registration(id="r1", batch="b"), now=1.0).conflict
    assert not database.rollouts.register(Registration(id="r1", batch="b"), now=2.0).conflict
    assert database.rollouts.register(Registration(id="r1", batch="c"), now=3.0).conflict


def test_the_first_outcome_stands(database: Database) -> None:
    assert database.rollouts.report("r1", "{}", now=1.0) is None
    database.rollouts.register(Registration(id="r1"), now=1.0)
    assert database.rollouts.report("r1", '{"a":1}', now=1.0) == '{"a":1}'
    assert database.rollouts.report("r1", '{"a":2}', now=2.0) == '{"a":1}'


def test_a_provisional_verdict_gives_way_and_a_final_one_stands(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    blank = dict.fromkeys(metadata.tables["verdicts"].columns.keys())
    judged = blank | {
        "rollout_id": "r1", "batch": "b", "health": "undecided", "scoreable": "no", "calls": 0,
        "given_at": 1.0, "verdict": "{}",
    }  # fmt: skip

    def health(found: str, *, provisional: bool) -> object:
        database.verdicts.store(judged | {"health": found, "provisional": provisional})
        (row,) = database.rollouts.page({}, after=None, limit=2)
        return row["health"]

    assert health("undecided", provisional=True) == "undecided"
    assert health("healthy", provisional=True) == "healthy"
    assert health("api_error", provisional=False) == "api_error"
    assert health("healthy", provisional=True) == "api_error"


def test_secrets_are_made_once_for_all_processes(database: Database) -> None:
    one, two = database, Database(database.url)
    assert (
        one.deployment.secret("salt")
        == two.deployment.secret("salt")
        != one.deployment.secret("keyring")
    )
    assert len(one.deployment.secret("salt")) == 32


def test_two_processes_write_one_database(database: Database) -> None:
    one, two = database, Database(database.url)
    for number in range(20):
        for name, opened in (("a", one), ("b", two)):
            exchange = replace(FULL, id=f"{name}{number}")
            opened.calls.write(CommitBatch(recorded=[exchange]), worker=name)
    assert len(seen(two)) == 40


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        Database(str(tmp_path / "no" / "such" / "folder" / "t.db")).prepare()


def test_the_migrations_make_the_tables_the_code_declares(database: Database) -> None:
    engine = create_engine(database.url)
    migrated = inspect(engine)
    assert set(migrated.get_table_names()) >= set(metadata.tables)
    for name, table in metadata.tables.items():
        made = [(c["name"], str(c["type"]), c["nullable"]) for c in migrated.get_columns(name)]
        declared = [(c.name, _compiled(c, engine), c.nullable) for c in table.columns]
        assert made == declared, name
        indexes = {(i["name"], tuple(i["column_names"])) for i in migrated.get_indexes(name)}
        assert indexes == {(i.name, tuple(i.columns.keys())) for i in table.indexes}, name


def _compiled(column: Column[Any], engine: Engine) -> str:
    named = column.type.compile(engine.dialect)
    return {"FLOAT": "DOUBLE PRECISION"}.get(named, named) if engine.name != "sqlite" else named


def test_the_newest_migration_is_the_one_the_code_expects(database: Database) -> None:
    folder = Path(migrations.__file__).parent / "versions"
    newest = max(path.name for path in folder.glob("[0-9]*.py"))
    assert newest.startswith(migrations.HEAD)
    assert database.prepare() == (migrations.HEAD, migrations.HEAD)


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
