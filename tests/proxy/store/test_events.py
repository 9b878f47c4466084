"""Events come in the order of their numbers, to the batch that owns them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from classifier import breakers
from classifier.breakers import BreakerState, Phase
from classifier.records import Ending
from proxy.store.database import Database
from proxy.store.events import store_states
from proxy.store.tables import CommitBatch, Registration
from tests.proxy.store.records import BARE, FULL


def test_a_failed_call_is_an_event_of_its_rollouts_batch(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    database.calls.write(
        CommitBatch(recorded=[FULL, replace(BARE, ending=Ending.COMPLETE)]), worker="w"
    )
    rows, newest = database.events.of_batch("b", after=0)
    assert [row["kind"] for row in rows] == ["exchange_failed"]
    assert json.loads(rows[0]["data"]) == {
        "exchange": "x1", "status": 429, "subcategory": "quota", "transient": False,
    }  # fmt: skip
    assert rows[0]["at"] == 1002.0, "when it ended"
    assert newest == database.events.last_id()
    assert database.events.of_batch("b", after=newest) == ([], newest)


def test_events_of_another_batch_are_passed_over(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="other"), now=1.0)
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert database.events.of_batch("b", after=0) == ([], database.events.last_id())


def test_sqlite_sends_no_notifications(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    with database.events.subscribe(lambda: None) as notified:
        assert notified is False


# --- Breakers are stored by batch and lane, and reset one by one or all ---------------------------


def opened(lane: str) -> BreakerState:
    return BreakerState(
        batch="b", lane=lane, phase=Phase.OPEN, fingerprint="auth:401", streak=2, threshold=2,
        opened_at=5.0, tripped_by=("r1", "é"),
    )  # fmt: skip


@pytest.fixture
def two_open(database: Database) -> list[BreakerState]:
    states = [opened("one"), opened("two")]
    database.change(store_states, states)
    return states


def test_a_state_comes_back_as_it_was(database: Database, two_open: list[BreakerState]) -> None:
    assert database.breakers.of_batch("b") == two_open
    assert database.breakers.of_batch("other") == []


def test_storing_a_state_again_replaces_it(
    database: Database, two_open: list[BreakerState]
) -> None:
    changed = replace(two_open[0], streak=7)
    database.change(store_states, [changed])
    assert database.breakers.of_batch("b") == [changed, two_open[1]]


def test_one_lane_or_all_are_reset(database: Database, two_open: list[BreakerState]) -> None:
    after = database.breakers.reset("b", breakers.reset, lane="two")
    assert [state.phase for state in after] == [Phase.OPEN, Phase.HALF_OPEN]
    after = database.breakers.reset("b", breakers.reset, lane=None)
    assert [state.phase for state in after] == [Phase.HALF_OPEN, Phase.HALF_OPEN]
