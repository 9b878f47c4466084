"""What a batch used: as its calls say one by one, and of how many nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.control import reports
from proxy.control.pricing import PriceTable
from proxy.store.batches import call_sums
from tests.fakes import answers
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import CHAT, DEAD, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


UNCOUNTED = answers.whole({"choices": [{"message": {"content": "so"}}]})


def filled(service: Service) -> list[dict[str, Any]]:
    """A batch with a judge, a failure, an unknown model and a call without counts; its calls."""
    for n in range(3):
        play(service, f"fine-{n}", task=f"t{n}")
    play(service, "dead", DEAD, task="t0")
    play(service, "unpriced", answers.chat("nobody-knows"), model="nobody-knows", task="t1")
    service.http.post("/rollouts", json={"id": "judged", "batch": "b", "task": "t2"})
    for role, answer in (("", UNCOUNTED), ("as/judge/", answers.chat())):
        service.provider.plays(answer)
        service.http.post(f"/r/judged/{role}openai{CHAT}", json={"model": "gpt-5", "messages": []})
    names = ("fine-0", "fine-1", "fine-2", "dead", "unpriced", "judged")
    return [call for name in names for call in service.get(f"/rollouts/{name}/exchanges")["items"]]


def test_sums_are_those_of_the_calls_and_say_what_they_stand_on(service: Service) -> None:
    calls = filled(service)
    told = service.get("/batches/b/usage", by="role")
    assert (told["batch"], told["by"]) == ("b", ["role"])
    for item in (*told["items"], told["sum"]):
        these = [call for call in calls if item.get("role", call["role"]) == call["role"]]
        billable = [call for call in these if call["status"] == 200]
        costs = [call["cost_usd"] for call in these if call["cost_usd"] is not None]
        counts = [call["input_total"] for call in these if call["input_total"] is not None]
        assert item["calls"] == len(these)
        assert item["failures"] == sum(call["subcategory"] is not None for call in these)
        assert (item["billable_calls"], item["cost_known_calls"]) == (len(billable), len(costs))
        assert item["tokens_known_calls"] == len(counts)
        assert item["cost_usd"] == pytest.approx(sum(costs))
        assert item["input_tokens"] == sum(counts)
        lasted = sum(call["duration_s"] for call in these)
        assert item["seconds"] == pytest.approx(lasted, abs=1e-6)  # each is kept to 60 ns
    assert (told["sum"]["calls"], told["sum"]["failures"]) == (7, 1)
    assert (told["sum"]["billable_calls"], told["sum"]["cost_known_calls"]) == (6, 4)


def test_it_is_by_any_of_model_upstream_role_and_task(service: Service) -> None:
    filled(service)
    told = service.get("/batches/b/usage")
    assert told["by"] == ["model", "upstream", "role"]
    most, *_ = told["items"]
    assert (most["upstream"], most["role"]) == ("openai", "agent"), "the most expensive first"
    by_task = {
        each["task"]: each["calls"] for each in service.get("/batches/b/usage", by="task")["items"]
    }
    assert by_task == {"t0": 2, "t1": 2, "t2": 3}
    (whole,) = service.get("/batches/b/usage", by="")["items"]
    assert whole["calls"] == 7
    refusal = problem(service.http.get("/batches/b/usage", params={"by": "key"}), 422, "invalid")
    assert refusal["detail"] == "by: 'key' is none of model, upstream, role, task"


def test_a_batch_without_calls_used_nothing_that_is_known(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "new", "batch": "b"})
    told = service.get("/batches/b/usage")
    assert (told["items"], told["sum"]["calls"], told["sum"]["cost_usd"]) == ([], 0, None)
    problem(service.http.get("/batches/nobody/usage"), 404, "unknown_batch")


def test_calls_are_priced_one_by_one_where_a_price_changes_within_a_sum(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(service)
    told = service.get("/batches/b/usage")
    asked: list[Any] = []

    def holds(_self: PriceTable, *args: Any, above: int) -> bool:
        asked.append((*args, above))
        return False

    monkeypatch.setattr(PriceTable, "holds", holds)
    monkeypatch.setattr(reports, "usage_sums", lambda *_: call_sums(*_)[:1])  # would be wrong
    again = service.get("/batches/b/usage")
    assert asked
    for name, value in told["sum"].items():
        near = isinstance(value, float)
        assert again["sum"][name] == (pytest.approx(value, abs=1e-6) if near else value), name
