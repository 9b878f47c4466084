"""Calls added up by what they have in common, and no further than one price holds."""

from __future__ import annotations

from typing import Any

from classifier.records import Cause, Ending, Exchange, Kind, Timing, Usage
from classifier.verdicts import Subcategory
from proxy.store.batches import FLAT_TOKENS, call_sums, usage_sums
from proxy.store.database import Database
from proxy.store.tables import CommitBatch, Registration

DAY = 86_400
LIMITED = Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="r")


def call(name: str, tokens: tuple[int | None, int | None] = (10, 5), **facts: Any) -> Exchange:
    timing = Timing(started_at=facts.pop("at", 0.4 * DAY), duration_s=1.5)
    usage = facts.pop("usage", Usage(input_total=tokens[0], output_total=tokens[1]))
    stated: dict[str, Any] = {
        "upstream": "openai", "model": "gpt-5", "kind": Kind.INFERENCE, "status": 200,
        "ending": Ending.COMPLETE,
    }  # fmt: skip
    return Exchange(
        id=name, rollout_id=facts.pop("rollout", "r1"), api="openai.chat",
        timing=timing, usage=usage, **stated | facts,
    )  # fmt: skip


def filled(database: Database, *calls: Exchange) -> None:
    for name, batch in (("r1", "b"), ("r2", "b"), ("r3", "other")):
        registration = Registration(id=name, batch=batch, task=f"task of {name}")
        database.rollouts.register(registration, now=1.0)
    database.calls.write(CommitBatch(recorded=calls), worker="w")


def test_calls_are_added_up_by_what_is_asked_for(database: Database) -> None:
    filled(
        database,
        call("x1"),
        call("x2", answered_model="gpt-5-2025"),
        call("x3", rollout="r2", role="judge", model="gpt-5-2025"),
        call("x4", rollout="r3"),
        call("x5", kind=Kind.OTHER),
        call("x6", ending=None),
        call("x7", pending=True),
    )
    kept = database.read(usage_sums, "b", ["role", "model"])
    assert {each.group: each.calls for each in kept} == {
        ("agent", "gpt-5"): 1, ("agent", "gpt-5-2025"): 1, ("judge", "gpt-5-2025"): 1,
    }  # fmt: skip
    assert database.read(usage_sums, "nobody", ["model"]) == []
    by_model = database.read(call_sums, "b", ["model"])
    assert {each.group: each.calls for each in by_model} == {("gpt-5",): 1, ("gpt-5-2025",): 2}
    by_two = database.read(call_sums, "b", ["task", "role"])
    assert sorted((each.group, each.calls) for each in by_two) == [
        (("task of r1", "agent"), 1), (("task of r1", "agent"), 1), (("task of r2", "judge"), 1),
    ]  # fmt: skip
    assert sum(each.calls for each in database.read(call_sums, "b", [])) == 3
    assert database.read(call_sums, "nobody", ["model"]) == []


def test_what_is_not_known_is_counted_and_never_zero(database: Database) -> None:
    nothing = (None, None)
    filled(
        database,
        call("x1", (10, 5)),
        call("x2", nothing),
        call("x3", nothing, usage=Usage(total_tokens=7)),
        call("x4", nothing, status=429, cause=LIMITED),
        call("x5", nothing, cause=LIMITED),  # an error inside of a 200: it may have used tokens
        call("x6", usage=Usage(input_total=1, output_total=1, cost_usd=0.25)),
    )
    kept = database.read(usage_sums, "b", ["upstream"])
    assert sum(each.calls for each in kept) == 6
    (unused,) = (each for each in kept if not each.used)
    assert (unused.calls, unused.failures, unused.counted, unused.tokens.total) == (1, 1, 0, None)
    (stated,) = (each for each in kept if each.stated)
    assert (stated.calls, stated.stated_usd, stated.to_price.calls) == (1, 0.25, 0)
    (priced,) = (each for each in kept if each.to_price.calls)
    assert priced.to_price == (1, 10, 0, 0, 5, 0)
    (found,) = database.read(call_sums, "b", ["upstream"])
    assert (found.calls, found.failures, found.used, found.counted) == (6, 2, 5, 3)
    assert found.tokens == (11, 6, 24)
    assert (found.stated, found.stated_usd) == (1, 0.25)
    assert found.to_price == (1, 10, None, None, 5, 0)
    assert found.seconds == 9.0


def test_what_another_price_may_hold_for_is_not_added_up(database: Database) -> None:
    filled(
        database,
        call("x1"),
        call("x2", (FLAT_TOKENS, 5)),
        call("x3", (FLAT_TOKENS + 1, 5)),
        call("x4", (FLAT_TOKENS + 1, 5)),
        call("x5", at=1.6 * DAY),
        call("x6", upstream="gateway"),
    )
    found = database.read(call_sums, "b", [])
    read = [(each.day, each.upstream, each.to_price.inputs, each.to_price.calls) for each in found]
    assert sorted(read) == [
        (0, "gateway", 10, 1), (0, "openai", FLAT_TOKENS + 1, 1),
        (0, "openai", FLAT_TOKENS + 1, 1), (0, "openai", FLAT_TOKENS + 10, 2), (1, "openai", 10, 1),
    ]  # fmt: skip
    kept = [each.to_price for each in database.read(usage_sums, "b", []) if each.day == 0]
    assert sorted((each.above, each.inputs, each.calls) for each in kept) == [
        (0, 10, 1), (0, FLAT_TOKENS + 10, 2), (FLAT_TOKENS, 2 * FLAT_TOKENS + 2, 2),
    ]  # fmt: skip


def test_sums_beyond_32_bits_are_whole_numbers(database: Database) -> None:
    large = 10**9
    filled(database, *(call(f"x{n}", (large, large)) for n in range(3)))
    totals = [each.tokens.total for each in database.read(call_sums, "b", [])]
    assert [(type(total), total) for total in totals] == [(int, 2 * large)] * 3
    (kept,) = database.read(usage_sums, "b", [])
    assert (type(kept.tokens.total), kept.tokens.total) == (int, 6 * large)


def test_what_no_call_can_have_is_unknown(database: Database) -> None:
    filled(database, call("x1", (10**9 + 1, 5)), call("x2", (-1, 5)), call("x3", (7, 5)))
    for sums in (call_sums, usage_sums):
        found = database.read(sums, "b", [])
        inputs = [each.tokens.inputs for each in found if each.tokens.inputs is not None]
        assert (inputs, sum(each.counted for each in found)) == ([7], 1), sums.__name__
