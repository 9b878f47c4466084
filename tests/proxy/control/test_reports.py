from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from classifier.reruns import FIXES
from proxy.control import queries, reports
from proxy.control import reports as module
from proxy.control.pricing import PriceTable
from proxy.control.queries import Service as ControlService
from proxy.store.batches import call_sums
from proxy.store.database import Database
from tests.fakes import answers
from tests.proxy.api.test_routes import Service, empty, problem
from tests.proxy.control.test_batches import ABORTED, CHAT, DEAD, DOWN, play
from tests.proxy.control.test_events import events_of

# --- What a batch has to run again, as the service's own verdicts say -----------------------------

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


@pytest.mark.slow
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


def test_lists_are_made_anew_only_when_something_changed(
    service: Service, control: ControlService
) -> None:
    play(service, "down", DOWN, task="t", repeat=0, repeats=2)
    first = service.get("/batches/b/rerun")
    assert listed(first)["unmeasured"] == {"never_started": [None]}
    before = control.reruns["b"]
    assert service.get("/batches/b/rerun") == first
    assert control.reruns["b"] is before
    play(service, "up", task="t", repeat=1, repeats=2, reward=1.0)
    assert listed(service.get("/batches/b/rerun"))["unmeasured"] == {}
    empty(service.database)  # as when it is pruned
    play(service, "up", task="t", repeat=0, repeats=2, reward=1.0)
    play(service, "down", DOWN, task="t", repeat=1, repeats=2)
    told = service.get("/batches/b/rerun")
    assert [item["repeat"] for item in told["transient"]["groups"][0]["items"]] == [1]


def paged(service: Service, limit: int) -> list[dict[str, Any]]:
    """All pages."""
    pages = [service.get("/batches/b/rerun", limit=limit)]
    while (after := pages[-1]["next"]) is not None:
        pages.append(service.get("/batches/b/rerun", limit=limit, after=after))
    return pages


def joined(pages: list[dict[str, Any]]) -> dict[str, Any]:
    """The items of pages in the first of them; its groups are those of all."""
    whole, *further = copy.deepcopy(pages)
    for page in further:
        for kind in KINDS:
            assert page[kind]["count"] == whole[kind]["count"]
            for group, more in zip(whole[kind]["groups"], page[kind]["groups"], strict=True):
                group["items"] += more["items"]
    return {**whole, "next": None}


