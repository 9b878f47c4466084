"""Breakers are stored by batch and lane, and reset one by one or all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier import breakers
from classifier.breakers import BreakerState, Phase
from proxy.store.database import Database
from proxy.store.events import store_states


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
