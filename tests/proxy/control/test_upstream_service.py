"""Upstreams over a window: every call is counted, however many; latencies are of a sample."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from classifier.records import Ending, Exchange, Timing
from proxy.control import upstreams
from proxy.control.queries import Service as ControlService
from proxy.control.upstreams import upstream_report
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.api.test_routes import Service
from tests.proxy.store.records import FULL

NOW = 1_800_000_000.0  # a whole number of hours
ANSWERED = replace(FULL, status=200, cause=None, answered_model=None, ending=Ending.COMPLETE)


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.fixture
def at_noon(control: ControlService) -> ControlService:
    """The control plane at a whole hour."""
    return replace(control, now=lambda: NOW)


def write(service: Service, *calls: Exchange) -> None:
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=calls), worker="gone")


def call(n: int, ago_s: float, like: Exchange = ANSWERED, **facts: object) -> Exchange:
    timing = Timing(started_at=NOW - ago_s, first_byte_s=0.25, duration_s=1.0)
    return replace(like, id=f"x{n:05d}", timing=timing, **facts)  # type: ignore[arg-type]


async def test_all_calls_are_counted_and_few_statements_ask_for_them(
    service: Service, at_noon: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstreams, "SAMPLED", 400)
    write(service, *(call(n, ago_s=n * 8.0) for n in range(1000)))
    asked: list[int] = []

    def counted(*executed: object) -> None:
        asked.append(1)

    event.listen(Engine, "after_cursor_execute", counted)
    try:
        report = await upstream_report(at_noon, NOW - 86_400)
    finally:
        event.remove(Engine, "after_cursor_execute", counted)
    (item,) = report.items
    assert (report.calls, item.stats.calls) == (1000, 1000)
    assert 0 < report.sampled <= 400
    assert item.stats.latencies.first_byte_p50_s == 0.25
    assert sum(point.calls for point in item.points) == 1000
    assert len(item.points) <= 50
    assert len(asked) < 60, "statements"


async def test_few_calls_are_all_looked_at(service: Service, at_noon: ControlService) -> None:
    write(service, *(call(n, ago_s=n) for n in range(1, 60)))
    report = await upstream_report(at_noon)
    assert (report.calls, report.sampled) == (59, 59)


async def test_a_failure_is_dated_to_the_minute_however_long_the_window(
    service: Service, at_noon: ControlService
) -> None:
    began_s = 5 * 3600 + 17 * 60  # ago
    answered = [call(n, ago_s=began_s + 60 * n) for n in range(1, 50)]
    failed = [call(n, ago_s=began_s - 300 * n, like=FULL) for n in range(64)]
    write(service, *answered, *(replace(each, id="f" + each.id) for each in failed))
    for window_s in (6 * 3600, 24 * 3600, 7 * 86_400):
        (item,) = (await upstream_report(at_noon, NOW - window_s)).items
        assert item.stats.failing_since == NOW - began_s, window_s
        assert item.stats.failed == {"quota": 64}


async def test_a_range_holds_what_began_within_it(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *(call(n, ago_s=60.0 * n) for n in range(1, 121)))
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
