"""Processes that share a lane's limits by leases, each second."""
# ruff: noqa: SLF001
# Private: a lane's share and clock, which nothing of a pacer shows.

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.features.pace.leases import PaceLeases
from proxy.features.pace.pacer import LaneKey, Pacer
from proxy.features.pace.settings import GivenPace
from proxy.features.pace.shares import PaceShares
from proxy.store.database import Database

KEY: LaneKey = ("openai", "gpt-5", "key")


SIXTY = GivenPace(requests_per_minute=60)


class Replica:
    """A process with a lane, of 60 requests a minute unless it is to learn."""

    def __init__(self, url: str, name: str, given: GivenPace = SIXTY) -> None:
        self.at = 0.0
        self.started_s = len(name) * 100.0  # each has a monotonic clock of its own
        self.database = Database(url)
        self.pacer = Pacer(
            {"openai": given},
            clock=lambda: self.at + self.started_s,
            wall=lambda: self.at,
        )
        self.leases = PaceLeases(
            PaceShares(self.database.connections), self.pacer, worker=name, wall=lambda: self.at
        )

    def ask(self, count: int) -> int:
        """Have as many rollouts call; return how many calls are sent at once."""
        turns = (
            self.pacer.turn(f"r{number}", [], size=1, go=lambda: None) for number in range(count)
        )
        return sum(self.pacer.enter(KEY, turn) for turn in turns)


async def test_replicas_keep_to_their_shares_and_take_over_those_of_the_dead(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "shared.db")
    first, second = Replica(url, "a"), Replica(url, "b")
    first.database.prepare()
    for at in (0.0, 1.0, 2.0):
        for each in (first, second):
            each.at = at
            if not at:
                each.ask(1)
            await each.leases.renew()
    shares = [each.pacer._lanes[KEY].share for each in (first, second)]
    assert shares == [0.5, 0.5]
    first.at = 8.0  # the second was killed; its lease has ended
    first.ask(1)
    await first.leases.renew()
    assert first.pacer._lanes[KEY].share == 1
    for each in (first, second):
        each.database.close()


async def test_a_rate_that_429s_taught_one_replica_is_the_lanes(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.db")
    first, second = Replica(url, "a", GivenPace()), Replica(url, "other", GivenPace())
    first.database.prepare()
    for each in (first, second):
        each.ask(1)
        await each.leases.renew()
    for at in range(1, 11):  # two calls each second are answered, as many by the other
        for each in (first, second):
            lane, each.at = each.pacer._lanes[KEY], float(at)
            for _ in range(2):
                turn = each.pacer.turn("r", [], size=1, go=lambda: None)
                assert each.pacer.enter(KEY, turn)
                lane.ended(turn, at + each.started_s, {})
            await each.leases.renew()
    turn = first.pacer.turn("r", [], size=1, go=lambda: None)
    assert first.pacer.enter(KEY, turn)
    lane = first.pacer._lanes[KEY]
    lane.ended(turn, 10 + first.started_s, None)
    lane.limited(turn, 10 + first.started_s, None)
    first.at = 10.5
    turn = first.pacer.turn("r", [], size=1, go=lambda: None)
    assert first.pacer.enter(KEY, turn)
    lane.ended(turn, 10.5 + first.started_s, {})  # it is let in again
    await first.leases.renew()
    await second.leases.renew()
    learnt = [each.pacer._lanes[KEY].load(0.0).rate for each in (first, second)]
    assert [each and each.at for each in learnt] == [110.5, 510.5]
    rates = [each and each.value for each in learnt]
    assert rates == [pytest.approx(4, rel=0.1)] * 2
    for each in (first, second):
        each.database.close()


async def test_a_rollouts_batch_is_asked_for_beside_its_calls(tmp_path: Path) -> None:
    replica = Replica(str(tmp_path / "shared.db"), "a")
    replica.database.prepare()
    sent = replica.ask(20)
    waiting = replica.pacer.unknown_rollouts()
    assert 0 < len(waiting) == 20 - sent
    await replica.leases.renew()
    assert replica.pacer.unknown_rollouts() == []
    assert replica.pacer.batches[waiting[0]] is None
    replica.database.close()
