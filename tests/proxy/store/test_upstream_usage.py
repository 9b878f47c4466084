"""Calls are counted by upstream and model over time, and sampled slice by slice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier.records import Ending, Exchange, Kind, Timing
from proxy.store.database import Database
from proxy.store.types import CommitBatch
from proxy.store.upstream_usage import Slice, samples, usage
from tests.proxy.store.records import BARE, FULL


def call(name: str, at: float, like: Exchange = BARE, **facts: object) -> Exchange:
    timing = Timing(started_at=at, first_byte_s=0.5, duration_s=1.0)
    whole = {"model": "gpt-5", "ending": Ending.COMPLETE, **facts}
    return replace(like, id=name, timing=timing, **whole)  # type: ignore[arg-type]


@pytest.fixture
def filled(database: Database) -> Database:
    recorded = [
        call("a", 60.0, FULL, answered_model=None),
        call("b", 61.0),
        call("c", 119.9),
        call("d", 120.0, answered_model="gpt-5-2025"),
        call("e", 121.0, upstream="v", model=None),
        call("f", 121.0, kind=Kind.ACTIVITY),
    ]
    database.calls.write(CommitBatch(recorded=recorded), worker="w")
    return database


def test_calls_are_counted_by_step_upstream_answering_model_and_cause(filled: Database) -> None:
    rows = filled.read(usage, since=60.0, until=1000.0, step_s=60)
    counted = {
        (row["step"], row["upstream"], row["model"], row["subcategory"]): (
            row["calls"], row["last_at"],
        )
        for row in rows
    }  # fmt: skip
    assert counted == {
        (1, "openai", "gpt-5", "quota"): (1, 60.0),
        (1, "u", "gpt-5", None): (2, 119.9),
        (2, "u", "gpt-5-2025", None): (1, 120.0),
        (2, "v", None, None): (1, 121.0),
    }
    some = filled.read(usage, since=61.0, until=120.0, step_s=3600, upstream="u")
    assert [(row["step"], row["calls"]) for row in some] == [(0, 2)]


def test_a_sample_takes_the_newest_of_each_slice(filled: Database) -> None:
    taken = filled.read(samples, [Slice(60.0, 120.0, 2), Slice(120.0, 180.0, 9)])
    assert [(call["started_at"], call["model"]) for call in taken] == [
        (119.9, "gpt-5"), (61.0, "gpt-5"), (121.0, None), (120.0, "gpt-5-2025"),
    ]  # fmt: skip
    assert taken[0]["first_byte_s"] == 0.5
