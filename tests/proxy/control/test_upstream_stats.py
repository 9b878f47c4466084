"""Figures of upstreams, computed from counts over time and a sample of calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from proxy.control.upstreams import (
    UpstreamStats,
    Window,
    failing_since,
    quantile,
    refined,
    upstream_stats,
)

WINDOW = Window(start=0.0, end=300.0, step_s=60, fine_from=300.0)


def row(at: float, calls: int = 1, cause: str | None = None, **facts: Any) -> dict[str, Any]:
    return {
        "at": at, "upstream": "openai", "model": "gpt-5", "subcategory": cause, "calls": calls,
        "last_at": at + 1, **facts,
    }  # fmt: skip


def call(at: float = 0.0, **facts: Any) -> dict[str, Any]:
    return {
        "upstream": "openai", "model": "gpt-5", "subcategory": None, "duration_s": 1.0,
        "first_byte_s": 0.5, "started_at": at, "key_digest": "k1", **facts,
    }  # fmt: skip


def stats(
    rows: Sequence[dict[str, Any]], sampled: Sequence[dict[str, Any]] = (), **how: Any
) -> list[UpstreamStats]:
    return upstream_stats(WINDOW, rows, sampled, **{"recent": [], "origins": {}, **how})


def test_a_quantile_is_of_the_weight_not_of_the_values() -> None:
    def even(values: Iterable[float]) -> list[tuple[float, float]]:
        return [(value, 1.0) for value in values]

    assert quantile(even([3.0, 1.0, 2.0]), 0.5) == 2.0
    assert quantile(even([5.0]), 0.95) == 5.0
    assert quantile([], 0.5) is None
    assert quantile([(1.0, 9.0), (7.0, 1.0)], 0.5) == 1.0
    assert quantile([(1.0, 1.0), (7.0, 9.0)], 0.5) == 7.0


def test_the_agents_own_bad_requests_say_nothing_about_the_provider() -> None:
    rows = [
        row(0, 2), row(0, 1, "rate_limit"), row(60, 1, "provider_error"),
        row(60, 1, "rejected_request"),
    ]  # fmt: skip
    (found,) = stats(rows)
    assert (found.stats.calls, found.stats.refused, found.stats.error_rate) == (5, 1, 0.5)
    assert found.stats.failed == {"rate_limit": 1, "provider_error": 1, "rejected_request": 1}
    assert found.stats.last_at == 61


def test_rates_and_latencies_of_nothing_are_unknown() -> None:
    (found,) = stats([row(0, 3, "rejected_request")])
    assert (found.stats.error_rate, found.stats.failing_since) == (None, None)
    assert found.stats.latencies.first_byte_p50_s is None
    assert found.stats.latencies.duration_p95_s is None


def test_latencies_are_of_answered_calls_and_weigh_what_they_stand_for() -> None:
    sampled = [
        call(5.0, duration_s=2.0, first_byte_s=0.2),
        call(65.0, duration_s=9.0, first_byte_s=None),
        call(66.0, duration_s=90.0, subcategory="provider_error"),
    ]
    (found,) = stats([row(0, 1), row(60, 99)], sampled)
    taken = found.stats.latencies
    assert (taken.calls, taken.duration_p50_s, taken.first_byte_p95_s) == (2, 9.0, 0.2)


def test_upstreams_and_models_come_with_the_busiest_first() -> None:
    rows = [
        row(0, upstream="anthropic"), row(0, upstream="gone"), row(0, 2),
        row(60, 3, model=None), row(60, 1, "auth", model="gpt-5-mini"),
    ]  # fmt: skip
    found = stats(rows, origins={"openai": "https://x", "anthropic": "https://y"})
    assert [(each.name, each.origin) for each in found] == [
        ("openai", "https://x"), ("anthropic", "https://y"), ("gone", ""),
    ]  # fmt: skip
    assert [(model, each.calls, each.error_rate) for model, each in found[0].models] == [
        (None, 3, 0.0), ("gpt-5", 2, 0.0), ("gpt-5-mini", 1, 1.0),
    ]  # fmt: skip


def test_each_step_has_a_point_also_without_calls() -> None:
    (found,) = stats([row(60, 4), row(60, 2, "auth")], [call(70.0, first_byte_s=0.3)])
    assert [point.at for point in found.points] == [0, 60, 120, 180, 240]
    assert [(point.calls, point.failed) for point in found.points[:2]] == [
        (0, {}),
        (6, {"auth": 2}),
    ]
    assert found.points[1].first_byte_p50_s == 0.3
    assert found.points[0].first_byte_p95_s is None


def test_keys_are_counted_with_their_failures() -> None:
    calls = [
        call(), call(key_digest="k2"), call(key_digest="k2", subcategory="auth"),
        call(key_digest=None), call(key_digest="k2", subcategory="rejected_request"),
    ]  # fmt: skip
    (found,) = stats([row(0, 5)], calls)
    assert [each[:3] for each in found.keys] == [("k2", 3, 1), ("k1", 1, 0), ("-", 1, 0)]
    assert {each.failing_since for each in found.keys} == {None}


def test_a_key_is_dead_from_the_first_of_the_failures_it_ended_on() -> None:
    def failed(at: float, cause: str | None) -> dict[str, Any]:
        return call(key_digest="k2", subcategory=cause, started_at=at)

    calls = [
        failed(5, "quota"), failed(1, "auth"), failed(2, None), failed(3, "auth"),
        failed(6, "rejected_request"), failed(4, "auth"),
    ]  # fmt: skip
    (found,) = stats([row(0, 6)], calls)
    assert [each[3:] for each in found.keys] == [(3, "quota")]
    (answered,) = stats([row(0, 7)], [*calls, failed(7, None)])
    assert [each[3:] for each in answered.keys] == [(None, None)]
    keyless = [{**each, "key_digest": None} for each in calls]
    (found,) = stats([row(0, 6)], keyless)
    assert [each[3:] for each in found.keys] == [(None, None)]


@pytest.mark.parametrize(
    ("rows", "since"),
    [
        ([row(0, 9), row(60, 3, "auth"), row(120, 1, "auth")], 60),
        ([row(0, 9), row(60, 2, "auth")], None),  # too few
        ([row(0, 9, "auth"), row(60, 9)], None),  # it is over
        ([row(0, 9, "auth"), row(60, 9), row(60, 8, "quota")], None),  # most are answered
        ([row(0, 9, "quota"), row(180, 1), row(180, 1, "quota")], 0),  # nothing in between
        ([row(0, 9), row(60, 9, "rejected_request")], None),  # the agents' own
        ([row(0, 3, "auth"), row(60, 9, "rejected_request")], 0),
        ([], None),
    ],
)
def test_it_fails_since_most_calls_do(rows: list[dict[str, Any]], since: float | None) -> None:
    assert failing_since(rows) == since


def test_the_minute_of_a_failure_is_taken_from_the_finer_counts() -> None:
    window = Window(start=0.0, end=7200.0, step_s=1800, fine_from=3600.0)
    rows = [row(0, 90), row(3600, 90), row(3600, 80, "auth")]
    fine = [row(3600, 90), row(4020, 80, "auth")]
    (found,) = upstream_stats(window, rows, (), recent=fine, origins={})
    assert found.stats.failing_since == 4020
    assert found.models[0][1].failing_since == 4020
    earlier = [row(0, 40), row(0, 50, "auth"), row(1800, 9, "auth"), row(3600, 9, "auth")]
    (found,) = upstream_stats(window, earlier, (), recent=[row(3600, 9, "auth")], origins={})
    assert found.stats.failing_since == 0
    found = refined(found, [row(0, 40), row(840, 50, "auth"), row(1800, 9, "auth")])
    assert found.stats.failing_since == found.models[0][1].failing_since == 840
    assert refined(found, [row(0, 40)]).stats.failing_since == 840, "nothing finer is known"
