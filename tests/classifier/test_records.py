"""The records that are classified."""

from __future__ import annotations

from dataclasses import fields, replace

from classifier.records import Cause, LimitReached, Usage
from classifier.verdicts import Subcategory
from tests.builders import exchange, rollout
from tests.tables import each


def test_a_call_failed_where_it_has_a_cause() -> None:
    cause = Cause(subcategory=Subcategory.AUTH, transient=False, rule="status.401")
    assert replace(exchange(200), cause=cause).failed
    assert not exchange(200).failed


def test_a_rollouts_models_are_its_main_one_and_its_fallbacks() -> None:
    assert rollout(model="a", fallbacks=("b", "c")).models == ("a", "b", "c")
    assert rollout(model="a").models == ("a",)
    assert rollout().models == ()


def test_unknown_usage_is_none_and_never_zero() -> None:
    usage = Usage()
    assert {getattr(usage, each.name) for each in fields(usage) if each.name != "source"} == {None}
    assert usage.source == "absent"


def test_equal_records_are_equal_and_hash_alike() -> None:
    assert Usage(input_tokens=1) == Usage(input_tokens=1) != Usage(input_tokens=2)
    assert hash(Usage(input_tokens=1)) == hash(Usage(input_tokens=1))


@each("limit, most, amount", [
    ("calls", 1.0, "1 call"), ("tokens", 1_234_567.0, "1,234,567 tokens"),
    ("seconds", 2.5, "2.5 seconds"), ("cost_usd", 0.25, "0.25 US dollars"),
    ("cost_usd", 12_345.67, "12,345.67 US dollars"),
])  # fmt: skip
def test_a_limit_says_its_whole_amount(limit: str, most: float, amount: str) -> None:
    reached = LimitReached(
        scope="batch", limit=limit, most=most, spent=most, own=most, callers=1, at=0.0
    )
    assert str(reached) == f"the batch's limit of {amount} was spent"
