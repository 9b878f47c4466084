"""Batches as REST tells of them: classifier/test_batches.py has the rules of scores and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from classifier.batch_summary import exclusion_in
from classifier.repeat_counts import Counts, Shapes
from classifier.statistics import Exclusion
from proxy.control import batches as control_batches
from proxy.control.batches import batch_list
from proxy.control.queries import Service as ControlService
from tests.fakes import answers, replies
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service
from truezero.models import BatchItem, BatchPage

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
HALF = replies.Reply(
    model="gpt-5", input_tokens=9, output_tokens=2, text=("half",), finish=replies.Finish.ABORT
)
ABORTED = replies.answer(Api.CHAT, HALF, streams=False)
CHAT = "/v1/chat/completions"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def play(
    service: Service, name: str, answer: object = None, *, reward: object = 0.0, **facts: Any
) -> dict[str, Any]:
    """One rollout as a runner drives it; returns its registration, or its result where admitted."""
    facts = {"batch": "b", "model": "gpt-5", "upstream": "openai", **facts}
    registered = service.http.post("/rollouts", json={"id": name, **facts}).json()
    if not registered["admitted"]:
        return dict(registered)
    service.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
    model = facts["model"] or "gpt-5"
    asked: dict[str, object] = {"model": model if isinstance(model, str) else model[0]}
    asked["messages"] = []
    service.http.post(f"/r/{name}/openai{CHAT}", json=asked)
    seen = {"status": "success", "prompts_executed": 1, "rewards": reward}
    return dict(service.http.post(f"/rollouts/{name}/outcome", json=seen).json())


def test_what_spoils_a_measurement_is_counted_and_takes_its_slot_away(service: Service) -> None:
    play(service, "won", reward=1.0)
    play(service, "cut", ABORTED, task="task-7")
    got, check = service.get("/batches/b"), service.get("/batches/b/check")
    assert (got["health"], got["scoreable"], got["score_effective"]) == ({"healthy": 2}, 1, 1.0)
    assert (got["validity"], got["validity_checks"]) == ({"invalid": 1}, {"engine_aborted": 1})
    assert (got["valid"], check["valid"]) == (False, False)
    (line,) = check["lines"]
    assert line.startswith("task-7: does not count: the engine aborted 1 of 1 answer, ")
    assert got["summaries"] == [
        "1 rollout reached a model, but its score does not count: see validity_info"
    ]


def test_rollouts_that_got_another_model_than_the_rest_are_told(service: Service) -> None:
    for name, answered in (("a", "gpt-5"), ("b", "gpt-5-2025-08-07"), ("c", "gpt-5")):
        play(service, name, answers.chat(answered), reward=1.0)
    got = service.get("/batches/b")
    assert (got["validity_across"], service.get("/batches/b/check")["lines"]) == ([], [])
    play(service, "d", answers.chat("gpt-4o"), reward=1.0)
    (found,) = service.get("/batches/b")["validity_across"]
    assert (found["check"], found["level"]) == ("model_substituted", "suspect")
    assert (found["rollouts"], found["of"], found["examples"]) == (1, 4, ["d"])
    check = service.get("/batches/b/check")
    assert check["valid"] is True
    assert check["lines"] == [
        "suspect, and counted all the same: d (model_substituted)",
        f"suspect across rollouts: {found['sentence']} (model_substituted)",
    ]


@pytest.mark.postgres_smoke
def test_a_retried_slot_counts_once_and_keeps_its_evidence(service: Service) -> None:
    play(service, "t1-a0", DOWN, task="t1", attempt=0)
    assert [r["rollout_id"] for r in service.get("/batches/b")["retry"]] == ["t1-a0"]
    play(service, "t1-a1", reward=1.0, task="t1", attempt=1)
    got = service.get("/batches/b")
    assert (got["rollouts"], got["total"], got["retried"]) == (2, 1, 1)
    assert (got["score_effective"], got["score_retried"], got["score_first"]) == (1.0, 1.0, None)
    assert (got["valid"], got["retry"]) == (True, [])
    assert service.get("/rollouts/t1-a0/verdict")["failed_requests"] == 1


def test_the_causes_of_another_repeat_are_no_attempts_of_this_one(service: Service) -> None:
    for repeat in (0, 1):
        for tried in (0, 1):
            name = f"r{repeat}-a{tried}"
            play(service, name, DOWN, task="t", repeat=repeat, attempt=tried)
    advice = [service.get(f"/rollouts/r{n}-a1/verdict")["retry"] for n in (0, 1)]
    assert [each["eligible"] for each in advice] == [True, True]
    assert advice[0]["reason"] == advice[1]["reason"]


def test_exclusions_are_tested_again_when_a_task_that_is_compared_has_changed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = []

    def test(counts: Counts, shapes: Shapes) -> Exclusion:
        tested.append(shapes)
        return exclusion_in(counts, shapes)

    monkeypatch.setattr(control_batches, "exclusion_in", test)
    for n in range(2):
        play(service, f"a{n}", DEAD if n % 2 else None, reward=0.0, task=f"t{n}", attempt=0)
        play(service, f"b{n}", reward=1.0, task=f"t{n}", attempt=0)
    service.get("/batches/b")
    assert len(tested) == 1
    service.http.post("/rollouts", json={"id": "begun", "batch": "b", "task": "t9"})
    assert service.get("/batches/b")["pending"] == 1
    assert len(tested) == 1, "what has only begun is not compared"
    play(service, "c0", reward=0.0, task="t9", attempt=0)
    play(service, "d0", reward=0.0, task="t9", attempt=0)
    service.get("/batches/b")
    assert len(tested) == 2


async def test_a_batch_is_listed_with_figures_of_its_summary(
    service: Service, control: ControlService
) -> None:
    for number, batch in enumerate(("a", "b/c", "a")):
        play(service, f"r{number}", DEAD if number == 2 else None, batch=batch)
    service.http.post("/rollouts", json={"id": "alone"})
    page = BatchPage.model_validate(await batch_list(control))
    assert [item.batch for item in page.items] == ["a", "b/c"]
    for item in page.items:
        summary = service.get(f"/batches/{item.batch.replace('/', '%2F')}")
        shared = BatchItem.model_fields.keys() & summary.keys()
        listed = item.model_dump(mode="json", include=set(shared))
        assert listed == {name: summary[name] for name in shared}
    assert page.items[0].health == {"healthy": 1, "api_error": 1}
    assert page.items[0].first_at < page.items[1].first_at < page.items[0].last_at
