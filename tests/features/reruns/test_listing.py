"""What a batch has to run again, as the service's own verdicts say, whole and by pages."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from classifier.reruns import FIXES
from proxy.control import queries
from proxy.control.queries import Service as ControlService
from proxy.features.reruns import listing
from proxy.features.reruns.listing import RerunLists, RerunTotals
from tests.proxy.api.test_routes import Service, empty, problem
from tests.proxy.control.test_batches import ABORTED, DEAD, DOWN, play
from tests.proxy.control.test_judge import advice, answer
from tests.proxy.control.test_reported import SEVERAL, judged_by_three

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
    before = control.state(RerunLists)["b"]
    assert service.get("/batches/b/rerun") == first
    assert control.state(RerunLists)["b"] is before
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
    count = listing._count  # noqa: SLF001  the count is made to fail

    def counts(connection: Any, batch: str, policy: Any) -> Any:
        counted.append(batch)
        return count(connection, batch, policy)

    monkeypatch.setattr(listing, "_count", counts)
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
    control.state(RerunTotals).clear()  # as in another process
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


def test_attempts_while_a_lane_answers_nobody_do_not_count(service: Service) -> None:
    for number in range(4):
        advice(service, number)
    reruns = service.get("/batches/b/rerun")
    assert [reruns[kind]["count"] for kind in ("transient", "fix_first")] == [1, 0]


@pytest.mark.slow
def test_attempts_count_once_a_lane_has_answered_others(service: Service) -> None:
    for number in range(4):
        advice(service, number)
    advice(service, 0, "other")
    answer(service)
    for number in range(4, 6):
        advice(service, number)
    assert service.get("/batches/b/rerun")["transient"]["count"] == 2


def test_several_rewards_of_which_none_is_the_score_say_the_fix(service: Service) -> None:
    judged_by_three(service)
    (group,) = service.get("/batches/b/rerun")["unmeasured"]["groups"]
    assert (group["cause"], group["fix"], group["count"]) == ("score_key", SEVERAL, 3)
