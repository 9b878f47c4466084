"""Alerts: one message for a condition, however many processes see it, handed to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from proxy.control.look import Condition
from proxy.features.alerts.store import KEPT_S, QUIET_S, Alert, Alerts
from proxy.store.database import Database

DOWN = Condition(kind="upstream.failing", subject="openai", at=90.0, data={"calls": 5})
BATCH = Condition(kind="batch.unpublishable", subject="b", at=95.0, data={})
KINDS = {DOWN.kind, "batch.unpublishable:b"}


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """Another process on the same database."""
    with closing(Database(database.url)) as opened:
        yield opened


def alerts(database: Database) -> Alerts:
    return Alerts(database.connections)


def only(database: Database) -> Alert:
    (alert,) = alerts(database).known()
    return alert


def test_a_condition_is_one_message_that_one_process_gets(
    database: Database, other: Database
) -> None:
    for process in (database, other, database):
        alerts(process).note([DOWN], watched=KINDS, now=100.0)
    (alert,) = alerts(database).claim(100.0, for_s=60.0)
    assert (alert.kind, alert.subject, alert.at) == (DOWN.kind, "openai", 90.0)
    assert (alert.data, alert.attempts) == ({"calls": 5}, 1)
    assert alerts(other).claim(101.0, for_s=60.0) == []
    (again,) = alerts(other).claim(160.0, for_s=60.0)
    assert (again.id, again.attempts) == (alert.id, 2), "its process died"
    alerts(database).settle(alert, due_at=None)
    assert only(database).due_at == 220.0, "who had it first has no say any more"
    alerts(other).settle(again, due_at=None)
    assert alerts(database).claim(1e9, for_s=60.0) == []


def test_a_message_that_was_not_received_is_due_again(database: Database) -> None:
    alerts(database).note([DOWN], watched=KINDS, now=100.0)
    (alert,) = alerts(database).claim(100.0, for_s=60.0)
    alerts(database).settle(alert, due_at=115.0)
    assert alerts(database).claim(114.0, for_s=60.0) == []
    assert [each.id for each in alerts(database).claim(115.0, for_s=60.0)] == [alert.id]


def test_what_comes_back_soon_is_the_same_alert_and_later_another(database: Database) -> None:
    def seen(now: float, *conditions: Condition) -> str:
        alerts(database).note(conditions, watched=KINDS, now=now)
        return only(database).id

    first = seen(100.0, DOWN)
    assert seen(200.0) == first
    assert only(database).over_at == 200.0
    assert seen(200.0 + QUIET_S - 1, DOWN) == first
    assert only(database).over_at is None
    seen(1000.0)
    assert seen(1000.0 + QUIET_S, DOWN) != first


def test_only_what_was_looked_at_can_be_over(database: Database) -> None:
    alerts(database).note([DOWN, BATCH], watched=KINDS, now=100.0)
    alerts(database).note([], watched={"batch.unpublishable:other"}, now=110.0)
    assert [each.over_at for each in alerts(database).known()] == [None, None]
    alerts(database).note([], watched={"batch.unpublishable:b"}, now=120.0)
    over = {each.kind: each.over_at for each in alerts(database).known()}
    assert over == {DOWN.kind: None, BATCH.kind: 120.0}
    alerts(database).note([], watched=(), now=100.0 + KEPT_S)
    assert alerts(database).known() == [], "nobody looks at it any more"


def test_alerts_are_beside_what_else_a_deployment_shares(database: Database) -> None:
    salt = database.deployment.secret("salt")
    database.deployment.take_turn("alert", 100.0, for_s=14.0)
    alerts(database).note([DOWN], watched=KINDS, now=100.0)
    assert database.deployment.secret("salt") == salt
    assert len(alerts(database).known()) == 1
