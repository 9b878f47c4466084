"""Ended rollouts in their order, and what each worker says of them."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from proxy.store.closings import ClosingState
from proxy.store.database import Database
from proxy.store.tables import verdicts
from proxy.store.verdicts import EndOfCalls
from tests.builders import exchange
from tests.proxy.store.records import loaded, row_of, write
from tests.proxy.store.test_verdicts import verdict

CALL, LATE = exchange(rollout_id="r"), exchange(rollout_id="r", at=9.0)


def ended(database: Database, rollout: str, now: float = 100.0) -> int:
    report = database.rollouts.report(rollout, "{}", now=now, registers=True)
    assert report.closing is not None
    return report.closing


def closed(database: Database) -> tuple[object, ...]:
    row = row_of(database, "r")
    return row["closed_at"], row["closed_calls"], row["gaps"]


def silent(database: Database, rollout: str, number: int, *, now: float = 100.0) -> list[str]:
    return database.closings.unconfirmed(rollout, number, worker="me", host="here", now=now)


def test_ends_are_numbered_in_their_order(database: Database) -> None:
    assert database.closings.state() == ClosingState(newest=0, workers=0)
    numbers = [ended(database, name) for name in "abc"]
    assert numbers == [1, 2, 3]
    assert database.closings.state().newest == 3
    assert database.closings.between(1, 3) == [(2, "b"), (3, "c")]
    assert database.rollouts.revoke("a", now=1.0) == 4
    assert database.closings.between(0, 4) == [(2, "b"), (3, "c"), (4, "a")], "each once"


def test_who_reads_a_number_can_read_all_before_it(database: Database) -> None:
    """Eight at once, and a reader that goes on from the newest that it saw."""
    names = [f"{thread}-{turn}" for thread in range(8) for turn in range(5)]

    def work(thread: int) -> None:
        for turn in range(5):
            ended(database, f"{thread}-{turn}")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    seen, read = 0, list[str]()
    while len(read) < len(names):
        alive = any(thread.is_alive() for thread in threads)
        newest = database.closings.state().newest
        read += [rollout for _, rollout in database.closings.between(seen, newest)]
        seen = newest
        assert alive or seen == len(names), "one was passed over"
    assert sorted(read) == sorted(names)


def test_a_repeated_report_has_the_same_number_until_the_rollout_is_closed(
    database: Database,
) -> None:
    number = ended(database, "r")
    assert ended(database, "r") == number
    database.closings.closed("r", now=101.0, gaps=0)
    assert database.rollouts.report("r", "{}", now=102.0).closing is None
    assert closed(database) == (101.0, 0, 0)


def test_a_report_tells_whether_there_are_other_workers(database: Database) -> None:
    def others(rollout: str) -> bool:
        return database.rollouts.report(
            rollout, "{}", now=100.0, registers=True, worker="me"
        ).others

    assert not others("a")
    database.workers.heartbeat("me", host="here", now=100.0)
    assert not others("b")
    database.workers.heartbeat("b", host="far", now=100.0)
    assert others("c")


def test_living_workers_confirm_each_rollout_by_itself(database: Database) -> None:
    for worker, host in (("me", "here"), ("b", "far"), ("c", "farther")):
        database.workers.heartbeat(worker, host=host, now=100.0)
    first, second = ended(database, "first"), ended(database, "second")
    assert silent(database, "first", first) == ["b", "c"]
    assert database.closings.confirm("b", up_to=second, but=["first"])
    assert silent(database, "first", first) == ["b", "c"]
    assert silent(database, "second", second) == ["c"]
    assert database.closings.confirm("c", up_to=first, but=[])
    assert silent(database, "first", first) == ["b"]
    assert database.closings.confirm("b", up_to=second, but=[])
    assert silent(database, "first", first) == []
    assert not database.closings.confirm("unknown", up_to=second, but=[])


def test_who_is_silent_for_three_heartbeats_is_not_waited_for(database: Database) -> None:
    database.workers.heartbeat("b", host="far", now=100.0)
    number = ended(database, "r")
    assert silent(database, "r", number, now=115.0) == ["b"]
    assert silent(database, "r", number, now=115.1) == []


def test_a_rollout_is_closed_once(database: Database) -> None:
    write(database, CALL)
    ended(database, "r")
    database.closings.closed("r", now=101.0, gaps=2)
    write(database, LATE)
    database.closings.closed("r", now=202.0, gaps=3)
    assert closed(database) == (101.0, 1, 2)


def test_an_end_that_is_stored_with_a_verdict_counts_the_calls_that_it_knows(
    database: Database,
) -> None:
    write(database, CALL)
    ended(database, "r")
    write(database, LATE)
    given = verdict("r", batch=None, given_at=161.0, calls=1)
    assert database.verdicts.store(given, end=EndOfCalls(160.0, gaps=2))
    assert closed(database) == (160.0, 1, 2)
    assert database.verdicts.unjudged(limit=9).ids == []


def test_one_that_was_judged_before_it_was_closed_had_ended_then(database: Database) -> None:
    """Whoever was to close it took a minute: its verdict stands, and what came since is late."""
    write(database, CALL)
    ended(database, "r")
    database.verdicts.store(verdict("r", batch=None, given_at=161.0, calls=1))
    write(database, LATE)
    database.closings.closed("r", now=202.0, gaps=3)
    assert closed(database) == (161.0, 1, 0)
    assert database.verdicts.unjudged(limit=9).ids == []


def test_what_was_judged_provisionally_before_it_was_closed_is_no_verdict_after(
    database: Database,
) -> None:
    ended(database, "r")
    before = loaded(database, "r")
    database.closings.closed("r", now=101.0, gaps=0)
    database.verdicts.store(verdict("r", batch=None, provisional=True), known=before[0])
    stored = select(verdicts.c.rollout_id)
    assert database.read(lambda connection: connection.execute(stored).all()) == []
    assert database.verdicts.unjudged(limit=9).ids == ["r"]


def test_old_ends_are_swept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.store.closings._SWEPT", 3)
    ended(database, "old", now=100.0)
    ended(database, "young", now=3000.0)
    ended(database, "new", now=3701.0)
    assert database.closings.between(0, 9) == [(2, "young"), (3, "new")]
