"""Workers that die leave lost calls, and living ones are left alone."""

from __future__ import annotations

import os
from dataclasses import replace

from sqlalchemy import create_engine, update

from classifier.records import Ending
from proxy.store.database import Database
from proxy.store.deployment import outage_until
from proxy.store.tables import CommitBatch, workers
from tests.proxy.store.records import BARE, FULL, exchanges_of


def test_what_a_dead_process_had_open_is_lost(database: Database) -> None:
    database.heartbeat("dead", host="here", now=100.0)
    database.calls.write(CommitBatch(opened=[BARE], recorded=[FULL]), worker="dead")
    database.heartbeat("me", host="elsewhere", now=101.0)
    assert database.calls.in_flight("r1") == 1, "a worker seen a second ago may live"
    database.heartbeat("me", host="elsewhere", now=195.0)
    database.heartbeat("me", host="elsewhere", now=200.0)
    assert [exchange.ending for exchange in exchanges_of(database)] == [
        Ending.COMPLETE,
        Ending.LOST,
    ]
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


def outage_over_at(database: Database) -> float:
    with create_engine(database.url).connect() as raw:
        return outage_until(raw)


def test_an_outage_is_over_when_the_first_process_after_all_died_begins(
    database: Database,
) -> None:
    for worker, seen_at in (("one", 100.0), ("other", 101.0)):
        database.heartbeat(worker, host=worker, now=seen_at)
    assert outage_over_at(database) == 0
    database.heartbeat("me", host="elsewhere", now=120.0)
    for now in (130.0, 134.0, 138.0):
        database.heartbeat("me", host="elsewhere", now=now)
    assert outage_over_at(database) == 120.0
    database.heartbeat("next", host="elsewhere", now=139.0)
    assert outage_over_at(database) == 139.0, "it has our pid, and is dead"


def test_one_that_dies_among_others_is_no_outage(database: Database) -> None:
    database.heartbeat("dead", host="a", now=100.0)
    database.heartbeat("alive", host="b", now=120.0)
    for now in (126.0, 131.0):
        database.heartbeat("alive", host="b", now=now)
        database.heartbeat("me", host="c", now=now)
    assert outage_over_at(database) == 0


def test_one_that_outlived_the_start_of_another_was_no_outage(database: Database) -> None:
    database.heartbeat("me", host="b", now=100.0)
    database.heartbeat("dead", host="a", now=110.0)
    for now in (130.0, 136.0, 141.0):
        database.heartbeat("me", host="b", now=now)
    assert outage_over_at(database) == 0


def test_a_process_that_stops_as_told_leaves_no_outage(database: Database) -> None:
    database.heartbeat("before", host="here", now=100.0)
    database.workers.retire("before")
    database.heartbeat("after", host="here", now=110.0)
    assert outage_over_at(database) == 0
