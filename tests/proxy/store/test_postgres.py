"""PostgreSQL stops, freezes, cuts connections: agents are served, nothing is lost or made up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import make_url

from classifier.records import Timing
from proxy.store.connections import EVENTS_CHANNEL, Lock
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable, RowRejected, UnusableDatabase
from proxy.store.events import batch_ended
from proxy.store.tables import CommitBatch, Gap
from tests.postgres import CONNECT_S, Server, required
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.recording.test_storage_faults import durations_of, ready, wait_until_ready
from tests.proxy.store.records import FULL, exchanges_of, loaded, write
from tests.waiting import until

CALLS = 10


PATIENCE_S = 300


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Server]:
    """Start a server of our own: it is stopped, and afterwards counts as just started."""
    server = Server(required())
    try:
        server.create(settled=False)
        yield server
    finally:
        server.destroy()


@pytest.fixture(autouse=True)
def lately(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set for how many seconds after a start other services may hold calls: none by default."""

    def say(seconds: float) -> None:
        monkeypatch.setattr("proxy.control.judge.RESTART_GRACE_S", seconds)

    say(0.0)
    return say


def _name(url: str) -> str:
    """Return the name of a URL's database."""
    return make_url(url).database or ""


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@contextlib.contextmanager
def killed(server: Server) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Let it accept what is sent and never answer, as a server behind a broken network."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


FAULTS: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    "stopped": stopped, "killed": killed, "frozen": frozen,
}  # fmt: skip


@pytest.fixture
def service(tmp_path: Path, postgres_url: str) -> Iterator[Service]:
    as_deployed = postgres_url.replace(f"&connect_timeout={CONNECT_S}", "")
    settings = {"DATABASE_URL": as_deployed, "SPILL_DIR": str(tmp_path / "kept")}
    with serving(tmp_path, **settings) as running_service:
        yield running_service


@pytest.mark.parametrize("fault", FAULTS)
def test_agents_are_served_and_nothing_is_lost(
    service: Service, postgres_server: Server, tmp_path: Path, fault: str
) -> None:
    assert service.call("before").status_code == 200
    with FAULTS[fault](postgres_server):
        assert service.call("during").status_code == 200  # the one that finds out
        durations_of(CALLS, service, "during")
        assert service.call("before").status_code == 200
        assert service.http.get("/healthz").status_code == 200
        told = ready(service)
        assert (told["status"], told["recorder"], told["gaps"]) == ("not_ready", False, 0)
        assert told["waiting"] >= CALLS + 2
        assert list((tmp_path / "kept").glob("*.spill"))
    wait_until_ready(service)
    verdict = decided(service, "during")
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", CALLS + 1)
    assert service.get("/rollouts/before/verdict")["total_requests"] == 2
    assert not list((tmp_path / "kept").glob("*.spill"))


def decided(service: Service, rollout: str) -> dict[str, Any]:
    """Wait for a verdict until all that was kept is written."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := service.get(f"/rollouts/{rollout}/verdict"))["health"] == "undecided":
        assert time.monotonic() < deadline, "it stays undecided"
        time.sleep(0.05)
    verdict: dict[str, Any] = found
    return verdict


def test_nothing_is_judged_while_another_service_may_hold_calls(
    service: Service, postgres_server: Server, postgres_url: str, lately: Callable[[float], None]
) -> None:
    service.call("r")
    assert service.get("/rollouts/r/verdict")["health"] == "healthy"
    began = time.monotonic()
    with stopped(postgres_server):
        pass  # whoever noted a call meanwhile, it was not this service
    wait_until_ready(service)
    database = Database(postgres_url)
    loaded = database.rollouts.load("r")
    database.close()
    assert loaded is not None
    up_s = loaded[0]["up_s"]
    assert 0 < up_s < time.monotonic() - began
    lately(up_s + 3600)
    assert service.get("/rollouts/r/verdict")["health"] == "undecided"
    lately(up_s)
    verdict = service.get("/rollouts/r/verdict")
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)


def test_a_rollout_touched_meanwhile_is_undecided(
    service: Service, postgres_server: Server
) -> None:
    service.call("before")
    with stopped(postgres_server):
        service.call("before")
        service.call("during")
        healths = {service.get(f"/rollouts/{r}/verdict")["health"] for r in ("before", "during")}
        assert healths == {"undecided"}
        untouched = service.http.get("/rollouts/other/verdict")
        assert untouched.status_code == 503


def test_connections_that_were_cut_cost_no_call(
    service: Service, postgres_server: Server, postgres_url: str
) -> None:
    service.call("r")
    name = _name(postgres_url)
    with postgres_server.connect() as operator:
        for expected in range(2, 6):
            assert one(operator, CUT, name) >= 1
            assert service.call("r").status_code == 200
            assert ready(service)["gaps"] == 0
            verdict = decided(service, "r")
            assert (verdict["health"], verdict["total_requests"]) == ("healthy", expected)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
WAITS = "wait_event_type = 'Lock'"


def one(connection: psycopg.Connection[tuple[Any, ...]], statement: LiteralString, *of: str) -> Any:
    """Return the one value that is asked for."""
    row = connection.execute(statement, of or None).fetchone()
    assert row is not None
    return row[0]


FAILED = replace(FULL, id="f1")


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = Database(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recorders wait for locks, however slow the machine."""
    for limit in ("_RECORDING_LOCK_S", "_RECORDING_TIMEOUT_S"):
        monkeypatch.setattr(f"proxy.store.postgres.{limit}", float(PATIENCE_S))


