"""Calls are counted by upstream and model over time, and sampled slice by slice."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from classifier.records import Ending, Exchange, Kind, Timing
from proxy.store.database import Database
from proxy.store.statistics import Slice, samples, usage
from proxy.store.tables import CommitBatch, Registration
from tests.proxy.store.records import BARE, FULL


def call(name: str, at: float, like: Exchange = BARE, **facts: object) -> Exchange:
    timing = Timing(started_at=at, first_byte_s=0.5, duration_s=1.0)
    whole = {"model": "gpt-5", "ending": Ending.COMPLETE, **facts}
    return replace(like, id=name, timing=timing, **whole)  # type: ignore[arg-type]


@pytest.fixture
def filled(database: Database) -> Database:
    database.rollouts.register(Registration(id="r1", batch="x"), now=1.0)
    recorded = [
        call("a", 60.0, FULL, answered_model=None),
        call("b", 61.0),
        call("c", 119.9),
        call("d", 120.0, answered_model="gpt-5-2025"),
        call("e", 121.0, upstream="v", model=None),
        call("f", 185.0, kind=Kind.ACTIVITY, rollout_id="alone"),
    ]
    database.calls.write(CommitBatch(recorded=recorded), worker="w")
    return database


def test_calls_are_counted_by_step_upstream_answering_model_and_cause(filled: Database) -> None:
    rows = filled.read(usage, since=60.0, until=1000.0, step_s=60)
    counted = {
        (row["step"], row["upstream"], row["model"], row["subcategory"]): (
            row["calls"], row["last_at"],
        )
        for row in rows
    }  # fmt: skip
    assert counted == {
        (1, "openai", "gpt-5", "quota"): (1, 60.0),
        (1, "u", "gpt-5", None): (2, 60.0),
        (2, "u", "gpt-5-2025", None): (1, 120.0),
        (2, "v", None, None): (1, 120.0),
        (3, "u", "gpt-5", None): (1, 180.0),
    }
    some = filled.read(usage, since=61.0, until=120.0, step_s=3600, upstream="u")
    assert [(row["step"], row["calls"]) for row in some] == [(0, 2)]
    assert filled.read(usage, since=240.0, until=1000.0, step_s=60) == []


def test_a_sample_takes_the_newest_of_each_slice(filled: Database) -> None:
    taken = filled.read(samples, [Slice(60.0, 120.0, 2), Slice(120.0, 999.0, 9)])
    assert [(call["started_at"], call["model"]) for call in taken] == [
        (119.9, "gpt-5"), (61.0, "gpt-5"), (121.0, None), (120.0, "gpt-5-2025"),
    ]  # fmt: skip
    assert taken[0]["first_byte_s"] == 0.5


def test_sqlite_reads_only_the_calls_of_the_window(tmp_path: Path) -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []
    own = threading.get_ident()  # what a service of another test still does is not asked here

    def note(_: object, __: object, text: str, values: tuple[object, ...], *more: object) -> None:
        if threading.get_ident() == own:
            asked.append((text, values))

    with closing(Database(str(tmp_path / "t.db"))) as database:
        database.prepare()
        event.listen(Engine, "before_cursor_execute", note)
        try:
            database.read(usage, since=60.0, until=1000.0, step_s=60)
            database.read(samples, [Slice(60.0, 120.0, 2)])
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    with closing(sqlite3.connect(tmp_path / "t.db")) as file:
        plans = [
            row[3]
            for text, values in asked
            if text.startswith("SELECT")
            for row in file.execute(f"EXPLAIN QUERY PLAN {text}", values)
        ]
    assert "SEARCH call_usage USING PRIMARY KEY (batch=? AND minute>? AND minute<?)" in plans
    assert "SEARCH exchanges USING INDEX exchanges_started (started_at>? AND started_at<?)" in plans
