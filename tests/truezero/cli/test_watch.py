"""`truezero watch`: the batch follows its events."""

from __future__ import annotations

import pytest

from tests.truezero.models.test_batches import EMPTY
from truezero import Event, models
from truezero.cli.watch import live_batch


def test_a_live_table_follows_the_events_without_asking_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now, loaded = [0.0], [0]

    def load() -> tuple[models.BatchSummary, models.Breaker]:
        loaded[0] += 1
        summary = models.BatchSummary.model_validate({**EMPTY, "valid": True})
        return summary, models.Breaker(batch="b", threshold=0, lanes=[])

    with live_batch(load, clock=lambda: now[0]) as follow:
        follow(event("exchange_failed"))
        follow(event("verdict_given"))
        assert loaded == [1], "a second has not gone by"
        now[0] = 1.5
        follow(event("alive"))
        assert loaded == [2], "there was news"
        now[0] = 3.0
        follow(event("alive"))
        assert loaded == [2], "there was none"
    printed = capsys.readouterr().out
    assert "valid" in printed
    assert "verdict given · r[1] · api_error · auth:401" in printed


def event(kind: str) -> Event:
    data = {"rollout_id": "r[1]", "health": "api_error", "fingerprint": "auth:401"}
    return Event(id=1, kind=kind, data=data)