@pytest.mark.postgres_smoke
@pytest.mark.slow
def test_pages_join_to_the_whole_and_each_counts_all_of_it(service: Service) -> None:
    play(service, "down-0", DOWN, task="t", repeat=0, repeats=4)
    play(service, "alone", DOWN)
    play(service, "held-back", ABORTED, task="other")
    play(service, "down-1", DOWN, task="t", repeat=2, attempt=0, repeats=4)
    play(service, "again", DOWN, task="t", repeat=2, attempt=1, repeats=4)
    service.http.post("/rollouts", json={"id": "new", "batch": "b", "task": "new"})
    whole = service.get("/batches/b/rerun")
    assert listed(whole)["unmeasured"] == {
        "never_started": [None] * 2,
        "engine_aborted": ["held-back"],
    }
    assert (whole["transient"]["count"], whole["running"], whole["next"]) == (3, 1, None)
    for limit in (1, 2, 3, 4, 5, 6, 7):
        pages = paged(service, limit)
        assert len(pages) == max(1, -(-6 // limit)), limit
        assert joined(pages) == whole


async def test_pages_are_counted_once_while_the_batch_goes_on(
    service: Service, control: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        play(service, name, DOWN, task=name)
    counted: list[str] = []
    count = module._count

    def counts(connection: Any, batch: str, policy: Any) -> Any:
        counted.append(batch)
        return count(connection, batch, policy)

    monkeypatch.setattr(module, "_count", counts)
    first = service.get("/batches/b/rerun", limit=1)
    play(service, "late", DEAD, task="late")
    second = service.get("/batches/b/rerun", limit=1, after=first["next"])
    third = service.get("/batches/b/rerun", limit=2, after=second["next"])
    assert counted == ["b"]
    assert [item["task"] for item in second["transient"]["groups"][0]["items"]] == ["b"]
    assert [page["transient"]["count"] for page in (first, second, third)] == [3, 3, 3]
    assert (second["fix_first"]["count"], third["fix_first"]["count"]) == (0, 1), "newer than those"
    assert service.get("/batches/b/rerun", limit=1)["fix_first"]["count"] == 1
    assert counted == ["b", "b"], "who begins anew reads what is so now"
    control.rerun_counts.clear()  # as in another process
    assert service.get("/batches/b/rerun", after=first["next"])["fix_first"]["count"] == 1
    empty(service.database)
    play(service, "b", DOWN, task="b")
    told = service.get("/batches/b/rerun", after=first["next"])
    assert told["transient"]["count"] == 1, "a batch made anew is another"


@pytest.mark.parametrize(
    "place", [[], [1, 1.0, True, "x", "r"], [1, 1.0, True, 1.0, 7], [1, 1.0, False, "t", None], 7,
              ["v", 1.0, True, 1.0, "r"], [1, 1.0, False, "t\x00", 1], [1, None, True, 1.0, "r"]],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(service: Service, place: Any) -> None:
    play(service, "down", DOWN)
    cursor = queries.encode_cursor(place)
    problem(service.http.get("/batches/b/rerun", params={"after": cursor}), 422, "invalid")


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


@pytest.fixture
def usage_service(on_both: Callable[..., Service]) -> Service:
    return on_both()


UNCOUNTED = answers.whole({"choices": [{"message": {"content": "so"}}]})


def filled(usage_service: Service) -> list[dict[str, Any]]:
    """A batch with a judge, a failure, an unknown model and a call without counts; its calls."""
    for n in range(3):
        play(usage_service, f"fine-{n}", task=f"t{n}")
    play(usage_service, "dead", DEAD, task="t0")
    play(usage_service, "unpriced", answers.chat("nobody-knows"), model="nobody-knows", task="t1")
    usage_service.http.post("/rollouts", json={"id": "judged", "batch": "b", "task": "t2"})
    for role, answer in (("", UNCOUNTED), ("as/judge/", answers.chat())):
        usage_service.provider.plays(answer)
        usage_service.http.post(
            f"/r/judged/{role}openai{CHAT}", json={"model": "gpt-5", "messages": []}
        )
    names = ("fine-0", "fine-1", "fine-2", "dead", "unpriced", "judged")
    return [
        call for name in names for call in usage_service.get(f"/rollouts/{name}/exchanges")["items"]
    ]


def test_sums_are_those_of_the_calls_and_say_what_they_stand_on(usage_service: Service) -> None:
    calls = filled(usage_service)
    told = usage_service.get("/batches/b/usage", by="role")
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
def test_a_tier_or_paid_tools_make_a_cost_a_lower_bound(usage_service: Service, by: str) -> None:
    play(usage_service, "plain")
    plain = usage_service.get("/batches/b/usage", by=by)["sum"]
    play(usage_service, "priority", answers.chat(service_tier="priority"), task="t1")
    told = usage_service.get("/batches/b/usage", by=by)["sum"]
    assert (told["billable_calls"], told["cost_known_calls"], told["special_calls"]) == (2, 1, 1)
    assert told["cost_usd"] == plain["cost_usd"]
    (call,) = usage_service.get("/rollouts/priority/exchanges")["items"]
    assert (call["billed_as"], call["cost_usd"]) == ("priority", None)
    assert call["total_tokens"] is not None


@pytest.mark.slow
@pytest.mark.postgres_smoke
def test_it_is_by_any_of_model_upstream_role_and_task(usage_service: Service) -> None:
    filled(usage_service)
    told = usage_service.get("/batches/b/usage")
    assert told["by"] == ["model", "upstream", "role"]
    most, *_ = told["items"]
    assert (most["upstream"], most["role"]) == ("openai", "agent"), "the most expensive first"
    by_task = {
        each["task"]: each["calls"]
        for each in usage_service.get("/batches/b/usage", by="task")["items"]
    }
    assert by_task == {"t0": 2, "t1": 2, "t2": 3}
    (whole,) = usage_service.get("/batches/b/usage", by="")["items"]
    assert whole["calls"] == 7
    refusal = problem(
        usage_service.http.get("/batches/b/usage", params={"by": "key"}), 422, "invalid"
    )
    assert refusal["detail"] == "by: 'key' is none of model, upstream, role, task"


def test_a_batch_without_calls_used_nothing_that_is_known(usage_service: Service) -> None:
    usage_service.http.post("/rollouts", json={"id": "new", "batch": "b"})
    told = usage_service.get("/batches/b/usage")
    assert (told["items"], told["sum"]["calls"], told["sum"]["cost_usd"]) == ([], 0, None)
    problem(usage_service.http.get("/batches/nobody/usage"), 404, "unknown_batch")


def test_calls_are_priced_one_by_one_where_a_price_changes_within_a_sum(
    usage_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(usage_service)
    told = usage_service.get("/batches/b/usage")
    asked: list[Any] = []

    def holds(_self: PriceTable, *args: Any, above: int) -> bool:
        asked.append((*args, above))
        return False

    monkeypatch.setattr(PriceTable, "holds", holds)
    monkeypatch.setattr(reports, "usage_sums", lambda *_: call_sums(*_)[:1])  # would be wrong
    again = usage_service.get("/batches/b/usage")
    assert asked
    for name, value in told["sum"].items():
        near = isinstance(value, float)
        assert again["sum"][name] == (pytest.approx(value, abs=1e-6) if near else value), name