def test_an_event_of_one_replica_rings_at_another(database: Database, other: Database) -> None:
    rung = threading.Semaphore(0)
    with database.events.subscribe(rung.release) as told:
        assert told
        assert rung.acquire(timeout=PATIENCE_S), "once, when it begins to listen"
        write(other, FAILED)
        assert rung.acquire(timeout=PATIENCE_S)


def test_a_call_that_did_not_fail_is_no_event(
    database: Database, postgres_server: Server, postgres_url: str
) -> None:
    name = _name(postgres_url)
    with postgres_server.connect(name) as hearing:
        hearing.execute(f"LISTEN {EVENTS_CHANNEL}".encode())
        write(database, FAILED)
        write(database, replace(FULL, id="x2", cause=None))
        hearing.execute(f"NOTIFY {EVENTS_CHANNEL}, 'the end'".encode())
        told = list(hearing.notifies(timeout=PATIENCE_S, stop_after=2))
    assert [event.payload for event in told] == ["", "the end"]


@pytest.mark.usefixtures("patient")
def test_a_commit_cut_in_the_middle_is_made_again(
    database: Database, postgres_server: Server, postgres_url: str, pool: ThreadPoolExecutor
) -> None:
    """Its statement waits for a lock; its connection is killed there."""
    name = _name(postgres_url)
    write(database, FAILED)
    with postgres_server.connect(name) as other, postgres_server.connect() as operator:
        with other.transaction():
            other.execute("LOCK TABLE exchanges IN ACCESS EXCLUSIVE MODE")
            answer = pool.submit(write, database, FULL)
            until(lambda: one(operator, f"{CUT} AND {WAITS}", name) > 0)
        answer.result(PATIENCE_S)
    assert [each.id for each in exchanges_of(database)] == ["f1", "x1"]


def test_a_lock_held_for_long_is_given_up_without_leaving_the_server(
    database: Database,
    postgres_server: Server,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = _name(postgres_url)
    monkeypatch.setattr("proxy.store.postgres._RECORDING_TIMEOUT_S", float(PATIENCE_S))
    opened = Database(postgres_url)
    with contextlib.closing(opened), postgres_server.connect(name) as other:
        write(opened, FAILED)
        before = _recorders(other)
        with other.transaction():
            other.execute("LOCK TABLE exchanges IN EXCLUSIVE MODE")
            with pytest.raises(DatabaseUnavailable, match="lock timeout"):
                write(opened, FULL)
        write(opened, FULL)
        assert _recorders(other) == before
    assert {each.id for each in exchanges_of(database)} == {"f1", "x1"}


def _recorders(looking: psycopg.Connection[tuple[Any, ...]]) -> list[int]:
    """Return the processes of the server that have recorded last."""
    rows = looking.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'truezero' AND query LIKE 'WITH %recorded_%' ORDER BY pid"
    ).fetchall()
    return [int(row[0]) for row in rows]


def test_a_listener_hears_again_after_a_restart(
    database: Database, other: Database, postgres_server: Server
) -> None:
    rung = threading.Semaphore(0)
    with database.events.subscribe(rung.release):
        assert rung.acquire(timeout=PATIENCE_S)
        with stopped(postgres_server):
            pass
        assert rung.acquire(timeout=PATIENCE_S), "for what was told meanwhile"
        write(other, FAILED)
        assert rung.acquire(timeout=PATIENCE_S)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("kind", "writes"),
    [
        ("exchange_failed", lambda database: write(database, FAILED)),
        ("batch_ended", lambda database: database.change(batch_ended, "b", 1.0)),
    ],
)
def test_events_become_visible_in_the_order_of_their_numbers(
    database: Database,
    other: Database,
    postgres_server: Server,
    postgres_url: str,
    kind: str,
    writes: Callable[[Database], None],
    pool: ThreadPoolExecutor,
) -> None:
    """A reader that has seen an event never misses one with a lower number."""
    name = _name(postgres_url)
    with postgres_server.connect(name) as slow, postgres_server.connect(name) as looking:
        with slow.transaction():
            slow.execute("SELECT pg_advisory_xact_lock(%s)", (Lock.EVENTS.key(),))
            answer = pool.submit(writes, other)
            until(lambda: _waiting(looking) == 1)
            slow.execute("INSERT INTO events (kind, at, data) VALUES ('slow', 1, '{}')")
        answer.result(PATIENCE_S)
        kinds = slow.execute("SELECT kind FROM events ORDER BY id").fetchall()
    assert kinds == [("slow",), (kind,)]


