"""Breakers as runners and operators meet them: whom they stop, what lets one in again, alerts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from proxy.app import Application
from proxy.control.batches import BATCH
from proxy.control.queries import Service as ControlService
from proxy.control_plane import conditions
from proxy.features.breakers.control import KIND
from proxy.settings import load
from tests.fakes.relaying import running
from tests.features.alerts.test_alerts import told
from tests.proxy.api.test_routes import PATIENCE_S, Service, client, problem
from tests.proxy.control.test_batches import DEAD, DOWN, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3", DASHBOARD_URL="https://truezero.example/base/")


def test_the_same_permanent_cause_again_and_again_opens_the_breaker(service: Service) -> None:
    for number in range(3):
        play(service, f"dead-{number}", DEAD, task="fix", repeat=number or None)
    refused = play(service, "next")
    assert refused["admitted"] is False
    assert refused["error"] == (
        "skipped: breaker open on auth:401 after 3 rollouts in a row; "
        "fix the cause, then truezero breaker reset b"
    )
    (lane,) = service.get("/batches/b/breaker")["lanes"]
    assert (lane["phase"], lane["fingerprint"], lane["streak"]) == ("open", "auth:401", 3)
    assert lane["tripped_by"] == ["dead-0", "dead-1", "dead-2"]
    assert lane["names"] == {
        "dead-0": "fix", "dead-1": "fix (repeat 1)", "dead-2": "fix (repeat 2)",
    }  # fmt: skip
    assert service.get("/rollouts/next/result")["error"] == refused["error"]
    assert service.get("/rollouts/next/verdict")["error"] == refused["error"]
    line = f"next: does not count: {refused['error'].removeprefix('skipped: ')}"
    assert line in service.get("/batches/b/check")["lines"]
    summary = service.get("/batches/b")
    assert (summary["skipped"], summary["health"]["not_judged"]) == (1, 1)


def silent(service: Service, number: int, **lane: str) -> bool:
    """Report a rollout that made no call; returns whether it was admitted."""
    named = {"id": f"silent-{number}", "batch": "b", **lane}
    admitted: bool = service.http.post("/rollouts", json=named).json()["admitted"]
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    service.http.post(f"/rollouts/silent-{number}/outcome", json=seen)
    return admitted


def test_rollouts_without_a_call_are_stopped_on_a_lane_that_worked(service: Service) -> None:
    lane = {"upstream": "openai", "model": "gpt-5"}
    assert [silent(service, number, **lane) for number in range(4)] == [True] * 4
    play(service, "well", DOWN)
    assert [silent(service, number, **lane) for number in range(4, 8)] == [True] + [False] * 3


def test_a_canary_decides_after_a_reset(service: Service) -> None:
    for number in range(3):
        play(service, f"dead-{number}", DEAD)
    assert play(service, "held")["admitted"] is False
    after = service.http.post("/batches/b/breaker/reset").json()
    assert after["lanes"][0]["phase"] == "half_open"
    canary = {"id": "canary", "batch": "b", "model": "gpt-5", "upstream": "openai"}
    assert service.http.post("/rollouts", json=canary).json()["admitted"] is True
    assert play(service, "second")["admitted"] is False
    assert play(service, "canary", reward=1.0)["status"] == "success"
    assert service.get("/batches/b/breaker")["lanes"][0]["phase"] == "closed"
    assert "status" in play(service, "held"), "registering again asks again"


@pytest.fixture
def other(service: Service) -> Iterator[Service]:
    """A second service on the same database."""
    environment = {
        "TRUEZERO_DATABASE_URL": service.database,
        "TRUEZERO_UPSTREAM_OPENAI": service.provider.url,
        "TRUEZERO_BREAKER_THRESHOLD": "3",
    }
    with (
        running(Application(load({}, environment), environment)) as port,
        client(f"http://127.0.0.1:{port}") as http,
    ):
        yield Service(http, service.provider)


@pytest.mark.postgres_smoke
def test_every_process_sees_the_same_breaker(service: Service, other: Service) -> None:
    for number, where in enumerate((service, other, service)):
        play(where, f"dead-{number}", DEAD)
    assert play(other, "next")["admitted"] is False
    assert other.get("/batches/b/check") == service.get("/batches/b/check")


@pytest.mark.postgres_smoke
def test_only_one_of_many_at_once_is_the_canary(service: Service, other: Service) -> None:
    for number in range(3):
        play(service, f"dead-{number}", DEAD)
    other.http.post("/batches/b/breaker/reset")
    admitted: list[bool] = []

    def register(number: int) -> None:
        facts = {"id": f"c{number}", "batch": "b", "model": "gpt-5", "upstream": "openai"}
        with client(str((service, other)[number % 2].http.base_url)) as http:
            admitted.append(http.post("/rollouts", json=facts).json()["admitted"])

    threads = [threading.Thread(target=register, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(admitted) == [False] * 7 + [True]


def test_an_unknown_lane_is_a_problem(service: Service) -> None:
    assert service.get("/batches/nobody/breaker")["lanes"] == []
    reset = service.http.post("/batches/b/breaker/reset", params={"lane": "nope"})
    problem(reset, 404, "unknown_lane")


@pytest.mark.postgres_smoke
async def test_an_open_breaker_names_its_lane_cause_and_rollouts(
    service: Service, control: ControlService
) -> None:
    for name in ("one", "two", "three"):
        play(service, name, DEAD)
    found = told(await conditions(control))
    data = found[KIND].data
    assert (data["batch"], data["fingerprint"], data["streak"]) == ("b", "auth:401", 3)
    assert data["tripped_by"] == ["one", "two", "three"]
    assert found[KIND].subject == f"b/{data['lane']}"
    assert found[BATCH].data["objections"] == 3
    assert "sk-" not in json.dumps([each.data for each in found.values()])
    service.http.post("/batches/b/breaker/reset")
    after = told(await conditions(control))
    assert KIND in after, "one probe is let in: it is not closed"
