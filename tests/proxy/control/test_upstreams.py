from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Cause, Ending, Exchange, Timing
from classifier.verdicts import Subcategory
from proxy.control.queries import Service as ControlService
from proxy.control.upstreams import (
    Down,
    UpstreamStats,
    Window,
    WindowReport,
    build_timeline,
    lane_points,
    quiet_lanes,
    upstream_report,
    upstream_stats,
)
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.lane_minutes import LaneStep, Took, quantile
from proxy.store.tables import CommitBatch
from tests.proxy.api.test_routes import Service
from tests.proxy.store.records import FULL
from tests.statements import statements

# --- Figures of upstreams, computed from counts over time -----------------------------------------

WINDOW = Window(start=0.0, end=300.0, step_s=60)


def row(at: float, calls: int = 1, cause: str | None = None, **facts: Any) -> dict[str, Any]:
    return {
        "at": at, "upstream": "openai", "model": "gpt-5", "subcategory": cause, "calls": calls,
        "last_at": at + 1, **facts,
    }  # fmt: skip


def took(minute: int, whole_s: dict[float, int], first_s: dict[float, int] | None = None) -> Took:
    return Took(minute, "openai", "gpt-5", first_s or {}, whole_s)


def stats(rows: Sequence[dict[str, Any]], **how: Any) -> list[UpstreamStats]:
    return upstream_stats(WINDOW, rows, **{"origins": {}, **how})


def test_a_quantile_is_of_counted_values() -> None:
    assert quantile({1.0: 1, 2.0: 1, 3.0: 1}, 0.5) == 2.0
    assert quantile({5.0: 1}, 0.95) == 5.0
    assert quantile({}, 0.5) is None
    assert quantile({1.0: 9, 7.0: 1}, 0.5) == 1.0
    assert quantile({1.0: 1, 7.0: 9}, 0.5) == 7.0


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
    assert (found.stats.error_rate, found.stats.down) == (None, None)
    assert found.stats.latencies.first_byte_p50_s is None
    assert found.stats.latencies.duration_p95_s is None


def test_latencies_are_of_the_calls_whose_seconds_are_known() -> None:
    taken = [took(0, {2.0: 1}, {0.2: 1}), took(1, {9.0: 99})]
    (found,) = stats([row(0, 1), row(60, 99)], taken=taken)
    latencies = found.stats.latencies
    assert (latencies.calls, latencies.duration_p50_s, latencies.first_byte_p95_s) == (
        100,
        9.0,
        0.2,
    )


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
    (found,) = stats([row(60, 4), row(60, 2, "auth")], taken=[took(1, {1.0: 1}, {0.3: 1})])
    assert [point.at for point in found.points] == [0, 60, 120, 180, 240]
    assert [(point.calls, point.failed) for point in found.points[:2]] == [
        (0, {}),
        (6, {"auth": 2}),
    ]
    assert found.points[1].first_byte_p50_s == 0.3
    assert found.points[0].first_byte_p95_s is None


def test_keys_are_counted_with_their_failures() -> None:
    keys = [
        LaneStep(0, "openai", "m", "k1", 1, {"rejected_request": 1}),
        LaneStep(1, "openai", "m", None, 1, {}),
        LaneStep(0, "openai", "m", "k2", 2, {"auth": 1}), LaneStep(1, "openai", "m", "k2", 1, {}),
    ]  # fmt: skip
    (found,) = stats([row(0, 5)], keys=keys)
    assert [each[:3] for each in found.keys] == [("k2", 3, 1), ("k1", 1, 0), ("-", 1, 0)]
    assert {each.down for each in found.keys} == {None}
    points = lane_points(WINDOW, keys[2:])
    assert [(point.calls, point.failed) for point in points[:3]] == [
        (2, {"auth": 1}), (1, {}), (0, {}),
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Upstreams over a window: every call is counted, however many

NOW = 1_800_000_000.0  # a whole number of hours
ANSWERED = replace(
    FULL, status=200, cause=None, answered_model=None, ending=Ending.COMPLETE, injected=False,
    held=None,
)  # fmt: skip
DOWN = replace(
    ANSWERED, status=503,
    cause=Cause(subcategory=Subcategory.PROVIDER_ERROR, transient=True, rule="status.503"),
)  # fmt: skip


@pytest.fixture
def at_noon(control: ControlService) -> ControlService:
    """The control plane at a whole hour."""
    return replace(control, now=lambda: NOW)


def write(service: Service, *calls: Exchange) -> None:
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=calls), worker="gone")


def recorded_call(n: int, ago_s: float, like: Exchange = ANSWERED, **facts: object) -> Exchange:
    timing = Timing(started_at=NOW - ago_s, first_byte_s=0.25, duration_s=1.0)
    return replace(like, id=f"x{n:05d}", timing=timing, **facts)  # type: ignore[arg-type]


async def counted_report(control: ControlService) -> tuple[WindowReport, int]:
    """The report of a day, and how many statements read calls for it."""
    control.statuses.clear()
    with statements(control.database) as asked:
        report = await upstream_report(control, NOW - 86_400)
    read = ("call_usage.", "FROM lane_minutes")  # not those of the service's own rounds
    return report, sum(any(each in said for each in read) for said, _ in asked)


