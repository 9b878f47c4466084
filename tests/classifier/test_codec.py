"""What is written is read back equal; what cannot be read is named."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import (
    Attribution,
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    Kind,
    Outcome,
    OutcomeError,
    RolloutRecord,
    Subcategory,
    TerminationReason,
    Timing,
    Usage,
    UsageSource,
)
from classifier.codec import (
    CodecError,
    decode_exchange,
    decode_outcome,
    decode_rollout,
    encode_exchange,
    encode_outcome,
    encode_rollout,
)
from classifier.records import COUNT_LIMIT, KeySource, Neighbours
from tests.builders import calls, exchange, outcome, rollout

CONTRACT_EXCHANGE = [
    "id",
    "status",
    "ending",
    "upstream",
    "api",
    "model",
    "role",
    "streamed",
    "started_at",
    "first_byte_s",
    "first_token_s",
    "duration_s",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "total_tokens",
    "usage_source",
    "finish_reason",
    "tool_calls",
    "subcategory",
    "transient",
    "rule",
    "error_code",
    "retry_after_s",
    "request_bytes",
    "response_bytes",
    "attribution_source",
    "injected",
    "input_total",
    "output_total",
]


def names(noun: Any) -> list[str]:
    return [field.name for field in fields(noun)]


MAYBE_COUNT = st.none() | st.integers(0, 10**12)
MAYBE_TEXT = st.none() | st.text(max_size=12)
MAYBE_FLAG = st.none() | st.booleans()
SECONDS = st.floats(0, 1e6)
USAGES = st.builds(
    Usage,
    **{
        f: st.none() | st.integers(0, COUNT_LIMIT)
        for f in names(Usage)
        if f not in {"source", "cost_usd"}
    },
    cost_usd=st.none() | SECONDS,
    source=st.sampled_from(UsageSource),
)  # fmt: skip
CAUSES = st.builds(
    Cause,
    subcategory=st.sampled_from(Subcategory),
    transient=st.booleans(),
    rule=st.text(min_size=1, max_size=12),
    reason=MAYBE_TEXT,
    code=MAYBE_TEXT,
    retry_after_s=st.none() | SECONDS,
)
EXCHANGES = st.builds(
    Exchange,
    id=st.text(),
    rollout_id=st.text(),
    upstream=st.text(),
    api=st.text(),
    timing=st.builds(
        Timing,
        started_at=st.floats(0, 4e9),
        first_byte_s=st.none() | SECONDS,
        first_token_s=st.none() | SECONDS,
        duration_s=st.none() | SECONDS,
    ),
    kind=st.sampled_from(Kind),
    method=st.text(),
    role=st.text(),
    model=MAYBE_TEXT,
    answered_model=MAYBE_TEXT,
    status=st.none() | st.integers(100, 599),
    ending=st.none() | st.sampled_from(Ending),
    streamed=MAYBE_FLAG,
    usage=USAGES,
    finish_reason=MAYBE_TEXT,
    tool_calls=MAYBE_COUNT,
    output_seen=MAYBE_FLAG,
    content_seen=MAYBE_FLAG,
    has_tools=MAYBE_FLAG,
    cause=st.none() | CAUSES,
    provider_request_id=MAYBE_TEXT,
    request_bytes=st.integers(0, 10**9),
    response_bytes=st.integers(0, 10**9),
    request_digest=MAYBE_TEXT,
    sdk_retry=MAYBE_COUNT,
    response_digest=MAYBE_TEXT,
    pending=MAYBE_FLAG,
    attribution=st.sampled_from(Attribution),
    key_digest=MAYBE_TEXT,
    injected=st.booleans(),
    deaf=MAYBE_TEXT,
    selector_digest=MAYBE_TEXT,
    key_source=st.none() | st.sampled_from(KeySource),
    model_ambiguous=MAYBE_FLAG,
    held=MAYBE_FLAG,
)


@given(EXCHANGES)
def test_an_exchange_reads_back_equal(written: Exchange) -> None:
    flat = encode_exchange(written)
    assert decode_exchange(json.loads(json.dumps(flat))) == written
    assert decode_exchange(flat | {"colour": "blue", "message": None}) == written


def test_every_field_of_an_exchange_is_drawn_above() -> None:
    written = encode_exchange(exchange())
    parts = {name for noun in (Exchange, Usage, Timing, Cause) for name in names(noun)}
    renamed = {"attribution": "attribution_source", "source": "usage_source", "code": "error_code"}
    # traceparent belongs to a span, which is made as the call ends; nothing judges by it
    apart = {"usage", "timing", "cause", "traceparent"}
    told = {renamed.get(name, name) for name in parts - apart}
    assert set(written) == told


def test_an_exchange_has_the_contracts_names() -> None:
    assert set(CONTRACT_EXCHANGE) <= set(encode_exchange(exchange()))


def test_an_exchange_is_flat() -> None:
    flat = encode_exchange(calls("429+quota~5")[0])
    assert {type(value) for value in flat.values()} <= {str, int, float, bool, type(None)}
    assert (flat["subcategory"], flat["retry_after_s"]) == ("quota", 5.0)


@pytest.mark.parametrize(
    ("key", "value"),
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


OUTCOMES = st.builds(
    Outcome,
    status=st.just(ExecutionStatus.SUCCESS),
    termination_reason=st.none() | st.sampled_from(TerminationReason),
    prompts_executed=MAYBE_COUNT,
    tool_calls=MAYBE_COUNT,
    total_tokens=MAYBE_COUNT,
    rewards=st.none() | st.dictionaries(st.text(max_size=5), st.floats(0, 1), max_size=3),
    eval=st.none() | st.dictionaries(st.text(max_size=5), st.booleans(), max_size=3),
    error=MAYBE_TEXT,
    verifier_error=MAYBE_TEXT,
    export_error=MAYBE_TEXT,
)


@given(OUTCOMES)
def test_an_outcome_reads_back_equal(written: Outcome) -> None:
    assert decode_outcome(json.loads(json.dumps(encode_outcome(written)))) == written


@pytest.mark.parametrize(
    ("said", "error", "field"),
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


def test_a_rollout_reads_back_without_its_exchanges_and_outcome() -> None:
    written = RolloutRecord(
        id="r1", batch="b", task="t", repeat=4, attempt=0, model="m", upstream="u", gaps=2,
        fallbacks=("n", "o"), agents="untrusted", content_filter="answer", unattributed_calls=3,
        neighbours={"x1": Neighbours(alike=2, answered=1, answered_between=True, starts=7)},
    )  # fmt: skip
    assert decode_rollout(encode_rollout(written)) == written
    full = rollout("200", outcome=outcome())
    assert decode_rollout(encode_rollout(full)) == RolloutRecord(id="r1", batch="b1", task="task-7")
