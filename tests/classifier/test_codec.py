"""What is written is read back equal; what cannot be read is named."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import (
    Cause,
    Exchange,
    ExecutionStatus,
    Outcome,
    OutcomeError,
    RolloutRecord,
    Timing,
    Usage,
    UsageSource,
)
from classifier.codec import (
    CodecError,
    decode_exchange,
    decode_neighbours,
    decode_outcome,
    decode_rollout,
    encode_exchange,
    encode_outcome,
    encode_rollout,
)
from classifier.records import Neighbours
from tests.builders import calls, exchange, outcome, rollout
from tests.drawn import drawn
from tests.tables import each


def names(noun: Any) -> list[str]:
    return [field.name for field in fields(noun)]


EXCHANGES = drawn(Exchange)


@given(EXCHANGES)
def test_an_exchange_reads_back_equal(written: Exchange) -> None:
    flat = encode_exchange(written)
    assert decode_exchange(json.loads(json.dumps(flat))) == written
    assert decode_exchange(flat | {"colour": "blue", "message": None}) == written


def test_every_field_of_an_exchange_is_drawn_above() -> None:
    written = encode_exchange(exchange())
    parts = {name for noun in (Exchange, Usage, Timing, Cause) for name in names(noun)}
    renamed = {"attribution": "attribution_source", "source": "usage_source", "code": "error_code",
               "unreadable_reason": "deaf"}  # fmt: skip
    # traceparent belongs to a span, which is made as the call ends; nothing judges by it
    apart = {"usage", "timing", "cause", "traceparent"}
    keys = {renamed.get(name, name) for name in parts - apart}
    assert set(written) == keys


def test_an_exchange_is_flat() -> None:
    flat = encode_exchange(calls("429+quota~5")[0])
    assert {type(value) for value in flat.values()} <= {str, int, float, bool, type(None)}
    assert (flat["subcategory"], flat["retry_after_s"]) == ("quota", 5.0)


@each(
    "key, value",
    [
        ("status", "429"),
        ("status", True),
        ("ending", "melted"),
        ("model", 5),
        ("started_at", "now"),
        ("injected", "no"),
        ("usage_source", "guess"),
        ("subcategory", "weather"),
        ("input_tokens", 1.5),
        ("id", None),
        ("started_at", None),
    ],
)
def test_a_key_that_cannot_be_read_is_named(key: str, value: object) -> None:
    with pytest.raises(CodecError, match=key) as caught:
        decode_exchange(encode_exchange(exchange()) | {key: value})
    assert caught.value.field == key


def test_what_no_call_can_have_is_unknown_where_an_earlier_version_kept_it() -> None:
    claimed = Usage(
        input_tokens=2**53 - 1, output_tokens=10**9, cached_input_tokens=10**9 + 1,
        input_total=2**54, output_total=3 * 10**9, cost_usd=1e9, source=UsageSource.PROVIDER,
    )  # fmt: skip
    read = decode_exchange(encode_exchange(exchange(usage=claimed))).usage
    assert read == Usage(output_tokens=10**9, output_total=3 * 10**9, source=UsageSource.PROVIDER)


OUTCOMES = drawn(Outcome, status=st.just(ExecutionStatus.SUCCESS))


@given(OUTCOMES)
def test_an_outcome_reads_back_equal(written: Outcome) -> None:
    assert decode_outcome(json.loads(json.dumps(encode_outcome(written)))) == written


@each(
    "said, error, field",
    [
        ({}, CodecError, "status"),
        ({"status": "fine"}, CodecError, "status"),
        ({"status": "success", "termination_reason": "bored"}, CodecError, "termination_reason"),
        (
            {"status": "task_timeout", "termination_reason": "agent_stop"},
            OutcomeError,
            "termination_reason",
        ),
        ({"status": "success", "rewards": {"reward": "high"}}, CodecError, "rewards.reward"),
        ({"status": "success", "rewards": [1]}, CodecError, "rewards"),
        ({"status": "success", "tool_calls": -1}, OutcomeError, "tool_calls"),
        ({"status": "success", "prompts_executed": "1"}, CodecError, "prompts_executed"),
    ],
)
def test_an_outcome_that_contradicts_itself_is_named(
    said: dict[str, object], error: type[CodecError] | type[OutcomeError], field: str
) -> None:
    with pytest.raises(error) as caught:
        decode_outcome(said)
    assert isinstance(caught.value, CodecError | OutcomeError)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


ROLLOUTS = drawn(RolloutRecord, exchanges=st.just(()), outcome=st.none())


@given(ROLLOUTS)
def test_a_rollout_reads_back_equal(written: RolloutRecord) -> None:
    assert decode_rollout(json.loads(json.dumps(encode_rollout(written)))) == written


def test_a_rollout_reads_back_without_its_exchanges_and_outcome() -> None:
    full = rollout("200", outcome=outcome())
    assert decode_rollout(encode_rollout(full)) == RolloutRecord(id="r1", batch="b1", task="task-7")


@each(
    "near, field",
    [
        ([], "neighbours"),
        ({"x1": 5}, "neighbours.x1"),
        ({"x1": {"alike": "two"}}, "neighbours.x1.alike"),
        ({"x1": {"respelled": 1}}, "neighbours.x1.respelled"),
    ],
)
def test_a_neighbour_that_cannot_be_read_is_named(near: object, field: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode_rollout({"id": "r1", "neighbours": near})
    assert caught.value.field == field


def test_a_neighbour_of_an_earlier_version_lacks_what_it_did_not_look_for() -> None:
    stored = {"alike": 2, "answered": 1, "answered_between": True, "listing_failed": False}
    assert decode_neighbours({"x1": stored}) == {
        "x1": Neighbours(alike=2, answered=1, answered_between=True)
    }
