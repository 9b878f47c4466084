"""Alerts: one message for a condition, however many processes see it, and handed to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from classifier.breakers import BreakerState, Phase
from proxy.store.database import Database
from proxy.store.deployment import KEPT_S, QUIET_S, Alert, Condition
from proxy.store.events import store_states

DOWN = Condition(kind="upstream.failing", subject="openai", at=90.0, data={"calls": 5})
BATCH = Condition(kind="batch.unpublishable", subject="b", at=95.0, data={})
KINDS = {DOWN.kind, "batch.unpublishable:b"}


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """Another process on the same database."""
    with closing(Database(database.url)) as opened:
        yield opened


def only(database: Database) -> Alert:
    (alert,) = database.alerts.known()
    return alert


def test_one_process_has_the_turn_until_it_is_over(database: Database, other: Database) -> None:
    assert database.alerts.take_turn(100.0, for_s=14.0)
    assert not other.alerts.take_turn(105.0, for_s=14.0)
    assert other.alerts.take_turn(114.0, for_s=14.0)
    assert not database.alerts.take_turn(115.0, for_s=14.0)
    assert database.alerts.take_turn(20.0, for_s=14.0), "a clock that was set back stops nobody"


def test_a_condition_is_one_message_that_one_process_gets(
    database: Database, other: Database
) -> None:
    for process in (database, other, database):
        process.alerts.note([DOWN], watched=KINDS, now=100.0)
    (alert,) = database.alerts.claim(100.0, for_s=60.0)
    assert (alert.kind, alert.subject, alert.at) == (DOWN.kind, "openai", 90.0)
    assert (alert.data, alert.attempts) == ({"calls": 5}, 1)
    assert other.alerts.claim(101.0, for_s=60.0) == []
    (again,) = other.alerts.claim(160.0, for_s=60.0)
    assert (again.id, again.attempts) == (alert.id, 2), "its process died"
    database.alerts.settle(alert, due_at=None)
    assert only(database).due_at == 220.0, "who had it first has no say any more"
    other.alerts.settle(again, due_at=None)
    assert database.alerts.claim(1e9, for_s=60.0) == []


def test_a_message_that_was_not_received_is_due_again(database: Database) -> None:
    database.alerts.note([DOWN], watched=KINDS, now=100.0)
    (alert,) = database.alerts.claim(100.0, for_s=60.0)
    database.alerts.settle(alert, due_at=115.0)
    assert database.alerts.claim(114.0, for_s=60.0) == []
    assert [each.id for each in database.alerts.claim(115.0, for_s=60.0)] == [alert.id]


def test_what_comes_back_soon_is_the_same_alert_and_later_another(database: Database) -> None:
    def seen(now: float, *conditions: Condition) -> str:
        database.alerts.note(conditions, watched=KINDS, now=now)
        return only(database).id

    first = seen(100.0, DOWN)
    assert seen(200.0) == first
    assert only(database).over_at == 200.0
    assert seen(200.0 + QUIET_S - 1, DOWN) == first
    assert only(database).over_at is None
    seen(1000.0)
    assert seen(1000.0 + QUIET_S, DOWN) != first


def test_only_what_was_looked_at_can_be_over(database: Database) -> None:
    database.alerts.note([DOWN, BATCH], watched=KINDS, now=100.0)
    database.alerts.note([], watched={"batch.unpublishable:other"}, now=110.0)
    assert [each.over_at for each in database.alerts.known()] == [None, None]
    database.alerts.note([], watched={"batch.unpublishable:b"}, now=120.0)
    over = {each.kind: each.over_at for each in database.alerts.known()}
    assert over == {DOWN.kind: None, BATCH.kind: 120.0}
    database.alerts.note([], watched=(), now=100.0 + KEPT_S)
    assert database.alerts.known() == [], "nobody looks at it any more"


def test_alerts_are_beside_what_else_a_deployment_shares(database: Database) -> None:
    salt = database.deployment.secret("salt")
    database.alerts.take_turn(100.0, for_s=14.0)
    database.alerts.note([DOWN], watched=KINDS, now=100.0)
    assert database.deployment.secret("salt") == salt
    assert len(database.alerts.known()) == 1


def test_breakers_that_opened_lately_are_found(database: Database) -> None:
    def state(lane: str, phase: Phase, opened_at: float | None, **more: Any) -> BreakerState:
        return BreakerState(
            batch="b", lane=lane, threshold=3, phase=phase, opened_at=opened_at, **more
        )

    database.change(
        store_states,
        [
            state("open", Phase.OPEN, 100.0),
            state("probed", Phase.HALF_OPEN, 110.0, canary="r"),
            state("old", Phase.OPEN, 49.0),
            state("closed", Phase.CLOSED, 100.0),
        ],
    )
    found = database.alerts.open_breakers(since=50.0, now=120.0)
    assert {each.lane for each in found} == {"open", "probed"}
    assert replace(found[0], lane="x").batch == "b"
