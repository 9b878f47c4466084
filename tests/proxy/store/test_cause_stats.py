"""Causes are counted by lane and batch, and over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Cause, Exchange
from classifier.verdicts import Subcategory
from proxy.store.cause_stats import causes, causes_of, causes_of_calls, causes_over_time
from proxy.store.database import Database
from proxy.store.types import CommitBatch
from tests.proxy.store.records import FULL
from tests.proxy.store.test_verdicts import verdict

QUOTA = {"health": "api_error", "subcategory": "quota", "fingerprint": "quota:429"}
FINE = "v1:quota:openai:429:insufficient_quota"


@pytest.fixture
def filled(database: Database) -> Database:
    def judged(name: str, at: float, batch: str | None, lane: str, **facts: Any) -> None:
        row = {**verdict(name), "batch": batch, "given_at": at, "lane": lane, **facts}
        database.verdicts.store(row)

    judged("a", 10.0, "x", "openai/gpt-5/key-1", cause=FINE, **QUOTA)
    judged("b", 70.0, "x", "openai/gpt-5/key-1", cause=FINE, **QUOTA)
    judged("c", 80.0, None, "openai/gpt-5/key-1", cause=FINE, **QUOTA)
    judged("d", 80.0, "y", "openai/gpt-4/key-1", cause=FINE, **QUOTA)
    judged("f", 95.0, "y", "openai/gpt-4/key-1", cause=FINE, began_at=15.0, **QUOTA)
    judged("e", 90.0, "y", "openai/gpt-4/key-1")
    return database


def test_causes_are_counted_by_lane_and_batch(filled: Database) -> None:
    rows = filled.read(causes)
    assert {row["fingerprint"] for row in rows} == {"quota:429"}
    assert {
        (row["lane"].split("/")[1], row["batch"]): (
            row["rollouts"], row["first_seen"], row["last_seen"],
        )
        for row in rows
    } == {
        ("gpt-5", "x"): (2, 10.0, 70.0),
        ("gpt-5", None): (1, 80.0, 80.0),
        ("gpt-4", "y"): (2, 15.0, 95.0),
    }  # fmt: skip


def test_causes_are_counted_over_time(filled: Database) -> None:
    rows = filled.read(causes_over_time, since=60.0, step_s=60)
    counted = {(row["lane"].split("/")[1], row["step"]): row["rollouts"] for row in rows}
    assert counted == {("gpt-5", 1): 2, ("gpt-4", 1): 1}


def test_the_causes_of_rollouts_are_each_named_once(filled: Database) -> None:
    rows = filled.read(causes_of, ["a", "b", "e", "f", "nobody"])
    assert sorted(row["lane"] for row in rows) == ["openai/gpt-4/key-1", "openai/gpt-5/key-1"]
    assert {(row["fingerprint"], row["subcategory"], row["cause"]) for row in rows} == {
        ("quota:429", "quota", FINE)
    }
    assert filled.read(causes_of, []) == []


def test_the_causes_of_calls_are_those_since_then_to_that_upstream(database: Database) -> None:
    limited = Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="r", code="slow_down")
    wrong = replace(limited, subcategory=Subcategory.REJECTED_REQUEST)
    cut = replace(limited, subcategory=Subcategory.PROVIDER_ERROR, code=None, reason="truncated")

    def call(name: str, at: float, cause: Cause | None, **facts: Any) -> Exchange:
        timing = replace(FULL.timing, started_at=at)
        return replace(FULL, id=name, timing=timing, cause=cause, **facts)

    calls = [
        call("1", 10.0, replace(limited, code="before")),
        call("2", 20.0, limited),
        call("3", 21.0, limited),
        call("4", 22.0, cut, status=200, model="gpt-4"),
        call("5", 23.0, wrong),
        call("6", 24.0, None),
        call("7", 25.0, limited, upstream="elsewhere"),
    ]
    database.calls.write(CommitBatch(recorded=calls), worker="w")
    slow = (FULL.model, "rate_limit", FULL.status, "slow_down")
    found = database.read(causes_of_calls, FULL.upstream, since=20.0, most=9)
    assert found == [("gpt-4", "provider_error", 200, "truncated"), slow]
    assert database.read(causes_of_calls, FULL.upstream, since=20.0, most=1) == found[:1]
