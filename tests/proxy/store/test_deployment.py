"""Secrets and ended sessions are shared by all processes."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, select, update

from classifier.records import Ending
from proxy.store.database import Database
from proxy.store.deployment import OUTAGE_UNTIL
from proxy.store.tables import CommitBatch, metadata, server, workers
from tests.proxy.store.records import BARE, FULL, exchanges_of


def test_secrets_are_made_once_for_all_processes(database: Database, other: Database) -> None:
    salt = database.deployment.secret("salt")
    assert other.deployment.secret("salt") == salt != database.deployment.secret("keyring")
    assert len(salt) == 32


def test_secrets_that_were_handed_out_survive_a_replaced_database(database: Database) -> None:
    before = database.deployment.secret("salt")
    with create_engine(database.url).begin() as raw:
        raw.execute(metadata.tables["server"].delete())
    database.deployment.restore_secrets()
    assert Database(database.url).deployment.secret("salt") == before


def test_an_ended_session_is_forgotten_once_it_would_have_expired(database: Database) -> None:
    database.deployment.end_session("a", ends=100, now=50.0)
    assert database.deployment.ended_sessions() == {"a"}
    database.deployment.end_session("b", ends=300, now=100.0)
    assert database.deployment.ended_sessions() == {"b"}


def test_a_link_is_used_once_in_all_processes_and_forgotten_once_it_has_expired(
    database: Database, other: Database
) -> None:
    database.deployment.end_session("s", ends=100, now=50.0)
    assert database.deployment.use_link("a", ends=100, now=50.0)
    assert not other.deployment.use_link("a", ends=100, now=50.0)
    assert other.deployment.use_link("b", ends=700, now=100.0)
    with create_engine(database.url).connect() as raw:
        names = set(raw.scalars(select(server.c.name).where(server.c.name.contains("."))))
    assert names == {"link.b", "ended.s"}, "sessions are another's affair"


def test_one_process_has_the_turn_until_it_is_over(database: Database, other: Database) -> None:
    def takes(process: Database, now: float, work: str = "alert") -> bool:
        return process.deployment.take_turn(work, now, for_s=14.0)

    assert takes(database, 100.0)
    assert not takes(other, 105.0)
    assert takes(other, 105.0, "another"), "each work has turns of its own"
    assert takes(other, 114.0)
    assert not takes(database, 115.0)
    assert takes(database, 20.0), "a clock that was set back stops nobody"


# --- Workers that die leave lost calls, and living ones are left alone ----------------------------


def test_what_a_dead_process_had_open_is_lost(database: Database) -> None:
    database.heartbeat("dead", host="here", now=100.0)
    database.calls.write(CommitBatch(opened=[BARE], recorded=[FULL]), worker="dead")
    database.heartbeat("me", host="elsewhere", now=101.0)
    assert database.calls.in_flight("r1") == 1, "a worker seen a second ago may live"
    database.heartbeat("me", host="elsewhere", now=195.0)
    database.heartbeat("me", host="elsewhere", now=200.0)
    endings = [exchange.ending for exchange in exchanges_of(database)]
    assert endings == [Ending.COMPLETE, Ending.LOST]
    assert database.calls.in_flight("r1") == 0


def test_what_a_process_without_a_row_had_open_is_lost(database: Database, other: Database) -> None:
    """It was taken for dead while it stood still, went on, and died before its next heartbeat."""
    database.calls.write(CommitBatch(opened=[replace(BARE, id="gone")]), worker="gone")
    database.calls.write(CommitBatch(opened=[replace(BARE, id="alive")]), worker="late")

    def endings() -> dict[str, Ending | None]:
        return {each.id: each.ending for each in exchanges_of(database)}

    for now in (100.0, 105.0, 110.0, 115.0, 120.0, 125.0):
        database.heartbeat("me", host="here", now=now)
    assert endings() == {"gone": None, "alive": None}, "not so soon"
    other.heartbeat("late", host="there", now=126.0)
    for now in (130.0, 135.0):
        database.heartbeat("me", host="here", now=now)
    assert endings() == {"gone": Ending.LOST, "alive": None}


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
    assert [exchange.ending for exchange in exchanges_of(database)] == [Ending.LOST]


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
    assert [exchange.ending for exchange in exchanges_of(database)] == [Ending.LOST]
    database.calls.write(
        CommitBatch(recorded=[replace(BARE, ending=Ending.COMPLETE)]), worker="slow"
    )
    assert [exchange.ending for exchange in exchanges_of(database)] == [Ending.COMPLETE]


def outage_over_at(database: Database) -> float | None:
    with create_engine(database.url).connect() as raw:
        return raw.scalar(select(OUTAGE_UNTIL))


def test_an_outage_is_over_when_the_first_process_after_all_died_begins(
    database: Database,
) -> None:
    for worker, seen_at in (("one", 100.0), ("other", 101.0)):
        database.heartbeat(worker, host=worker, now=seen_at)
    assert outage_over_at(database) is None
    database.heartbeat("me", host="elsewhere", now=120.0)
    for now in (130.0, 134.0, 138.0):
        database.heartbeat("me", host="elsewhere", now=now)
    assert outage_over_at(database) == 120.0
    database.heartbeat("next", host="elsewhere", now=139.0)
    assert outage_over_at(database) == 139.0, "it has our pid, and is dead"


@pytest.mark.parametrize(
    "beats",
    [
        "dead@100 alive@120 alive@126 me@126 alive@131 me@131",  # it died among others
        "me@100 dead@110 me@130 me@136 me@141",  # one outlived the start of another
    ],
)
def test_one_that_dies_is_no_outage(database: Database, beats: str) -> None:
    for worker, _, now in (beat.partition("@") for beat in beats.split()):
        database.heartbeat(worker, host=worker, now=float(now))
    assert outage_over_at(database) is None


def test_a_process_that_stops_as_told_leaves_no_outage(database: Database) -> None:
    database.heartbeat("before", host="here", now=100.0)
    database.workers.retire("before")
    database.heartbeat("after", host="here", now=110.0)
    assert outage_over_at(database) is None
