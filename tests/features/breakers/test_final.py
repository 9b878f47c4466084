"""Breakers as final verdicts feed them, and whether one hangs on a verdict."""

from __future__ import annotations

from typing import Any

from classifier.breakers import Phase
from classifier.rules import judge
from classifier.verdicts import Policy
from proxy.features.breakers import final, stakes
from proxy.features.breakers.store import Breakers
from proxy.store.database import Database
from proxy.store.tables import Registration, Row
from proxy.store.verdicts import Judged
from tests.builders import rollout
from tests.proxy.store.test_verdicts import verdict as row_of


def judged(database: Database, name: str, *, now: float, threshold: int = 2) -> Judged:
    policy = Policy(breaker_threshold=threshold)
    failed = rollout("401", id=name, batch="b")
    return Judged(database, judge(failed, policy=policy), policy, now, {})


def feed(database: Database, name: str, *, now: float, threshold: int = 2) -> list[Row]:
    """Store a dead rollout's verdict as the service does; the breakers that it told of."""
    database.rollouts.register(Registration(id=name, batch="b"), now=now)
    said = judged(database, name, now=now, threshold=threshold)
    part = final.begin(said)
    assert part is not None
    database.verdicts.store(row_of(name, batch="b", given_at=now, health="api_error"), [part])
    events, _ = database.events.of_batch("b", after=0)
    return [event for event in events if event["kind"] == "breaker_opened"]


def test_a_streak_opens_the_breaker_of_its_lane_and_is_told_once(database: Database) -> None:
    assert feed(database, "r1", now=1.0) == []
    assert len(feed(database, "r2", now=2.0)) == 1
    (state,) = Breakers(database.connections).of_batch("b")
    assert (state.phase, state.tripped_by) == (Phase.OPEN, ("r1", "r2"))


def test_what_ran_in_no_batch_or_not_at_all_feeds_none(database: Database) -> None:
    assert final.begin(None) is None
    alone = judged(database, "r1", now=1.0)
    assert final.begin(alone._replace(verdict=_of_no_batch(alone))) is None


def _of_no_batch(said: Judged) -> Any:
    failed = rollout("401", id="r1", batch=None)
    return judge(failed, policy=said.policy)


def test_a_breaker_hangs_on_the_verdict_that_completes_its_streak(database: Database) -> None:
    assert not stakes.is_at(judged(database, "r1", now=1.0))
    feed(database, "r1", now=1.0)
    assert stakes.is_at(judged(database, "r2", now=2.0))
