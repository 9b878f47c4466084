"""The same loop, run again with its key mended, makes a batch valid."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import CHAT

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
TASKS = ("a", "b", "c")


def registered(service: Service, task: str, **facts: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json={"batch": "night", "task": task, **facts})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def ended(service: Service, task: str, answer: object = None, **facts: Any) -> dict[str, Any]:
    """One rollout as a plain loop drives it: registered, called, reported."""
    rollout = registered(service, task, **facts)
    service.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
    asked: dict[str, object] = {"model": "gpt-5", "messages": []}
    service.http.post(f"/r/{rollout['id']}/openai{CHAT}", json=asked)
    seen = {"status": "success", "prompts_executed": 1, "rewards": 0.0}
    return dict(service.http.post(f"/rollouts/{rollout['id']}/outcome", json=seen).json())


def numbers(result: dict[str, Any]) -> tuple[int | None, int | None]:
    return result["repeat"], result["attempt"]


@pytest.mark.postgres_smoke
def test_the_loop_of_before_with_the_key_mended_makes_the_batch_valid(service: Service) -> None:
    first = {task: ended(service, task, DEAD if task != "a" else None) for task in TASKS}
    assert {numbers(each) for each in first.values()} == {(None, None)}
    assert service.get("/batches/night/check")["valid"] is False
    again = {task: ended(service, task) for task in TASKS}
    assert {task: numbers(each) for task, each in again.items()} == {
        "a": (1, 0), "b": (None, 1), "c": (None, 1),
    }  # fmt: skip
    told = service.get("/batches/night/check")
    assert (told["valid"], told["lines"]) == (True, [])
    assert (told["repeats"], told["tries"]) == (4, 6)
    summary = service.get("/batches/night")
    assert (summary["total"], summary["scored"], summary["retried"]) == (4, 4, 2)
    earlier = service.get(f"/rollouts/{first['b']['rollout_id']}/result")
    assert numbers(earlier) == (None, 0)
    assert {**earlier, "attempt": None} == first["b"]


def test_a_repeat_whose_outcome_is_not_judged_yet_is_judged_before_the_next(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as unstored:
        unstored.setattr("proxy.control.judge._is_being_asked", lambda *_: True)
        ended(service, "a", DEAD)
        ended(service, "b")
    assert numbers(registered(service, "a")) == (None, 1)
    assert numbers(registered(service, "b")) == (1, 0)


def test_a_loop_that_says_once_runs_what_is_not_measured_and_nothing_else(
    service: Service,
) -> None:
    first = {task: ended(service, task, DEAD if task == "b" else None, repeats=1) for task in "ab"}
    assert {numbers(each) for each in first.values()} == {(None, None)}
    said = service.http.post("/rollouts", json={"batch": "night", "task": "a", "repeats": 1})
    problem(said, 409, "measured")
    assert said.json()["detail"] == (
        "task 'a' of batch 'night' is measured, or running: it has the 1 repeat that it is to "
        "have, so there is nothing to run"
    )
    assert numbers(ended(service, "b", repeats=1)) == (None, 1)
    told = service.get("/batches/night/check")
    assert (told["valid"], told["repeats"], told["tries"]) == (True, 2, 3)


def test_a_loop_beside_an_open_breaker_leaves_no_repeat_that_nobody_planned(
    on_both: Callable[..., Service],
) -> None:
    service = on_both(BREAKER_THRESHOLD="2")
    ended(service, "a", upstream="openai", model="gpt-5")
    for task in "bc":
        ended(service, task, DEAD, upstream="openai", model="gpt-5")
    lane = {"upstream": "openai", "model": "gpt-5"}
    again = registered(service, "a", **lane)
    assert (again["admitted"], "breaker open" in again["error"]) == (False, True)
    assert registered(service, "b", **lane)["admitted"] is False
    (kept_out,) = service.http.get("/rollouts?batch=night&skipped=true").json()["items"]
    assert kept_out["skipped"].startswith("skipped: breaker open on auth:401 after 2 rollouts")
    batch = service.get("/batches/night")
    assert (batch["repeats_planned"], batch["skipped"]) == (3, 1), "a's is measured already"
    service.http.post("/batches/night/breaker/reset")
    for task in "bc":
        ended(service, task, **lane)
    assert service.get("/batches/night/check")["valid"] is True


def test_a_file_has_the_numbers_of_a_tasks_first_try(service: Service) -> None:
    for task, answer in (("a", DEAD), ("a", None), ("b", None), ("b", None)):
        ended(service, task, answer)
    for name in ("c1", "c2"):  # two samples, of which nothing says the numbers
        registered(service, "c", id=name, attempt=0)
    file = service.http.get("/rollouts?batch=night", headers={"accept": "text/csv"}).text
    assert [
        (row["task"], row["repeat"], row["attempt"]) for row in csv.DictReader(file.splitlines())
    ] == [
        ("a", "0", "0"), ("a", "0", "1"), ("b", "0", "0"), ("b", "1", "0"),
        ("c", "", "0"), ("c", "", "0"),
    ]  # fmt: skip


def test_an_id_whose_outcome_was_given_is_refused_with_the_fix(service: Service) -> None:
    ended(service, "a", DEAD, id="mine")
    answer = service.http.post("/rollouts", json={"batch": "night", "task": "a", "id": "mine"})
    problem(answer, 409, "rollout_exists")
    assert answer.json()["detail"] == (
        "rollout 'mine' has ended, its outcome was given. To run it again leave out the id, or "
        "give a new one: it is then the next try at task 'a'"
    )
    assert numbers(registered(service, "a", id="mine-2")) == (None, 1)
