"""An outline of a rollout's calls, in order, with those in flight."""

from __future__ import annotations

from dataclasses import replace

from classifier.records import Ending, Timing
from proxy.store import calls
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.store.records import BARE, FULL


def test_an_outline_is_in_order_and_knows_what_is_in_flight(database: Database) -> None:
    ended = [
        replace(FULL, id="b", timing=Timing(started_at=2.0, duration_s=1.0)),
        replace(BARE, id="a", ending=Ending.COMPLETE),
        replace(BARE, id="o", rollout_id="other", ending=Ending.COMPLETE),
    ]
    flying = [replace(BARE, id="c"), replace(BARE, id="b")]  # one ended meanwhile
    database.calls.write(CommitBatch(opened=flying), worker="w")
    database.calls.write(CommitBatch(recorded=ended), worker="w")
    found = database.read(calls.outline, "r1", limit=10)
    assert [(call["id"], call["ending"]) for call in found.calls] == [
        ("a", "complete"), ("b", "complete"), ("c", None),
    ]  # fmt: skip
    assert found.total == 3
    assert {call.keys() == found.calls[0].keys() for call in found.calls} == {True}
    failed = found.calls[1]
    assert (failed["subcategory"], failed["request_digest"], failed["input_total"]) == (
        "quota", "ab", 7,
    )  # fmt: skip


def test_a_longer_rollout_is_cut_and_counted(database: Database) -> None:
    ended = [replace(BARE, id=f"x{n}", ending=Ending.COMPLETE) for n in range(5)]
    database.calls.write(CommitBatch(recorded=ended), worker="w")
    database.calls.write(CommitBatch(opened=[replace(BARE, id="x9")]), worker="w")
    found = database.read(calls.outline, "r1", limit=3)
    assert ([call["id"] for call in found.calls], found.total) == (["x0", "x1", "x2"], 6)
    nothing = database.read(calls.outline, "nobody", limit=3)
    assert (nothing.calls, nothing.total) == ([], 0)


def test_what_the_sums_of_a_rollout_that_was_not_judged_know_is_unknown(
    database: Database,
) -> None:
    assert database.read(calls.known_calls, "nobody") == {
        "calls": None, "tokens_known_calls": None, "cost_known_calls": None,
    }  # fmt: skip
