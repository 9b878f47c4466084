"""Where calls named no rollout, one that made none of its own is undecided, for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from classifier.__main__ import judge_export
from classifier.records import UNATTRIBUTED
from proxy.control.judge import LONGEST_S
from tests.proxy.api.test_routes import ASK, CHAT, Service, problem

SEEN = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def nameless(service: Service, path: str = "/openai" + CHAT, **headers: str) -> None:
    assert service.http.post(path, json=ASK, headers=headers).status_code == 200


def reported(service: Service, name: str) -> dict[str, Any]:
    answer = service.http.post(f"/rollouts/{name}/outcome", json=SEEN)
    assert answer.status_code == 200
    return dict(service.get(f"/rollouts/{name}/verdict"))


def register(service: Service, name: str) -> None:
    assert service.http.post("/rollouts", json={"id": name, "batch": "b"}).status_code == 201


def test_a_silent_rollout_is_undecided_while_calls_named_nobody(service: Service) -> None:
    nameless(service)  # before any of them ran
    for name in ("silent", "named", "alone"):
        register(service, name)
    assert reported(service, "alone")["rule"] == "zero_signal"
    nameless(service)
    service.call("named")
    assert reported(service, "named")["health"] == "healthy"
    silent = reported(service, "silent")
    assert (silent["health"], silent["warnings"]) == ("undecided", ["calls_unattributed"])
    register(service, "after")
    assert reported(service, "after")["rule"] == "zero_signal"
    assert service.get("/rollouts/alone/verdict")["rule"] == "zero_signal"


def test_what_is_no_agents_work_makes_nothing_doubtful(service: Service) -> None:
    register(service, "r1")
    assert service.http.post("/openai/v1/embeddings", json={}).status_code == 404
    nameless(service, **{"x-truezero-role": "judge"})
    assert service.http.get("/openai/v1/models").status_code == 404
    assert reported(service, "r1")["rule"] == "zero_signal"


def test_one_that_only_its_outcome_registers_may_have_run_all_day(service: Service) -> None:
    assert reported(service, "early")["rule"] == "zero_signal"
    nameless(service)
    assert reported(service, "late")["health"] == "undecided"
    assert service.app is not None
    calls = service.app._database.calls
    now = service.get("/rollouts/late/verdict")["judged_at"]
    assert calls.unattributed(since=now - LONGEST_S, until=now) == 1
    assert calls.unattributed(since=now - 2 * LONGEST_S, until=now - LONGEST_S) == 0


def test_an_export_is_judged_alike_even_once_those_calls_are_gone(service: Service) -> None:
    register(service, "r1")
    nameless(service)
    verdict = reported(service, "r1")
    assert service.app is not None
    export = service.http.get("/rollouts/export").text
    service.app._database.change(
        lambda connection: connection.exec_driver_sql("DELETE FROM exchanges")
    )
    assert service.http.get("/rollouts/export").text == export
    (judged,) = judge_export(export.splitlines())
    assert (judged.health.value, judged.warnings) == ("undecided", tuple(verdict["warnings"]))


def test_the_reserved_id_is_no_rollout(service: Service) -> None:
    nameless(service)
    problem(service.http.post("/rollouts", json={"id": UNATTRIBUTED}), 422, "invalid")
    path = f"/rollouts/{UNATTRIBUTED}"
    problem(service.http.post(f"{path}/outcome", json=SEEN), 422, "invalid")
    for each in ("verdict", "result"):
        problem(service.http.get(f"{path}/{each}"), 404, "unknown_rollout")
    assert service.get("/rollouts")["items"] == []
    (call,) = service.get(f"{path}/exchanges")["items"]
    assert call["attribution_source"] == "unattributed"
