"""The records that are classified."""

from __future__ import annotations

from dataclasses import fields, replace

from classifier.records import Cause, Usage
from classifier.verdicts import Subcategory
from tests.builders import exchange, rollout


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
