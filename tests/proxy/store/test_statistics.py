from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from classifier.records import Ending, Exchange, Kind, Timing
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.statistics import usage
from proxy.store.tables import CommitBatch, Registration
from tests.proxy.store.records import BARE, FULL, write
from tests.proxy.store.test_verdicts import verdict
from tests.statements import statements


@pytest.fixture
def filled(database: Database) -> Database:
    for number, (name, batch) in enumerate((("a", "x"), ("b%", "y"), ("c", "x"), ("d", None))):
        database.rollouts.register(Registration(id=name, batch=batch, task="T"), now=float(number))
    calls = [FULL, replace(BARE, ending=Ending.COMPLETE)]
    write(database, *(replace(each, rollout_id="a") for each in calls))
    database.calls.write(CommitBatch(opened=[replace(BARE, id="x3", rollout_id="c")]), worker="w")
    return database


def test_a_batch_has_a_span(filled: Database) -> None:
    assert filled.read(statistics.span, "x") == (0.0, 2.0)
    assert filled.read(statistics.span, "none") is None


def test_a_list_says_what_the_whole_service_has(filled: Database) -> None:
    found = filled.read(statistics.service_counts, nameless_since=0.0)
    assert (found.batches, found.without_batch, found.nameless) == (2, 1, 0)
    assert found.in_flight == filled.read(statistics.in_flight)
    assert found.in_flight.calls == 1


def test_calls_that_name_no_rollout_are_counted_apart(filled: Database) -> None:
    nameless = [
        replace(FULL, id=f"n{at}", rollout_id="unattributed", timing=Timing(started_at=float(at)))
        for at in (10, 20, 30)
    ]
    write(filled, *nameless)
    counted = [
        filled.read(statistics.service_counts, nameless_since=since) for since in (0.0, 10.0, 30.0)
    ]
    assert [each.nameless for each in counted] == [3, 2, 0]
    assert {each.without_batch for each in counted} == {1}


def test_calls_are_counted_by_time_and_subcategory(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most, step_s, step in ((5000, 1000, 1), (1, 1020, 0)):  # by minutes: 17 of them
        monkeypatch.setattr(statistics, "_COUNTED", most)
        found, rows = filled.read(statistics.calls_over_time, "x", step_s=1000)
        counted = {(row["step"], row["subcategory"]): row["calls"] for row in rows}
        assert (found, counted) == (step_s, {(step, "quota"): 1, (step, None): 1})
    assert filled.read(statistics.in_flight) == filled.read(statistics.in_flight, "x")
    assert filled.read(statistics.in_flight).calls == 1
    assert filled.read(statistics.in_flight, "y") == (0, None)


def test_the_pulse_changes_with_every_call(filled: Database) -> None:
    asked: tuple[dict[str, str], ...] = {"batch": "x"}, {"rollout_id": "c"}
    before = [filled.read(statistics.pulse, **of) for of in asked]
    write(filled, replace(FULL, id="x4", rollout_id="c", timing=Timing(started_at=5000.0)))
    after = [filled.read(statistics.pulse, **of) for of in asked]
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_rollouts_are_counted_by_health_in_batches_and_without_one(filled: Database) -> None:
    for name, batch, health in (("a", "x", "healthy"), ("b%", "y", "undecided"),
                                ("c", "x", "healthy"), ("d", None, "healthy")):  # fmt: skip
        filled.verdicts.store(verdict(name, batch=batch, health=health))
    expected = {"healthy": 3, "undecided": 1}
    assert filled.read(statistics.counts, 6.0).verdicts == expected


# --- Calls are counted by upstream and model over time -------------------------------------------


def call(name: str, at: float, like: Exchange = BARE, **facts: object) -> Exchange:
    timing = Timing(started_at=at, first_byte_s=0.5, duration_s=1.0)
    whole = {"model": "gpt-5", "ending": Ending.COMPLETE, **facts}
    return replace(like, id=name, timing=timing, **whole)  # type: ignore[arg-type]


@pytest.fixture
def upstream_usage_filled(database: Database) -> Database:
    database.rollouts.register(Registration(id="r1", batch="x"), now=1.0)
    recorded = [
        call("a", 60.0, FULL, answered_model=None),
        call("b", 61.0),
        call("c", 119.9),
        call("d", 120.0, answered_model="gpt-5-2025"),
        call("e", 121.0, upstream="v", model=None),
        call("f", 185.0, kind=Kind.ACTIVITY, rollout_id="alone"),
    ]
    write(database, *recorded)
    return database


def test_calls_are_counted_by_step_upstream_answering_model_and_cause(
    upstream_usage_filled: Database,
) -> None:
    rows = upstream_usage_filled.read(usage, since=60.0, until=1000.0, step_s=60)
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
    some = upstream_usage_filled.read(usage, since=61.0, until=120.0, step_s=3600)
    assert [(row["step"], row["calls"]) for row in some if row["upstream"] == "u"] == [(0, 2)]
    assert upstream_usage_filled.read(usage, since=240.0, until=1000.0, step_s=60) == []


def test_sqlite_reads_only_the_calls_of_the_window(tmp_path: Path) -> None:
    with closing(Database(str(tmp_path / "t.db"))) as database:
        database.prepare()
        with statements(database) as asked:
            database.read(usage, since=60.0, until=1000.0, step_s=60)
    with closing(sqlite3.connect(tmp_path / "t.db")) as file:
        plans = [
            row[3]
            for text, values in asked
            if text.startswith("SELECT")
            for row in file.execute(f"EXPLAIN QUERY PLAN {text}", values)
        ]
    assert "SEARCH call_usage USING PRIMARY KEY (batch=? AND minute>? AND minute<?)" in plans
