"""Counters of calls: right numbers under few labels."""

from __future__ import annotations

from dataclasses import replace

from classifier.records import Kind, Usage
from tests.builders import calls, exchange
from tests.proxy.telemetry.test_metrics import after, value


def test_a_call_is_counted_by_upstream_kind_status_class_cause_and_ending() -> None:
    samples = after(*calls("200", "200", "429", "401%anthropic", "net", "left", "200+embed"))

    def count(**labels: str) -> float | None:
        return value(samples, "truezero_exchanges_total", **labels)

    assert count(upstream="openai", status_class="2xx", kind="inference", ending="complete") == 2
    assert count(upstream="openai", status_class="4xx", subcategory="rate_limit") == 1
    assert count(upstream="anthropic", subcategory="auth") == 1
    assert count(status_class="none", subcategory="provider_error", ending="never_connected") == 1
    assert count(status_class="none", subcategory="none", ending="left_by_agent") == 1
    assert count(kind="embedding") == 1


def test_what_a_drill_plays_is_laid_on_no_provider() -> None:
    samples = after(exchange(429, injected=True), exchange())
    assert value(samples, "truezero_exchanges_total") == 1
    assert value(samples, "truezero_exchanges_total", status_class="4xx") is None


def test_a_status_beyond_the_classes_is_other() -> None:
    assert value(after(exchange(42)), "truezero_exchanges_total", status_class="other") == 1


def test_tokens_are_counted_by_kind() -> None:
    usage = Usage(
        input_total=100, output_total=50, cached_input_tokens=60, cache_write_tokens=5,
        reasoning_tokens=30,
    )  # fmt: skip
    samples = after(exchange(usage=usage), exchange(usage=usage, at=1.0))
    kinds = {"input": 200, "output": 100, "cache_read": 120, "cache_write": 10, "reasoning": 60}
    assert kinds == {kind: value(samples, "truezero_tokens_total", kind=kind) for kind in kinds}


def test_unknown_tokens_are_told_nowhere() -> None:
    assert value(after(exchange(usage=Usage())), "truezero_tokens_total", kind="input") is None


def test_only_answered_inference_calls_are_timed() -> None:
    samples = after(
        exchange(took=3.0), exchange(429, took=0.1), exchange(kind=Kind.PROBE, took=0.1)
    )
    name = "truezero_exchange_duration_seconds"
    assert value(samples, f"{name}_count", upstream="openai") == 1
    assert value(samples, f"{name}_sum", upstream="openai") == 3.0
    assert value(samples, f"{name}_bucket", le="2.5") == 0
    assert value(samples, f"{name}_bucket", le="5.0") == 1


def test_a_time_on_a_bound_is_within_it() -> None:
    samples = after(*(exchange(took=took, at=took) for took in (5.0, 2.5, 5.1, 1000.0)))
    name = "truezero_exchange_duration_seconds_bucket"
    within = {le: value(samples, name, le=le) for le in ("1.0", "2.5", "5.0", "10.0", "+Inf")}
    assert within == {"1.0": 0, "2.5": 1, "5.0": 2, "10.0": 3, "+Inf": 4}


def test_the_first_token_is_timed_in_streams_only() -> None:
    timing = replace(exchange().timing, first_token_s=0.3)
    samples = after(exchange(timing=timing, streamed=True), exchange(timing=timing, streamed=False))
    assert value(samples, "truezero_first_token_seconds_count") == 1
    assert value(samples, "truezero_first_token_seconds_sum") == 0.3


def test_no_label_names_a_rollout_a_callers_model_a_role_or_a_key() -> None:
    text = str(
        after(
            exchange(
                rollout_id="the-rollout", model="the-model", answered_model="the-answerer",
                role="the-role", key_digest="the-key", api="the-api", id="the-id",
                finish_reason="the-reason", provider_request_id="the-request",
            )
        )
    )  # fmt: skip
    assert "the-" not in text
