"""Causes are counted across batches, by lane and batch, and over time."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.features.failures.store import causes, causes_over_time
from proxy.store.database import Database
from tests.proxy.store.test_verdicts import verdict

QUOTA = {"health": "api_error", "subcategory": "quota", "fingerprint": "quota:429"}
FINE = "v1:quota:openai:429:insufficient_quota"


@pytest.fixture
def cause_stats_filled(database: Database) -> Database:
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


def test_causes_are_counted_by_lane_and_batch(cause_stats_filled: Database) -> None:
    rows = cause_stats_filled.read(causes)
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


def test_causes_are_counted_over_time(cause_stats_filled: Database) -> None:
    rows = cause_stats_filled.read(causes_over_time, since=60.0, step_s=60)
    counted = {(row["lane"].split("/")[1], row["step"]): row["rollouts"] for row in rows}
    assert counted == {("gpt-5", 1): 2, ("gpt-4", 1): 1}
