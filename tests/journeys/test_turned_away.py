"""Calls that the service has no room for: the verdict that hangs on one is undecided."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Wait
from tests.proxy.api.test_routes import Service, problem, serving
from tests.waiting import until

DONE = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, MAX_CONCURRENT_CALLS="1") as running_service:
        yield running_service


@pytest.mark.parametrize("agents", ["trusted", "untrusted"])
@pytest.mark.parametrize(("again", "scoreable"), [(False, "unknown"), (True, "yes")])
def test_a_rollout_that_ends_on_the_services_own_503_is_undecided(
    service: Service, agents: str, again: bool, scoreable: str
) -> None:
    made = {"id": "turned", "batch": "b", "policy": {"agents": agents}}
    service.http.post("/rollouts", json=made).raise_for_status()
    assert service.call("turned").status_code == 200
    go = threading.Event()
    service.provider.plays(answers.chat().stopping_after(0, Wait(go)))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.call, "other")
        until(lambda: len(service.provider.requests) == 2)
        problem(service.call("turned"), 503, "too_many_calls")
        go.set()
        assert running.result().status_code == 200
    if again:
        assert service.call("turned").status_code == 200
    service.http.post("/rollouts/turned/outcome", json=DONE).raise_for_status()
    until(lambda: service.get("/rollouts/turned/verdict")["scoreable"] == scoreable)
    verdict = service.get("/rollouts/turned/verdict")
    assert verdict["attributed_to"] == (None if again else "proxy")
