"""What a batch has to run again, as the service's own verdicts say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from classifier.reruns import FIXES
from tests.proxy.api.test_routes import Service, empty, problem
from tests.proxy.control.test_batch_state import services_of
from tests.proxy.control.test_batches import ABORTED, DEAD, DOWN, play

KINDS = ("transient", "fix_first", "skipped", "undecided", "unmeasured")


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def listed(told: dict[str, Any]) -> dict[str, dict[str, list[str | None]]]:
    """Ids by kind and cause."""
    return {
        kind: {
            group["cause"].partition(" on ")[0]: [item["rollout_id"] for item in group["items"]]
            for group in told[kind]["groups"]
        }
        for kind in KINDS
    }


def test_every_repeat_without_a_score_is_in_one_list(service: Service) -> None:
    play(service, "won", reward=1.0, task="won")
    play(service, "down", DOWN, task="down")
    play(service, "cut", ABORTED, task="cut")
    service.http.post("/rollouts/silent/outcome", json={
        "status": "success", "prompts_executed": 1, "rewards": 0, "batch": "b", "task": "silent",
    })  # fmt: skip
    service.http.post("/rollouts", json={"id": "new", "batch": "b", "task": "new"})
    for n in range(3):
        play(service, f"dead-{n}", DEAD, task=f"dead-{n}")
    play(service, "held", task="held")
    told = service.get("/batches/b/rerun")
    assert listed(told) == {
        "transient": {"provider_error:503": ["down"]},
        "fix_first": {
            "auth:401": ["dead-0", "dead-1", "dead-2"], "suspected:zero_signal": ["silent"],
        },
        "skipped": {"auth:401": ["held"]},
        "undecided": {},
        "unmeasured": {"engine_aborted": ["cut"]},
    }  # fmt: skip
    assert [told[kind]["count"] for kind in KINDS] == [1, 4, 1, 0, 1]
    assert told["running"] == 1
    first = told["fix_first"]["groups"][0]
    assert (first["fix"], first["count"]) == (FIXES["auth"], 3)
    assert first["cause"] == "auth:401 on openai/gpt-5/-"


def test_a_superseded_attempt_is_in_none(service: Service) -> None:
    play(service, "t-0", DOWN, task="t", repeat=0, attempt=0)
    (item,) = service.get("/batches/b/rerun")["transient"]["groups"][0]["items"]
    assert (item["repeat"], item["attempt"], item["after_s"]) == (0, 1, pytest.approx(0.5, abs=0.5))
    play(service, "t-1", task="t", repeat=0, attempt=1, reward=1.0)
    assert not any(service.get("/batches/b/rerun")[kind]["count"] for kind in KINDS)


def test_a_batch_that_does_not_exist_is_a_problem(service: Service) -> None:
    problem(service.http.get("/batches/nobody/rerun"), 404, "unknown_batch")


def test_lists_are_made_anew_only_when_something_changed(service: Service) -> None:
    play(service, "down", DOWN, task="t", repeat=0, repeats=2)
    first = service.get("/batches/b/rerun")
    assert listed(first)["unmeasured"] == {"never_started": [None]}
    kept = services_of(service).reports.reruns._kept
    before = kept["b"]
    assert service.get("/batches/b/rerun") == first
    assert kept["b"] is before
    play(service, "up", task="t", repeat=1, repeats=2, reward=1.0)
    assert listed(service.get("/batches/b/rerun"))["unmeasured"] == {}
    empty(service.database)  # as when it is pruned
    play(service, "up", task="t", repeat=0, repeats=2, reward=1.0)
    play(service, "down", DOWN, task="t", repeat=1, repeats=2)
    told = service.get("/batches/b/rerun")
    assert [item["repeat"] for item in told["transient"]["groups"][0]["items"]] == [1]
