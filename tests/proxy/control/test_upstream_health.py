"""Health of upstreams, computed from their recent calls."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.control.upstream_health import quantile, upstream_healths
from proxy.routing.upstreams import BUILT_IN


def call(upstream: str = "openai", **facts: Any) -> dict[str, Any]:
    return {
        "upstream": upstream, "subcategory": None, "duration_s": 1.0, "first_byte_s": 0.5,
        "started_at": 100.0, "key_digest": "k1", **facts,
    }  # fmt: skip


def test_a_quantile_leaves_the_unknown_out() -> None:
    assert quantile([3.0, None, 1.0, 2.0], 0.5) == 2.0
    assert quantile([5.0], 0.95) == 5.0
    assert quantile([None], 0.5) is None


def test_the_agents_own_bad_requests_say_nothing_about_the_provider() -> None:
    calls = [
        call(), call(), call(subcategory="rate_limit"), call(subcategory="provider_error"),
        call(subcategory="rejected_request"),
    ]  # fmt: skip
    (health,) = upstream_healths(calls, {})
    assert (health.calls, health.refused) == (5, 1)
    assert (health.success_share, health.rate_limit_share) == (0.5, 0.25)


def test_shares_and_latencies_of_nothing_are_unknown() -> None:
    (health,) = upstream_healths([call(subcategory="rejected_request")], {})
    assert (health.success_share, health.rate_limit_share) == (None, None)
    assert (health.latency_p50_s, health.first_byte_p50_s) == (None, None)


def test_latencies_are_of_calls_that_succeeded() -> None:
    calls = [call(duration_s=2.0), call(duration_s=90.0, subcategory="provider_error")]
    (health,) = upstream_healths(calls, {})
    assert (health.latency_p50_s, health.latency_p95_s) == pytest.approx((2.0, 2.0))


def test_the_busiest_upstream_comes_first_and_each_has_its_origin() -> None:
    calls = [call("anthropic"), call("gone"), call("openai"), call("openai")]
    found = upstream_healths(calls, BUILT_IN)
    assert [health.name for health in found] == ["openai", "anthropic", "gone"]
    assert [bool(health.origin) for health in found] == [True, True, False]


def test_keys_are_counted_with_their_failures() -> None:
    calls = [
        call(), call(key_digest="k2"), call(key_digest="k2", subcategory="auth"),
        call(key_digest=None), call(key_digest="k2", subcategory="rejected_request"),
    ]  # fmt: skip
    (health,) = upstream_healths(calls, {})
    assert health.keys == [("k2", 3, 1), ("k1", 1, 0), ("-", 1, 0)]
