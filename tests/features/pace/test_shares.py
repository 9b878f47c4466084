"""Shares of a lane's limits: by need, never more than there is, and back when a lease ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from proxy.features.pace.shares import LEASE_S, PaceDemand, PaceShares, granted
from proxy.store.database import Database

LANE = ("openai", "gpt-5", "key")


def shares(database: Database) -> PaceShares:
    return PaceShares(database.connections)


def share(database: Database, worker: str, rollouts: float, *, now: float) -> float:
    """Renew one worker's lease and return its share."""
    return shares(database).renew(worker, {LANE: PaceDemand(rollouts)}, now=now)[LANE].share


def test_a_process_gets_what_it_needs_of_what_the_others_have_left() -> None:
    assert granted(4, []) == 1
    assert granted(4, [(4, 0.5)]) == 0.5
    assert granted(30, [(10, 0.25)]) == 0.75
    assert granted(10, [(10, 1.0)]) == 0  # who has too much gives it back first
    assert granted(0, [(0, 0.5)]) == 0.5


def test_processes_come_to_share_a_lane_by_their_rollouts(database: Database) -> None:
    assert share(database, "a", 10, now=0) == 1
    assert share(database, "b", 30, now=0.5) == 0
    assert share(database, "a", 10, now=1) == 0.25
    assert share(database, "b", 30, now=1.5) == 0.75
    other = shares(database).renew("c", {("openai", "o3", "key"): PaceDemand(1)}, now=2)
    assert [each.share for each in other.values()] == [1]


def test_the_share_of_a_process_that_was_killed_comes_back(database: Database) -> None:
    for now in (0.0, 1.0):
        for worker in ("a", "b"):
            share(database, worker, 10, now=now)
    assert share(database, "a", 10, now=LEASE_S + 0.9) == 0.5
    assert share(database, "a", 10, now=LEASE_S + 1.1) == 1


def test_a_process_that_stops_gives_its_share_back_at_once(database: Database) -> None:
    for now in (0.0, 1.0):
        for worker in ("a", "b"):
            share(database, worker, 10, now=now)
    shares(database).give_back("b")
    assert share(database, "a", 10, now=1.1) == 1


def test_processes_at_once_are_granted_no_more_than_all_of_it(database: Database) -> None:
    workers = [f"w{number}" for number in range(6)]
    for now in range(4):
        with ThreadPoolExecutor(6) as pool:
            shares = list(pool.map(lambda w, at=now: share(database, w, 1, now=at), workers))
    assert sum(shares) == pytest.approx(1)
    assert max(shares) == pytest.approx(min(shares))


def test_a_wait_that_one_process_was_told_is_told_all(database: Database) -> None:
    shares(database).renew("a", {LANE: PaceDemand(1, blocked_until=42.5)}, now=40)
    told = shares(database).renew("b", {LANE: PaceDemand(1)}, now=40.5)
    assert told[LANE].blocked_until == 42.5


def test_waiting_calls_of_all_processes_are_listed_by_lane(database: Database) -> None:
    shares(database).renew("a", {LANE: PaceDemand(4, waiting=3, longest_s=2.5)}, now=0)
    shares(database).renew("b", {LANE: PaceDemand(4, waiting=1, longest_s=7.0)}, now=0)
    shares(database).renew("b", {("x", "m", ""): PaceDemand(4)}, now=0)
    assert shares(database).waiting(now=1) == [(*LANE, 4, 7.0)]
    assert shares(database).waiting(now=LEASE_S + 1) == []
