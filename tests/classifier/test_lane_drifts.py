"""Drifts of a lane against its own seven days, measured on a simulated clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier.lane_drifts import LaneUsual, drifts
from classifier.lane_health import LaneMinute, lane_health
from tests.classifier.drifts import SCRIPTS, DriftScript, calm_alarms, hour, told
from tests.classifier.outages import PAGE, drift_line

# One of each measure and of what agents and new batches do; the others are played by `make all`.
OFTEN = {4, 7, 10, 11, 13, 16, 17}


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in range(len(SCRIPTS))],
)
def test_a_drift_is_told_and_nothing_that_agents_and_new_batches_do(seed: int) -> None:
    script = SCRIPTS[seed]
    found = told(script, seed)
    assert (None if found is None else found[1].measure) == script.measure
    assert drift_line(script, found) in PAGE.read_text("utf-8"), (
        "python -m tests.classifier.outages"
    )


@pytest.mark.parametrize("hours", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_calm_hours_raise_no_alarm(hours: int) -> None:
    assert calm_alarms(hours, seed=1)[1] == 0


def test_a_drift_is_over_once_it_was_not_seen_for_ten_minutes() -> None:
    played = hour(SCRIPTS[0], 0)
    now = 3600.0
    (lasting,) = drifts(played.usual, played.answers, since=now, now=now)
    assert lasting.until is None
    assert 1800 <= lasting.since < 1830
    calm = hour(DriftScript(name="calm", measure=None), 0).answers
    healed = [*played.answers, *(replace(each, at=each.at + now) for each in calm)]
    (ended,) = drifts(played.usual, healed, since=now, now=now + 1500)
    assert ended.until is not None
    assert now < ended.until < now + 900
    assert lane_health([], now, drifts=[ended]).word == "unknown", "it is over"
    minute = LaneMinute(minute=int(now // 60) - 1, answered=30)
    assert lane_health([minute], now, drifts=[lasting]).word == "degraded"


def test_a_lane_without_a_past_has_no_drift() -> None:
    played = hour(SCRIPTS[0], 0)
    assert drifts(LaneUsual([]), played.answers, since=3600, now=3600) == []
