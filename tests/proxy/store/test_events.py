"""Events come in the order of their numbers, to the batch that owns them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from classifier.records import Ending
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.proxy.store.records import BARE, FULL, write


def test_a_failed_call_is_an_event_of_its_rollouts_batch(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    write(database, FULL, replace(BARE, ending=Ending.COMPLETE))
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
    write(database, FULL)
    assert database.events.of_batch("b", after=0) == ([], database.events.last_id())


def test_sqlite_sends_no_notifications(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    with database.events.subscribe(lambda: None) as notified:
        assert notified is False
