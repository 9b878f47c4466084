"""Series of reference calls: begun for all to see, shared by failures, ended whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Kind, Timing
from proxy.store.database import Database
from proxy.store.references import AnsweredCall, ReferenceLane
from proxy.store.tables import CommitBatch, Registration, verdicts
from tests.proxy.store.records import FULL

LANE = ReferenceLane("openai", "gpt-5")


def begun(database: Database, series_id: str, at: float, lane: ReferenceLane = LANE) -> None:
    database.references.begin(series_id, lane, api="openai.chat", worker="w", at=at)


def test_a_series_is_seen_from_its_start_on_its_lane_and_counts_for_all(database: Database) -> None:
    begun(database, "s1", 10.0)
    begun(database, "s2", 20.0)
    begun(database, "s3", 30.0, ReferenceLane("openai", "other"))
    database.references.end("s1", at=11.0, calls="[1]")
    database.references.end("s3", at=30.0, not_run="no_key")
    found = database.references.recent(LANE, since=5.0)
    assert [(row["id"], row["ended_at"], row["calls"]) for row in found] == [
        ("s2", None, "[]"),
        ("s1", 11.0, "[1]"),
    ]
    assert [row["id"] for row in database.references.recent(LANE, since=10.0)] == ["s2"]
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
    database.references.end("s1", at=11.0, calls="[1]")
    database.references.end("s1", at=12.0, not_run="stopped")
    (row,) = database.references.recent(LANE, since=0.0)
    assert (row["ended_at"], row["calls"], row["not_run"]) == (11.0, "[1]", None)


def test_what_a_dead_process_left_open_ends_and_counts_for_nothing(database: Database) -> None:
    database.heartbeat("w", host="here", now=1000.0)
    begun(database, "s1", 10.0)
    begun(database, "s2", 11.0)
    database.references.end("s2", at=12.0, calls="[1]")
    for now in (1001.0, 1012.0, 1023.0, 1034.0, 1045.0, 1056.0, 1067.0, 1078.0):
        database.heartbeat("v", host="elsewhere", now=now)
    found = {row["id"]: row for row in database.references.recent(LANE, since=0.0)}
    assert (found["s1"]["ended_at"], found["s1"]["not_run"]) == (10.0, "stopped")
    assert (found["s2"]["ended_at"], found["s2"]["not_run"]) == (12.0, None)


CALL: dict[str, Any] = {
    "upstream": "openai", "model": "gpt-5-2026", "api": "openai.chat", "kind": Kind.INFERENCE,
    "status": 200, "cause": None, "injected": False,
    "answered_model": "gpt-x", "model_ambiguous": None, "fallback": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"upstream": "gemini"}, False),
        ({"status": 503}, False),
        ({"cause": FULL.cause}, False),
        ({"kind": Kind.PROBE}, False),
        ({"injected": True}, False),
        ({"fallback": True}, False),
        ({"model": None}, False),
        ({"rollout_id": "other"}, False),
    ],
)
def test_the_last_answered_call_is_one_of_a_rollout_registered_alike(
    database: Database, change: dict[str, Any], counts: bool
) -> None:
    for rollout_id, model in (("r", "alias"), ("other", "else")):
        database.rollouts.register(Registration(id=rollout_id, model=model), now=1.0)
    made: dict[str, Any] = {"rollout_id": "r", "timing": Timing(started_at=50.0)}
    made |= CALL | change
    database.calls.write(CommitBatch(recorded=[replace(FULL, id="x", **made)]), worker="w")
    found = database.references.last_answered("openai", ["alias"], now=60.0)
    expected = (
        AnsweredCall(
            "r", "gpt-5-2026", "openai.chat", FULL.method, FULL.streamed, answered_as=("gpt-x",)
        )
        if counts
        else None
    )
    assert found == expected
    assert database.references.last_answered("openai", ["alias"], now=49.0) is None
    assert database.references.last_answered("openai", [], now=60.0) is None


def test_names_that_were_answered_are_those_of_a_registration_the_latest_first(
    database: Database,
) -> None:
    for rollout_id, batch, model in (("r", "b", "m"), ("s", "c", "m"), ("t", "b", "else")):
        registered = Registration(id=rollout_id, batch=batch, model=model)
        database.rollouts.register(registered, now=1.0)
    answered = (("r", "m-1", 10.0), ("r", "m-2", 20.0), ("r", "m-1", 30.0), ("s", "m-3", 40.0),
                ("t", "m-4", 50.0))  # fmt: skip
    for rollout_id, model, at in answered:
        made: dict[str, Any] = {"rollout_id": rollout_id, "timing": Timing(started_at=at)}
        call = replace(FULL, id=f"x{at}", **(CALL | made | {"model": model}))
        database.calls.write(CommitBatch(recorded=[call]), worker="w")
    references = database.references
    assert references.answered_names("openai", ["m"], now=60.0, batch="b") == ["m-1", "m-2"]
    assert references.answered_names("openai", ["m"], now=60.0) == ["m-3", "m-1", "m-2"]
    assert references.answered_names("gemini", ["m"], now=60.0) == []
    named = references.last_answered("openai", ["m"], now=60.0, named="m-2")
    assert named is not None
    assert named.model == "m-2"
    assert references.last_answered("openai", ["m"], now=60.0, named="m") is None


def verdict(rollout_id: str, took: str | None, *, provisional: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(column.name for column in verdicts.columns)
    return row | {
        "rollout_id": rollout_id, "batch": None, "health": "healthy", "provisional": provisional,
        "scoreable": "yes", "given_at": 12.0, "calls": 1, "verdict": "{}",
        "reference_series": took, "began_at": 1.0,
    }  # fmt: skip


def test_a_final_verdict_given_before_its_series_ended_stands(database: Database) -> None:
    for rollout_id in ("late", "open"):
        database.rollouts.register(Registration(id=rollout_id), now=1.0)
        database.rollouts.report(rollout_id, "{}", now=11.0)
    begun(database, "s1", 10.0)
    database.references.share("s1", [(name, "x") for name in ("late", "open")])
    for name in ("late", "open"):
        database.verdicts.store(verdict(name, None, provisional=name == "open"))
    database.references.end("s1", at=20.0)
    database.references.share("s1", [(name, "y") for name in ("late", "open")])
    assert database.verdicts.unjudged(among=["late", "open"], limit=9).ids == ["open"]
    assert database.verdicts.final("late") is not None
