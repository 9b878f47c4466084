"""Counts of a lane's calls by minute: each call once, whoever writes it and how often."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from classifier.records import Cause, Ending, Exchange, KeySource, Kind, Timing
from classifier.references import REFERENCE
from classifier.verdicts import Subcategory
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable
from proxy.store.lane_minutes import OTHER, SERVERS, UNKNOWN_NAMES, LaneCounter, lane_steps, took
from proxy.store.references import ReferenceLane
from proxy.store.rows import exchange_row
from proxy.store.tables import CommitBatch, lane_minutes
from tests.proxy.store.records import FULL, write

AUTH = Cause(subcategory=Subcategory.AUTH, transient=False, rule="status.401")
ANSWERED = replace(
    FULL, status=200, cause=None, ending=Ending.COMPLETE, key_digest="key-a", served_by=None,
    system_fingerprint=None, injected=False, held=None, key_source=KeySource.AGENT,
)  # fmt: skip
FAILED = replace(ANSWERED, status=401, cause=AUTH)
NOW = 6000.0


def call(n: int, like: Exchange = ANSWERED, at: float = NOW, **facts: Any) -> Exchange:
    timing = Timing(started_at=at + n * 0.01, first_byte_s=0.25, duration_s=1.0)
    return replace(like, **{"id": f"x{n}", "timing": timing, "rollout_id": f"r{n}", **facts})


def sums(database: Database) -> tuple[int, int, int, int]:
    """The rows, and answered, failed and other calls."""
    each = lane_minutes.c
    columns = (func.count(), *map(func.sum, (each.answered, each.failures, each.others)))
    row = database.read(lambda connection: connection.execute(select(*columns)).one())
    return tuple(int(value or 0) for value in row)  # type: ignore[return-value]


def test_calls_are_added_up_by_lane_and_minute(database: Database) -> None:
    write(database, call(1), call(2), call(3, FAILED))
    write(database, call(4), call(5, at=NOW + 60), call(6, key_digest="key-b"))
    write(database, call(7, ending=Ending.LEFT_BY_AGENT))
    assert sums(database) == (3, 5, 1, 1)
    [(minute, answered)] = {
        (each.minute, each.answered)
        for place, tallies in database.lane_minutes.tallies(since=0, until=NOW + 59).items()
        for each in tallies
        if place.key == "key-a"
    }
    assert (minute, answered) == (100, 3)


@pytest.mark.parametrize(
    "facts", [{"kind": Kind.ACTIVITY}, {"rollout_id": REFERENCE}], ids=["activity", "reference"]
)
def test_what_is_no_call_of_a_lane_is_not_counted(
    database: Database, facts: dict[str, Any]
) -> None:
    write(database, call(1, **facts))
    assert sums(database) == (0, 0, 0, 0)


def test_a_call_that_is_written_again_counts_once(database: Database) -> None:
    write(database, call(1))
    write(database, call(1), call(2), late=True)
    assert sums(database)[1:] == (2, 0, 0)


def test_a_commit_that_failed_counts_once_with_its_repetition(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(database, call(1))
    commits = database.calls._connections.commits  # noqa: SLF001  commits are held up

    def away(_rows: object) -> None:
        raise DatabaseUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit", away)
        with pytest.raises(DatabaseUnavailable):
            write(database, call(2))
    write(database, call(3))
    write(database, call(2), late=True)
    assert sums(database)[1:] == (3, 0, 0)


def test_a_span_holds_each_minute_of_which_it_has_a_part(database: Database) -> None:
    write(database, *(call(n, at=NOW + 60 * n) for n in range(4)))
    [tallies] = database.lane_minutes.tallies(since=NOW + 90, until=NOW + 121).values()
    assert [tally.minute * 60 - NOW for tally in tallies] == [60, 120]
    [tallies] = database.lane_minutes.tallies(since=NOW + 60, until=NOW + 119).values()
    assert [tally.minute * 60 - NOW for tally in tallies] == [60]


@pytest.mark.postgres_smoke
def test_several_processes_add_up(database: Database, other: Database) -> None:
    for n in range(4):
        write(other if n % 2 else database, call(n, rollout_id="one"), call(10 + n, FAILED))
    assert sums(database) == (2, 4, 4, 0)
    [[tally]] = database.lane_minutes.tallies(since=0, until=NOW).values()
    assert (tally.calls, tally.failed, [*tally.answering.values()]) == (8, {"auth": 4}, [4])
    assert len(tally.failing) == 4


def test_names_that_agents_make_up_are_bounded(database: Database) -> None:
    many = [call(n, FAILED, model=f"made-up-{n}") for n in range(UNKNOWN_NAMES + 50)]
    write(database, *many, call(999), call(1000, FAILED))
    lanes = database.lane_minutes.tallies(since=0, until=NOW + 60)
    calls = {place.model: sum(each.calls for each in of) for place, of in lanes.items()}
    assert (calls[OTHER], calls["gpt-5"]) == (50, 2)
    assert sum(calls.values()) == len(many) + 2, "and none is lost"
    assert len(calls) == UNKNOWN_NAMES + 2


def test_servers_of_a_lane_are_bounded(database: Database) -> None:
    write(database, *(call(n, served_by=f"s{n}") for n in range(SERVERS + 5)))
    lanes = database.lane_minutes.tallies(since=0, until=NOW + 60)
    servers = {place.server: of[0].calls for place, of in lanes.items()}
    assert servers.pop(None) == SERVERS + 5
    assert servers.pop(OTHER) == 5
    assert len(servers) == SERVERS


def test_rollouts_beyond_those_that_are_named_are_counted(database: Database) -> None:
    dead = replace(FAILED, key_source=KeySource.OPERATOR)
    write(database, *(call(n) for n in range(30)), *(call(100 + n, dead) for n in range(70)))
    [[tally]] = database.lane_minutes.tallies(since=0, until=NOW + 60).values()
    assert (len(tally.answering), tally.more_answering) == (24, 6)
    assert (len(tally.failing), tally.more_failing) == (64, {"auth": 6})
    assert (tally.calls, tally.answered, tally.failed) == (100, 30, {"auth": 70})


def test_a_slot_ends_after_ten_minutes() -> None:
    counter = LaneCounter()

    def slot(minute: int) -> Any:
        [row] = counter.add([exchange_row(call(1, at=minute * 60.0))])
        return row[5]

    first = slot(100)
    assert slot(109) == first
    assert slot(110) != first


def test_keys_and_seconds_are_read_by_step(database: Database) -> None:
    write(database, call(1), call(2, at=NOW + 60), call(3, FAILED, key_digest="key-b"))
    steps = database.read(lane_steps, since=NOW, until=NOW + 120, step_s=120)
    assert {(each.key, each.calls, tuple(each.failed.items())) for each in steps} == {
        ("key-a", 2, ()), ("key-b", 1, (("auth", 1),)),
    }  # fmt: skip
    assert {(each.key, each.answered_at, each.failed_at) for each in steps} == {
        ("key-a", NOW + 60.02, None), ("key-b", None, NOW + 0.03),
    }  # fmt: skip
    taken = database.read(took, since=NOW, until=NOW + 120)
    assert [each.first_byte_s for each in taken if each.duration_s] == [{0.25: 1}, {0.25: 1}]
    unknown = call(4, at=NOW + 180)
    write(database, replace(unknown, timing=Timing(started_at=NOW + 180)))
    (last,) = database.read(took, since=NOW + 180, until=NOW + 240)
    assert (last.first_byte_s, last.duration_s) == ({}, {}), "unknown is no second"


def test_calls_that_a_dead_process_left_are_counted(database: Database) -> None:
    database.heartbeat("gone", host="h", now=NOW)
    open_call = replace(call(1), ending=None, status=None)
    database.calls.write(CommitBatch(opened=[open_call]), worker="gone")
    database.workers.retire("gone")
    assert sums(database) == (1, 0, 0, 1)


@pytest.mark.parametrize(
    ("asked", "explained"),
    [
        ([("own", True)], True),
        ([("own", False)], False),
        ([("own", False), ("usual", True)], True),
        ([("own", False), ("shared", True)], False),
        ([], False),
    ],
)
def test_a_failure_has_no_vote_if_its_agents_own_way_alone_fails(
    database: Database, asked: list[tuple[str, bool]], explained: bool
) -> None:
    calls = [{"asked_by": by, "answered": answered} for by, answered in asked]
    lane = ReferenceLane("openai", "gpt-5")
    database.references.begin("s1", lane, api="openai.chat", worker="w", at=NOW)
    database.references.end("s1", at=NOW + 1, calls=json.dumps(calls))
    database.references.share("s1", [("r", "x")])
    rows = database.lane_minutes.rows(since=NOW - 60, now=NOW + 2, overdue_s=60)
    assert bool(rows.explained) is explained
