"""What an operator is told of: unpublishable batches, failing upstreams."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Ending, KeySource
from proxy.control.batches import BATCH
from proxy.control.look import Condition, Conditions
from proxy.control.queries import Service as ControlService
from proxy.control.upstreams import UPSTREAM
from proxy.control_plane import conditions
from proxy.features.breakers.control import KIND as BREAKER
from proxy.features.budgets.control import REACHED as BUDGET
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.api.test_routes import ASK, Service
from tests.proxy.control.test_batches import DEAD, play
from tests.proxy.control.test_upstreams import ANSWERED
from tests.proxy.store.records import FULL


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3", DASHBOARD_URL="https://truezero.example/base/")


def told(seen: Conditions) -> dict[str, Condition]:
    found = {each.kind: each for each in seen.found}
    assert len(found) == len(seen.found)
    return found


async def test_a_batch_is_unpublishable_once_a_rollout_is_no_measurement(
    service: Service, control: ControlService
) -> None:
    play(service, "won", reward=1.0)
    service.http.post("/rollouts", json={"id": "running", "batch": "b"})
    seen = await conditions(control)
    assert seen.found == (), "what has not ended is no objection"
    assert seen.watched == {
        BREAKER, BUDGET, UPSTREAM, "lane.degraded", "lane.down", "lane.recovered", f"{BATCH}:b",
    }  # fmt: skip
    play(service, "dead", DEAD)
    found = told(await conditions(control))
    assert found.keys() == {BATCH}
    assert (found[BATCH].subject, found[BATCH].data) == (
        "b",
        {"batch": "b", "objections": 1, "url": "https://truezero.example/base/ui/batches/b"},
    )


COUNTS: dict[str, Any] = {
    "injected": False, "held": None, "key_source": KeySource.OPERATOR, "ending": Ending.COMPLETE,
}  # fmt: skip


async def test_an_upstream_fails_once_its_lanes_are_down_for_two_minutes(
    service: Service, control: ControlService
) -> None:
    now = time.time() // 60 * 60 + 30
    seconds_ago = [30, 90, 150, 210]

    def write(failing: bool) -> None:
        like = replace(FULL, **COUNTS) if failing else replace(ANSWERED, **COUNTS)
        calls = [
            replace(
                like,
                id=f"{failing:d}{number}{copy}",
                rollout_id=f"r{number}-{copy}",
                timing=replace(FULL.timing, started_at=now - ago),
            )
            for number, ago in enumerate(seconds_ago)
            for copy in range(3 - failing)
        ]
        with closing(Database(service.database)) as database:
            database.calls.write(CommitBatch(recorded=calls), worker="gone")

    at_that_time = replace(control, now=lambda: now)
    write(failing=True)
    snapshot = await conditions(at_that_time)
    (found,) = [each for each in snapshot.found if each.kind == UPSTREAM]
    assert (found.subject, found.at) == (FULL.upstream, now - 210)
    assert found.data["error_rate"] == 1.0
    assert found.data["calls"] == 8
    assert found.data["url"] == "https://truezero.example/base/ui/upstreams"
    write(failing=False)
    later = replace(control, now=lambda: now)
    assert UPSTREAM not in told(await conditions(later))


@pytest.mark.postgres_smoke
async def test_a_spent_limit_is_told_while_a_rollout_of_it_runs(
    service: Service, control: ControlService
) -> None:
    asked = {"id": "spent", "batch": "b/1", "batch_limits": {"calls": 1}}
    base = service.http.post("/rollouts", json=asked).json()["base_urls"]["openai"]
    for status in (200, 403):
        assert BUDGET not in told(await conditions(control))
        assert service.http.post(f"{base}/chat/completions", json=ASK).status_code == status
    condition = told(await conditions(control))[BUDGET]
    assert condition.subject == "batch/b/1"
    assert condition.data == {
        "batch": "b/1", "limits": {"calls": 1}, "spent": {"calls": 1},
        "url": "https://truezero.example/base/ui/batches/b%2F1",
    }  # fmt: skip
    service.http.post("/batches/b%2F1/limits", json={"calls": 2}).raise_for_status()
    assert BUDGET not in told(await conditions(control))


async def test_without_an_address_there_are_no_links(
    service: Service, control: ControlService
) -> None:
    play(service, "dead", DEAD)
    without = replace(control, pages_url=None)
    assert "url" not in told(await conditions(without))[BATCH].data
