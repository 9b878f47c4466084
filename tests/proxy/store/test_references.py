"""Series of reference calls: begun for all to see, shared by failures, ended whatever happens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Kind, Timing
from classifier.reference_rules import Use
from proxy.store.database import Database
from proxy.store.references import ReferenceLane
from proxy.store.tables import Registration
from tests.proxy.store.records import FULL, write
from tests.proxy.store.test_verdicts import verdict

LANE = ReferenceLane("openai", "gpt-5")
ONE = json.dumps([{"exchange_id": "c", "started_at": 10.0, "ended_at": 11.0, "answered": True}])


def begun(database: Database, series_id: str, at: float, lane: ReferenceLane = LANE) -> None:
    database.references.begin(series_id, lane, api="openai.chat", worker="w", at=at)


def test_a_series_is_seen_from_its_start_on_its_lane_and_counts_for_all(database: Database) -> None:
    begun(database, "s1", 10.0)
    begun(database, "s2", 20.0)
    begun(database, "s3", 30.0, ReferenceLane("openai", "other"))
    database.references.end("s1", at=11.0, calls=ONE)
    database.references.end("s3", at=30.0, not_run="no_key")
    found = database.references.recent(LANE, since=5.0)
    assert [(each.id, each.ended_at, len(each.calls)) for each in found] == [
        ("s2", None, 0),
        ("s1", 11.0, 1),
    ]
    assert [each.id for each in database.references.recent(LANE, since=10.0)] == ["s2"]
    assert database.references.started(since=5.0) == 2, "one that was not run cost nothing"
    assert [row["id"] for row in database.references.newest(since=5.0, limit=2)] == ["s3", "s2"]


def test_a_failure_shares_the_first_series_that_it_is_given(database: Database) -> None:
    begun(database, "s1", 10.0)
    begun(database, "s2", 20.0)
    database.references.share("s1", [("r", "x1"), ("r", "x2"), ("q", "x3")])
    database.references.share("s2", [("r", "x2"), ("r", "x4")])
    found = database.references.of_rollout("r")
    assert {name: row["id"] for name, row in found.items()} == {"x1": "s1", "x2": "s1", "x4": "s2"}


def test_an_end_stands(database: Database) -> None:
    begun(database, "s1", 10.0)
    database.references.end("s1", at=11.0, calls=ONE)
    database.references.end("s1", at=12.0, not_run="stopped")
    (series,) = database.references.recent(LANE, since=0.0)
    assert (series.ended_at, len(series.calls), series.not_run) == (11.0, 1, None)


def test_what_a_dead_process_left_open_ends_and_counts_for_nothing(database: Database) -> None:
    database.heartbeat("w", host="here", now=1000.0)
    begun(database, "s1", 10.0)
    begun(database, "s2", 11.0)
    database.references.end("s2", at=12.0, calls=ONE)
    for now in (1001.0, 1012.0, 1023.0, 1034.0, 1045.0, 1056.0, 1067.0, 1078.0):
        database.heartbeat("v", host="elsewhere", now=now)
    found = {each.id: each for each in database.references.recent(LANE, since=0.0)}
    assert (found["s1"].ended_at, found["s1"].not_run) == (10.0, "stopped")
    assert (found["s2"].ended_at, found["s2"].not_run) == (12.0, None)


CALL: dict[str, Any] = {
    "upstream": "openai", "model": "m", "api": "openai.chat", "kind": Kind.INFERENCE,
    "role": "agent", "status": 200, "cause": None, "injected": False, "streamed": True,
    "answered_model": "m-1", "model_ambiguous": None, "fallback": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "use"),
    [
        ({}, Use("r", "m", "openai.chat", True, True, "m-1")),
        ({"status": 503, "cause": FULL.cause}, Use("r", "m", "openai.chat", True, False)),
        ({"fallback": True}, Use("r", "m", "openai.chat", True, False)),
        ({"streamed": False}, Use("r", "m", "openai.chat", False, True, "m-1")),
        ({"upstream": "gemini"}, None),
        ({"kind": Kind.PROBE}, None),
        ({"injected": True}, None),
        ({"role": "judge"}, None),
        ({"rollout_id": "elsewhere"}, None),
    ],
)
def test_a_use_is_what_an_agents_calls_to_an_upstream_have_in_common(
    database: Database, change: dict[str, Any], use: Use | None
) -> None:
    for rollout_id, batch in (("r", "b"), ("elsewhere", "c")):
        database.rollouts.register(Registration(id=rollout_id, batch=batch), now=1.0)
    made: dict[str, Any] = {"rollout_id": "r", "timing": Timing(started_at=50.0)} | CALL | change
    write(database, *(replace(FULL, id=each, **made) for each in ("x", "y")))
    assert database.references.uses("openai", ["r"]) == ([] if use is None else [use])


def test_uses_are_those_of_the_rollouts_however_many_other_calls_there_were(
    database: Database,
) -> None:
    for number, rollout_id in enumerate(("r", "s", "t")):
        database.rollouts.register(Registration(id=rollout_id, batch="b"), now=1.0 + number)
    made = (("s", "m-1", 10.0), ("r", "m-2", 20.0), ("r", "m-3", 30.0), ("t", "m-4", 5.0))
    for rollout_id, model, at in made:
        facts = CALL | {"rollout_id": rollout_id, "model": model, "timing": Timing(started_at=at)}
        write(database, replace(FULL, id=f"x{at}", **facts))
    listed = replace(FULL, rollout_id="r", kind=Kind.PROBE, timing=Timing(started_at=99.0))
    write(database, *(replace(listed, id=f"z{n}") for n in range(2_100)))
    assert database.references.last_registered("b") == ["t", "s", "r"]
    assert database.references.last_registered(None) == []
    uses = database.references.uses("openai", ["r", "t", "s"])
    assert [x.model for x in uses] == ["m-3", "m-2", "m-4", "m-1"]


def test_a_final_verdict_given_before_its_series_ended_stands(database: Database) -> None:
    for rollout_id in ("late", "open"):
        database.rollouts.register(Registration(id=rollout_id), now=1.0)
        database.rollouts.report(rollout_id, "{}", now=11.0)
    begun(database, "s1", 10.0)
    database.references.share("s1", [(name, "x") for name in ("late", "open")])
    for name in ("late", "open"):
        database.verdicts.store(verdict(name, batch=None, calls=1, provisional=name == "open"))
    database.references.end("s1", at=20.0)
    database.references.share("s1", [(name, "y") for name in ("late", "open")])
    assert database.verdicts.unjudged(among=["late", "open"], limit=9).ids == ["open"]
    assert database.verdicts.final("late") is not None
