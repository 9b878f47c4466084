"""Pages of groups as REST has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.api.gone import log_gone
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import DEAD, DOWN, play
from tests.proxy.control.test_reports import groups, sample
from tests.proxy.streamed import events_of


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def post(service: Service, route: str, **body: Any) -> dict[str, Any]:
    answer = service.http.post(f"/batches/b/{route}", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_method_of_advantages_has_no_effect_and_is_logged_once(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    sample(service, "sum", 0, 1.0)
    log_gone.cache_clear()
    assert groups(service, method="rloo") == groups(service, method="ppo") == groups(service)
    (said,) = [each.getMessage() for each in caplog.records if "gone" in each.getMessage()]
    assert said.startswith("`method` of GET /batches/{batch}/groups is gone, and has no effect: ")


@pytest.mark.postgres_smoke
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
    assert (masked["baseline"], masked["rewards"], masked["drop"]) == (None, [None], True)
    assert groups(service, task="none") == []
    problem(service.http.get("/batches/none/groups"), 404, "unknown_batch")
    for wrong in ({"min_valid": 0}, {"limit": 1001}, {"settled": "perhaps"}):
        answer = service.http.get("/batches/b/groups", params=wrong)
        assert (answer.status_code, next(iter(wrong)) in answer.text) == (422, True)
    for repeats in (0, 10_001):
        asked = {"batch": "b", "task": "t", "repeats": repeats}
        assert service.http.post("/rollouts", json=asked).status_code == 422


@pytest.mark.postgres_smoke
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