async def test_all_keys_and_models_are_counted_without_another_statement(
    service: Service, at_noon: ControlService
) -> None:
    write(service, recorded_call(0, ago_s=9.0, model="m0", key_digest="key-0"))
    _, of_one = await counted_report(at_noon)
    many = 12
    named = [(n, 100 * n + call) for n in range(1, many) for call in range(many - n)]
    write(service, *(
        recorded_call(name, ago_s=name, model=f"m{n}", key_digest=f"key-{n}") for n, name in named
    ))  # fmt: skip
    report, of_many = await counted_report(at_noon)
    assert of_many == of_one == 4, "statements: counts, lanes' steps, seconds, and the lanes"
    counts = {(lane.place.model, lane.place.key): lane.calls for lane in report.lanes()}
    assert counts == {("m0", "key-0"): 1} | {
        (f"m{n}", f"key-{n}"): many - n for n in range(1, many)
    }
    for lane in report.lanes():
        points = lane_points(report.window, lane.steps)
        assert sum(point.calls for point in points) == lane.calls == lane.latencies.calls


async def test_all_calls_are_counted(service: Service, at_noon: ControlService) -> None:
    write(service, *(recorded_call(n, ago_s=n * 8.0) for n in range(1000)))
    report, _ = await counted_report(at_noon)
    (item,) = report.items
    assert (report.calls, item.stats.calls, report.asked) == (1000, 1000, 1000)
    assert [key.calls for key in item.keys] == [1000]
    assert item.stats.latencies.calls == 1000
    assert item.stats.latencies.first_byte_p50_s == 0.25
    assert sum(point.calls for point in item.points) == 1000
    assert len(item.points) <= 50


async def test_an_upstream_fails_since_its_first_failed_call_after_the_last_answered_one(
    service: Service, at_noon: ControlService
) -> None:
    """Nor does the window that is looked at change it."""
    answered = [recorded_call(n, ago_s=900.25 + 10 * n) for n in range(1, 50)]
    failed = [
        recorded_call(n, 890.75 - 10 * n, DOWN, rollout_id=f"r{n % 4}", key_source=None)
        for n in range(64)
    ]
    write(service, *answered, *(replace(each, id="f" + each.id) for each in failed))
    for window_s in (1200, 6 * 3600, 7 * 86_400):
        (item,) = (await upstream_report(at_noon, NOW - window_s)).items
        down = Down(NOW - 890.75, NOW - 910.25)
        assert item.stats.down == item.models[0][1].down == down, window_s
        (key,) = item.keys
        assert (key.down, key.cause) == (down, "provider_error")
    days_later = replace(at_noon, now=lambda: NOW + 2 * 86_400)
    report = await upstream_report(days_later)
    (lane,) = await quiet_lanes(days_later, report, report.lanes())
    assert lane.now is not None
    assert (lane.now.health.since, lane.now.health.answered_at) == down
    assert lane.now.last_at == NOW - 260.75
    assert lane.now.failed == {"provider_error": 28}, "in the last five minutes of its calls"


async def test_a_range_holds_what_began_within_it(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *(recorded_call(n, ago_s=60.0 * n) for n in range(1, 121)))
    report = await upstream_report(at_noon, NOW - 5400, until=NOW - 1800)
    assert (report.window.start, report.window.end) == (NOW - 5400, NOW - 1800)
    assert report.calls == 60
    assert (await upstream_report(at_noon, NOW - 5400, until=NOW + 99)).calls == 90, "until now"
    with pytest.raises(Refusal, match="until: not after since"):
        await upstream_report(at_noon, NOW - 60, until=NOW - 60)


async def test_a_window_is_within_the_last_month(at_noon: ControlService) -> None:
    for since in (NOW + 1, NOW, NOW - 32 * 86_400):
        with pytest.raises(Refusal, match="since: not within"):
            await upstream_report(at_noon, since)
    assert (await upstream_report(at_noon, NOW - 30 * 86_400)).items == []


# --- A batch's calls over time, in steps of a round length ----------------------------------------


def timeline_row(step: int, calls: int, subcategory: str | None = None) -> dict[str, Any]:
    return {"step": step, "calls": calls, "subcategory": subcategory}


def test_calls_of_a_step_are_counted_together_and_failures_by_cause() -> None:
    rows = [
        timeline_row(10, 3),
        timeline_row(10, 2, "auth"),
        timeline_row(10, 1, "quota"),
        timeline_row(11, 4),
    ]
    timeline = build_timeline(rows, 1, 60)
    assert timeline.step_s == 1
    first, second = timeline.points
    assert (first.at, first.calls, first.failed) == (10, 6, {"auth": 2, "quota": 1})
    assert (second.at, second.calls, second.failed) == (11, 4, {})


def test_a_step_without_calls_is_a_point_too() -> None:
    timeline = build_timeline([timeline_row(0, 1), timeline_row(4, 1)], 1, 60)
    assert [(point.at, point.calls) for point in timeline.points] == [
        (0, 1), (1, 0), (2, 0), (3, 0), (4, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("last_s", "step_s"),
    [(59, 1), (100, 2), (600, 10), (3600, 60), (86_400, 1800), (10 * 86_400, 21_600),
     (400 * 86_400, 7 * 86_400)],
)  # fmt: skip
def test_the_length_of_a_step_is_round(last_s: int, step_s: int) -> None:
    timeline = build_timeline([timeline_row(0, 1), timeline_row(last_s, 1)], 1, 60)
    assert timeline.step_s == step_s
    assert sum(point.calls for point in timeline.points) == 2
    assert len(timeline.points) <= 61


def test_a_step_is_no_finer_than_the_rows() -> None:
    assert build_timeline([timeline_row(0, 1), timeline_row(1, 1)], 300, 60).step_s == 300
