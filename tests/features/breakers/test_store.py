"""Breakers are stored by batch and lane, reset one by one or all, found and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier import breakers
from classifier.breakers import BreakerState, Phase
from proxy.features.breakers.gauges import counts
from proxy.features.breakers.store import Breakers, store_states
from proxy.store.database import Database
from proxy.store.statistics import counts as all_counts


def opened(lane: str, *, batch: str = "b") -> BreakerState:
    return BreakerState(
        batch=batch, lane=lane, phase=Phase.OPEN, fingerprint="auth:401", streak=2, threshold=2,
        opened_at=5.0, tripped_by=("r1", "é"),
    )  # fmt: skip


@pytest.fixture
def two_open(database: Database) -> list[BreakerState]:
    states = [opened("one"), opened("two")]
    database.change(store_states, states)
    return states


def test_a_state_comes_back_as_it_was(database: Database, two_open: list[BreakerState]) -> None:
    assert Breakers(database.connections).of_batch("b") == two_open
    assert Breakers(database.connections).of_batch("other") == []


def test_storing_a_state_again_replaces_it(
    database: Database, two_open: list[BreakerState]
) -> None:
    changed = replace(two_open[0], streak=7)
    database.change(store_states, [changed])
    assert Breakers(database.connections).of_batch("b") == [changed, two_open[1]]


def test_one_lane_or_all_are_reset(database: Database, two_open: list[BreakerState]) -> None:
    after = Breakers(database.connections).reset("b", breakers.reset, lane="two")
    assert [state.phase for state in after] == [Phase.OPEN, Phase.HALF_OPEN]
    after = Breakers(database.connections).reset("b", breakers.reset, lane=None)
    assert [state.phase for state in after] == [Phase.HALF_OPEN, Phase.HALF_OPEN]


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
    found = Breakers(database.connections).opened(since=50.0, now=120.0)
    assert {each.lane for each in found} == {"open", "probed"}
    assert replace(found[0], lane="x").batch == "b"


def test_open_breakers_are_counted_by_their_phase_now(database: Database) -> None:
    database.change(store_states, [opened("one")])
    assert database.read(counts, 6.0) == {"open": 1, "half_open": 0}
    assert database.read(counts, 65.0) == {"open": 0, "half_open": 1}, "it has cooled down"
    of_all = database.read(all_counts, 6.0)
    assert (of_all.verdicts, of_all.gauges["truezero_breakers"]["open"]) == ({}, 1)
