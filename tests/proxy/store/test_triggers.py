from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from classifier.records import Kind, Timing
from proxy.store import triggers
from proxy.store.database import Database
from proxy.store.tables import (
    USAGE_COUNTS,
    USAGE_SUMS,
    CommitBatch,
    Gap,
    Registration,
    call_usage,
    exchanges,
    rollouts,
    unjudged,
)
from tests.proxy.store.records import BARE, FULL, write
from tests.proxy.store.test_batch_counts import check_calls

# --------------------------------------------------------------------------------------------------
# Calls are added up by whoever writes them, each once, and never beyond what a sum can hold


def usage(database: Database, *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Add up the rows of all slots by some keys; those that cancel out are left out."""
    columns = [call_usage.c[key] for key in keys]
    sums = [func.sum(call_usage.c[name]) for name in (*USAGE_COUNTS, *USAGE_SUMS)]
    rows = database.read(lambda c: c.execute(select(*columns, *sums).group_by(*columns)).all())
    named = (*USAGE_COUNTS, *USAGE_SUMS)
    return {
        tuple(row[: len(keys)]): dict(zip(named, row[len(keys) :], strict=True))
        for row in rows
        if row[len(keys)]
    }


def test_a_call_is_counted_by_what_it_has_in_common(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    write(database, FULL, replace(BARE, timing=Timing(started_at=1020.0)))
    found = usage(database, "batch", "minute", "model", "upstream", "role", "cause", "basis")
    assert found.keys() == {
        ("b", 16, "gpt-5-x", "openai", "agent", "quota", "none"),
        ("b", 17, "", "u", "agent", "", "none"),
    }
    full, bare = (found[key] for key in sorted(found))
    assert full == {
        "calls": 1, "input_known_calls": 1, "output_known_calls": 1, "tokens_known_calls": 1,
        "input_tokens": 7, "output_tokens": 8, "total_tokens": 15, "cached_input_tokens": 3,
        "cache_write_tokens": 4, "seconds_known_calls": 1, "cost_usd": 0.25, "seconds": 1.5,
    }  # fmt: skip
    assert {name: value for name, value in bare.items() if value} == {"calls": 1}


def test_what_a_cost_stands_on_is_told_apart(database: Database) -> None:
    """As `usage` counts calls: those that used tokens, and within what one price holds for."""
    used = replace(FULL, pending=None, cause=None, billed_as=None)
    unpriced = replace(FULL.usage, cost_usd=None)
    cases = {
        "none": replace(used, kind=Kind.PROBE),
        "unused": replace(used, cause=FULL.cause),
        "stated": replace(used, cause=FULL.cause, status=200),
        "unknown": replace(used, usage=replace(unpriced, output_total=None)),
        "special": replace(used, usage=unpriced, billed_as="priority"),
        "0": replace(used, usage=replace(unpriced, input_total=32_000)),
        "32000": replace(used, usage=replace(unpriced, input_total=32_001)),
        "524288": replace(used, usage=replace(unpriced, input_total=1_000_000)),
    }
    write(database, *(replace(call, id=name) for name, call in cases.items()))
    assert {key: sums["calls"] for (key,), sums in usage(database, "basis").items()} == (
        dict.fromkeys(cases, 1)
    )


def test_a_call_that_is_written_again_counts_once_as_it_is_now(database: Database) -> None:
    write(database, FULL)
    for late in (False, True):
        write(database, FULL, late=late)
    write(database, replace(FULL, cause=None, usage=replace(FULL.usage, input_total=70)))
    ((key, sums),) = usage(database, "cause").items()
    assert (key, sums["calls"], sums["input_tokens"]) == (("",), 1, 70)


def test_calls_follow_their_rollout_into_its_batch_and_out_of_it(database: Database) -> None:
    write(database, FULL)
    assert usage(database, "batch").keys() == {("",)}
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    assert usage(database, "batch").keys() == {("b",)}
    database.change(lambda c: c.execute(rollouts.delete()))
    assert usage(database, "batch").keys() == {("",)}
    database.change(lambda c: c.execute(exchanges.delete()))
    assert usage(database, "batch") == {}


@pytest.mark.parametrize(
    "claim",
    ["input_total = 9223372036854775807", "total_tokens = -1", "cost_usd = 1e300",
     "duration_s = -1", "cost_usd = {nan}", "cost_usd = {infinity}"],
)  # fmt: skip
def test_what_no_call_can_have_is_unknown_and_takes_no_commit_down(
    database: Database, claim: str
) -> None:
    names = {"nan": "NULL", "infinity": "9e999"} if database.is_sqlite else {
        "nan": "'NaN'", "infinity": "'Infinity'",
    }  # fmt: skip
    write(database, FULL, replace(FULL, id="x9"))
    database.change(lambda c: c.execute(text(f"UPDATE exchanges SET {claim.format(**names)}")))
    write(database, replace(FULL, id="x10"))
    assert usage(database, "batch")[("",)]["calls"] == 3
    database.read(check_calls)
    assert 0 <= usage(database, "batch")[("",)]["cost_usd"] <= 0.75


def changes(database: Database) -> dict[str, int]:
    rows = database.read(lambda c: c.execute(select(unjudged)).all())
    return {row.rollout_id: row.change for row in rows}


def test_each_change_of_what_is_judged_has_a_number_of_its_own(database: Database) -> None:
    seen: list[int] = []

    def changed() -> bool:
        seen.append(changes(database)["r1"])
        return seen[-1] not in seen[:-1]

    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    assert changed()
    for batch in (
        CommitBatch(opened=[BARE]), CommitBatch(recorded=[BARE]), CommitBatch(recorded=[FULL]),
        CommitBatch(gaps={"r1": Gap(1, 1.0)}),
    ):  # fmt: skip
        database.calls.write(batch, worker="w")
        assert changed()
    database.rollouts.report("r1", "{}", now=2.0)
    assert changed()
    database.rollouts.expire("r1", at=9.0)
    assert not changed(), "a key's end is nothing that a verdict knows"
    database.change(lambda c: c.execute(update(rollouts).values(fault_calls=3)))
    database.change(lambda c: c.execute(rollouts.delete()))
    assert changes(database) == {}


def test_each_column_has_its_sum() -> None:
    assert {*triggers.SUMS} == {*USAGE_COUNTS, *USAGE_SUMS}
    assert {*triggers.KEYS, "batch", "slot"} == {
        column.name for column in call_usage.primary_key.columns
    }
