from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from proxy.control import reports
from proxy.control.pricing import PriceTable
from proxy.store.batches import call_sums
from proxy.store.database import Database
from tests.fakes import answers
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import CHAT, DEAD, DOWN, play
from tests.proxy.streamed import events_of


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


# --------------------------------------------------------------------------------------------------
# Groups by REST: what a trainer reads of a task's rollouts, and when they have settled


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
        "method": None,
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
        "advantages": None,
        "resample": 1,
        "drop": False,
        "no_score": None,
    }
    (dropped,) = groups(service, min_valid=5)
    assert dropped["drop"] is True
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


# --- What a batch used: as its calls say one by one, and of how many nothing is known -------------


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


@pytest.mark.parametrize("by", ["role", "task"])  # from what is kept of calls, and from calls
def test_a_tier_or_paid_tools_make_a_cost_a_lower_bound(service: Service, by: str) -> None:
    play(service, "plain")
    plain = service.get("/batches/b/usage", by=by)["sum"]
    play(service, "priority", answers.chat(service_tier="priority"), task="t1")
    told = service.get("/batches/b/usage", by=by)["sum"]
    assert (told["billable_calls"], told["cost_known_calls"], told["special_calls"]) == (2, 1, 1)
    assert told["cost_usd"] == plain["cost_usd"]
    (call,) = service.get("/rollouts/priority/exchanges")["items"]
    assert (call["billed_as"], call["cost_usd"]) == ("priority", None)
    assert call["total_tokens"] is not None


@pytest.mark.slow
@pytest.mark.postgres_smoke
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
