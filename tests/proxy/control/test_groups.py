"""Groups by REST: what a trainer reads of a task's rollouts, and when they have settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from proxy.store.database import Database
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import DEAD, DOWN, play
from tests.proxy.control.test_events import events_of


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def sample(service: Service, task: str, repeat: int, reward: float, answer: object = None) -> None:
    name = f"{task}-{repeat}"
    play(service, name, answer, reward=reward, task=task, repeat=repeat, repeats=4)


def groups(service: Service, **asked: Any) -> list[dict[str, Any]]:
    answer = service.http.get("/batches/b/groups", params=asked)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def test_a_dead_rollout_is_masked_in_its_group_and_the_last_one_announces_it(
    service: Service,
) -> None:
    sample(service, "sum", 0, 1.0)
    sample(service, "sum", 1, 0.0)
    sample(service, "sum", 2, 0.0, DOWN)
    (open_one,) = groups(service)
    assert (open_one["settled"], open_one["wanted"], open_one["drop"]) == (False, 4, False)
    sample(service, "sum", 3, 1.0)
    (seen,) = groups(service, settled=True)
    assert seen == {
        "task": "sum",
        "method": "grpo",
        "wanted": 4,
        "settled": True,
        "revision": 1,
        "final": False,
        "rollout_ids": ["sum-0", "sum-1", "sum-2", "sum-3"],
        "repeats": [0, 1, 2, 3],
        "rewards": [1.0, 0.0, None, 1.0],
        "valid": [True, True, False, True],
        "baseline": pytest.approx(2 / 3),
        "std": pytest.approx((1 / 3) ** 0.5),
        "advantages": [
            pytest.approx((1 / 3) ** 0.5), pytest.approx(-((4 / 3) ** 0.5)), None,
            pytest.approx((1 / 3) ** 0.5),
        ],
        "resample": 1,
        "drop": False,
    }  # fmt: skip
    (plain,) = groups(service, method="mean", min_valid=5)
    assert plain["advantages"][1] == pytest.approx(-2 / 3)
    assert plain["drop"] is True
    (rloo,) = groups(service, method="rloo")
    assert rloo["advantages"][1] == pytest.approx(-1.0)
    told = [event for event in events_of(service, "b", 6, after=0) if event[1] == "group_settled"]
    ((_, _, data),) = told
    assert data.pop("at") > 0
    assert data == {
        "rollout_id": "sum-3", "task": "sum", "wanted": 4, "valid": 3, "resample": 1, "drop": False,
        "revision": 1, "final": False,
    }  # fmt: skip


def test_a_verdict_that_was_not_stored_is_made_up_for_by_who_asks(service: Service) -> None:
    sample(service, "sum", 0, 1.0)
    database = Database(service.database)
    for statement in (  # as an outcome leaves them until its verdict is stored
        "DELETE FROM verdicts",
        "INSERT INTO unjudged (rollout_id, batch, change) SELECT id, batch, 1000 FROM rollouts",
    ):
        database.change(Connection.exec_driver_sql, statement)
    database.close()
    (seen,) = groups(service)
    assert seen["rewards"] == [1.0]


def test_pages_filters_and_refusals(service: Service) -> None:
    for task in ("c", "a", "b"):
        play(service, task, DEAD if task == "b" else None, task=task, reward=1.0)
    service.http.post("/rollouts", json={"id": "runs", "batch": "b", "task": "d"})
    first = service.http.get("/batches/b/groups", params={"limit": 2}).json()
    assert ([one["task"] for one in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = service.http.get("/batches/b/groups", params={"limit": 2, "after": "b"}).json()
    assert ([one["task"] for one in rest["items"]], rest["next"]) == (["c", "d"], None)
    assert [one["task"] for one in groups(service, settled=False)] == ["d"]
    assert [one["task"] for one in groups(service, task="b")] == ["b"]
    (masked,) = groups(service, task="b")
    assert (masked["baseline"], masked["advantages"], masked["drop"]) == (None, [None], True)
    assert groups(service, task="none") == []
    problem(service.http.get("/batches/none/groups"), 404, "unknown_batch")
    for wrong in ({"method": "ppo"}, {"min_valid": 0}, {"limit": 1001}, {"settled": "perhaps"}):
        answer = service.http.get("/batches/b/groups", params=wrong)
        assert (answer.status_code, next(iter(wrong)) in answer.text) == (422, True)
    for repeats in (0, 10_001):
        asked = {"batch": "b", "task": "t", "repeats": repeats}
        assert service.http.post("/rollouts", json=asked).status_code == 422


def post(service: Service, route: str, **body: Any) -> dict[str, Any]:
    answer = service.http.post(f"/batches/b/{route}", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_whoever_starts_rollouts_says_when_no_more_come(service: Service) -> None:
    going_on = {"batch": "b", "open_runs": 1, "ended": False}
    assert post(service, "begin", run="night") == going_on
    assert service.http.get("/batches/b/groups").json() == {
        "items": [], "ended": False, "next": None,
    }  # fmt: skip
    for repeat in range(4):
        sample(service, "sum", repeat, 1.0, DOWN if repeat == 3 else None)
    assert service.http.get("/batches/b/groups").json()["ended"] is False
    assert post(service, "begin", run="night") == going_on
    assert post(service, "end", run="night") == {"batch": "b", "open_runs": 0, "ended": True}
    page = service.http.get("/batches/b/groups").json()
    assert (page["ended"], [one["final"] for one in page["items"]]) == (True, [True])
    kinds = [kind for _, kind, _ in events_of(service, "b", 7, after=0)]
    assert kinds[-2:] == ["group_settled", "batch_ended"]
    problem(service.http.post("/batches/none/end", json={}), 404, "unknown_batch")
    for wrong in ({}, {"run": ""}, {"run": "x" * 201}, {"run": "\n"}, {"run": "r", "more": 1}):
        assert service.http.post("/batches/b/begin", json=wrong).status_code == 422, wrong
