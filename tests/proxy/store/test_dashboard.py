"""Queries of pages and metrics: counted, filtered and paged in the database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier.breakers import BreakerState, Phase
from classifier.records import Ending, Timing
from proxy.store import batch_totals, statistics
from proxy.store.database import Database
from proxy.store.events import store_states
from proxy.store.tables import CommitBatch, Registration
from tests.proxy.store.records import BARE, FULL
from tests.proxy.store.test_verdicts import verdict


@pytest.fixture
def filled(database: Database) -> Database:
    for number, (name, batch) in enumerate((("a", "x"), ("b%", "y"), ("c", "x"), ("d", None))):
        database.rollouts.register(Registration(id=name, batch=batch, task="T"), now=float(number))
    calls = [FULL, replace(BARE, ending=Ending.COMPLETE)]
    database.calls.write(
        CommitBatch(recorded=[replace(c, rollout_id="a") for c in calls]), worker="w"
    )
    database.calls.write(CommitBatch(opened=[replace(BARE, id="x3", rollout_id="c")]), worker="w")
    return database


def test_batches_come_newest_first_with_their_span(filled: Database) -> None:
    page = filled.read(statistics.list_batches, offset=0, limit=1)
    assert page.total == 2
    assert page.rows == [{"batch": "x", "first_at": 0.0, "last_at": 2.0}]
    assert filled.read(statistics.span, "x") == (0.0, 2.0)
    assert filled.read(statistics.span, "none") is None
    assert filled.read(statistics.without_batch) == 1


def test_calls_that_name_no_rollout_are_counted_apart(filled: Database) -> None:
    nameless = [
        replace(FULL, id=f"n{at}", rollout_id="unattributed", timing=Timing(started_at=float(at)))
        for at in (10, 20, 30)
    ]
    filled.calls.write(CommitBatch(recorded=nameless), worker="w")
    counted = [filled.read(statistics.unattributed, since=since) for since in (0.0, 10.0, 30.0)]
    assert counted == [3, 2, 0]
    assert filled.read(statistics.without_batch) == 1


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
    before = filled.read(statistics.pulse, batch="x"), filled.read(statistics.pulse, rollout_id="c")
    filled.calls.write(
        CommitBatch(
            recorded=[replace(FULL, id="x4", rollout_id="c", timing=Timing(started_at=5000.0))]
        ),
        worker="w",
    )
    after = filled.read(statistics.pulse, batch="x"), filled.read(statistics.pulse, rollout_id="c")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_open_breakers_are_counted_by_their_phase_now(filled: Database) -> None:
    state = BreakerState(
        batch="x", lane="one", phase=Phase.OPEN, fingerprint="auth:401", streak=2, threshold=2,
        opened_at=5.0, tripped_by=("a",),
    )  # fmt: skip
    filled.change(store_states, [state])
    counts = filled.read(statistics.counts, 6.0)
    assert counts.verdicts == {}
    assert counts.breakers == {"open": 1, "half_open": 0}


def test_rollouts_are_counted_by_health_in_batches_and_without_one(filled: Database) -> None:
    for name, batch, health in (("a", "x", "healthy"), ("b%", "y", "undecided"),
                                ("c", "x", "healthy"), ("d", None, "healthy")):  # fmt: skip
        filled.verdicts.store(verdict(name, batch=batch, health=health))
    expected = {"healthy": 3, "undecided": 1}
    assert filled.read(statistics.counts, 6.0).verdicts == expected
    filled.change(batch_totals.invalidate, ["x"])
    assert filled.read(statistics.counts, 6.0).verdicts == expected
