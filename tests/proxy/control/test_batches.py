"""Batches: scores with their coverage, checks and fingerprints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from classifier.batch_summary import exclusion_in
from classifier.repeat_counts import Counts, Shapes
from classifier.statistics import Exclusion
from proxy.control import batches as control_batches
from tests.fakes import answers, replies
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem

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


def test_a_check_has_a_line_for_each_thing_that_is_no_measurement(service: Service) -> None:
    play(service, "won", reward=1.0)
    told = service.get("/batches/b/check")
    assert (told["batch"], told["valid"], told["lines"]) == ("b", True, [])
    assert told["exclusion_bias"] is None
    play(service, "dead", DEAD, task="task-7")
    got = service.get("/batches/b/check")
    assert got["valid"] is False
    (line,) = got["lines"]
    assert line.startswith("task-7: does not count: the key was refused (auth, 401 on")


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


@pytest.mark.postgres_smoke
def test_what_counts_in_spite_of_a_finding_has_a_line_in_a_valid_batch(service: Service) -> None:
    play(service, "cut", ABORTED, task="task-7", policy={"validity": "none"}, reward=1.0)
    check = service.get("/batches/b/check")
    assert check["lines"] == ["invalid, and counted all the same: task-7 (engine_aborted)"]
    assert (check["valid"], service.get("/batches/b")["score_effective"]) == (True, 1.0)


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


def test_each_sum_says_how_many_calls_it_stands_on(service: Service) -> None:
    play(service, "counted")
    play(service, "dead", DEAD)
    play(service, "unpriced", answers.chat("nobody-knows"), model="nobody-knows")
    play(service, "uncounted", answers.whole({"choices": [{"message": {"content": "so"}}]}))
    got = service.get("/batches/b")
    assert (got["calls"], got["tokens_known_calls"], got["cost_known_calls"]) == (3, 2, 1)


TOO_MANY = ": more than 5 %, so the batch is no valid measurement"


def test_a_check_names_what_ended_on_a_rejection_that_nothing_explains(service: Service) -> None:
    play(service, "r1", task="task-7", reward=1.0)
    service.http.post("/rollouts", json={"id": "r2", "batch": "b", "task": "task-8"})
    for answer in (answers.chat(), answers.whole({"detail": "conflict"}, 409)):
        service.provider.plays(answer)
        service.http.post(f"/r/r2/openai{CHAT}", json={"model": "gpt-5", "messages": []})
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    assert service.http.post("/rollouts/r2/outcome", json=seen).json()["scoreable"] == "unknown"
    got = service.get("/batches/b/check")
    assert (got["valid"], got["lines"]) == (
        False,
        [
            "not known if they measure: 1 rollout of 2 (50 %)" + TOO_MANY,
            (
                "task-8: not known if it counts: its last request was rejected, and nothing "
                "explains why; look at the calls"
            ),
        ],
    )
    assert service.get("/batches/b")["score_effective"] == 1.0


def test_a_rollout_under_way_is_pending(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "new", "batch": "b"})
    got = service.get("/batches/b")
    assert (got["pending"], got["valid"]) == (1, False)


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


def test_each_repeat_is_a_slot_and_run_again_by_itself(service: Service) -> None:
    for repeat, tried, answer, reward in (
        (0, 0, DOWN, 0.0), (1, 0, None, 0.0), (2, 0, DOWN, 0.0), (0, 1, None, 1.0),
    ):  # fmt: skip
        name = f"r{repeat}-a{tried}"
        play(service, name, answer, reward=reward, task="t", repeat=repeat, attempt=tried)
    got = service.get("/batches/b")
    assert (got["total"], got["scored"], got["score_effective"]) == (3, 2, 0.5)
    assert [(each["repeat"], each["attempt"]) for each in got["retry"]] == [(2, 0)]
    assert "t (repeat 2): " in service.get("/batches/b/check")["lines"][0]
    result = service.get("/rollouts/r0-a1/result")
    assert (result["task"], result["repeat"], result["attempt"]) == ("t", 0, 1)


def test_the_causes_of_another_repeat_are_no_attempts_of_this_one(service: Service) -> None:
    for repeat in (0, 1):
        for tried in (0, 1):
            name = f"r{repeat}-a{tried}"
            play(service, name, DOWN, task="t", repeat=repeat, attempt=tried)
    advice = [service.get(f"/rollouts/r{n}-a1/verdict")["retry"] for n in (0, 1)]
    assert [each["eligible"] for each in advice] == [True, True]
    assert advice[0]["reason"] == advice[1]["reason"]


@pytest.mark.postgres_smoke
def test_attempts_never_reset(service: Service) -> None:
    advice = []
    for n in range(3):
        play(service, f"t1-a{n}", DOWN, task="t1", attempt=n)
        advice.append(service.get(f"/rollouts/t1-a{n}/verdict")["retry"]["eligible"])
        play(service, f"answered-{n}")  # the lane answers: it is no outage
    assert advice == [True, True, False]


def test_unknown_batches_are_problems(service: Service) -> None:
    for path in ("/batches/nobody", "/batches/nobody/check"):
        problem(service.http.get(path), 404, "unknown_batch")


def test_a_batch_id_may_hold_a_slash(service: Service) -> None:
    play(service, "r", batch="a/b", reward=1.0)
    assert service.get("/batches/a%2Fb")["batch"] == "a/b"
    assert service.get("/batches/a%2Fb/check")["valid"] is True


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