def test_calls_stand_in_the_partition_of_their_month(
    database: Database, postgres_server: Server, postgres_url: str
) -> None:
    now = datetime(2031, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    spread = {"now": now, "soon": now + 2, "later": now + 40 * 86400, "old": 1000.5}
    early = replace(FULL, id="early", timing=Timing(started_at=now + 1))
    write(database, early)  # before anybody made its month
    database.heartbeat("w", host="here", now=now)
    calls = [replace(FULL, id=name, timing=Timing(started_at=at)) for name, at in spread.items()]
    write(database, *calls)
    with postgres_server.connect(_name(postgres_url)) as looking:
        rows = looking.execute("SELECT id, tableoid::regclass::text FROM exchanges").fetchall()
    assert dict(rows) == {
        "now": "exchanges_2031_12", "soon": "exchanges_2032_01", "early": "exchanges_2032_01",
        "later": "exchanges_2032_02", "old": "exchanges_else",
    }  # fmt: skip
    found = loaded(database)
    assert [each.id for each in found[1].exchanges] == ["old", "now", "early", "soon", "later"]


@pytest.mark.usefixtures("patient")
def test_two_replicas_write_the_same_rollouts_without_waiting_in_a_circle(
    database: Database,
    other: Database,
    postgres_server: Server,
    postgres_url: str,
    pool: ThreadPoolExecutor,
) -> None:
    names = ["r1", "r2", "r3"]
    gaps = {name: Gap(1, 1.0) for name in names}
    backwards = {name: gaps[name] for name in reversed(names)}
    database.calls.write(CommitBatch(gaps=gaps), worker="w")
    name = _name(postgres_url)
    with postgres_server.connect(name) as slow, postgres_server.connect(name) as looking:
        with slow.transaction():
            slow.execute("UPDATE rollouts SET attempt = 1 WHERE id = 'r2'")
            answers = [
                pool.submit(opened.calls.write, CommitBatch(gaps=each), worker="w")
                for opened, each in ((database, gaps), (other, backwards))
            ]
            until(lambda: _waiting(looking) == 2)
        for answer in answers:
            answer.result(PATIENCE_S)
    assert [loaded(database, name)[1].gaps for name in names] == [3, 3, 3]


def _waiting(looking: psycopg.Connection[tuple[Any, ...]]) -> int:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return int(one(looking, f"{asked} AND {WAITS}"))


def test_a_text_longer_than_it_should_be_is_no_fault(database: Database) -> None:
    long = replace(FULL, model="m" * 5000, finish_reason="f" * 5000, request_bytes=1 << 40)
    write(database, long)
    assert exchanges_of(database) == (long,)


@pytest.mark.parametrize(
    "row", [{"model": "a\0b"}, {"model": "\ud800"}, {"request_bytes": 1 << 70}]
)
def test_a_row_that_it_never_takes_is_the_rows_fault(
    database: Database, row: dict[str, Any]
) -> None:
    with pytest.raises(RowRejected):
        write(database, replace(FULL, **row))
    write(database, FULL)


def test_a_database_made_anew_in_its_place_is_prepared(
    database: Database, postgres_server: Server, postgres_url: str
) -> None:
    before = database.deployment.secret("salt")
    with postgres_server.connect(_name(postgres_url)) as operator:
        operator.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with pytest.raises(DatabaseUnavailable):
        write(database, FULL)
    write(database, FULL)
    assert database.rollouts.load("r1") is not None
    assert database.deployment.secret("salt") == before


def test_a_database_of_another_encoding_is_refused_in_words(postgres_server: Server) -> None:
    for encoding in ("SQL_ASCII", "LATIN1"):
        name = f"in_{encoding}".lower()
        kind = f"TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
        with postgres_server.connect() as operator:
            operator.execute(f"CREATE DATABASE {name} {kind}".encode())
        database = Database(postgres_server.url(name))
        with pytest.raises(UnusableDatabase, match=f"encoding {encoding}, .* create one with UTF8"):
            database.prepare()
        database.close()


def test_replicas_that_start_at_once_make_one_schema(
    postgres_server: Server, pool: ThreadPoolExecutor
) -> None:
    with postgres_server.database(prepared=False) as url:
        opened = [Database(url) for _ in range(4)]
        assert len([*pool.map(Database.prepare, opened)]) == 4
        assert len({each.deployment.secret("keyring") for each in opened}) == 1
        for each in opened:
            each.close()
