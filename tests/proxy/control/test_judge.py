"""Which rollouts a list judges anew, and results, which speak as their verdicts do."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import ASK, CHAT, Service
from tests.proxy.conftest import Services
from tests.proxy.store.records import FULL

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]


@pytest.fixture
def service(services: Services) -> Service:
    return services()


def given_at(service: Service) -> float:
    with closing(sqlite3.connect(service.database)) as connection:
        (found,) = connection.execute("SELECT given_at FROM verdicts").fetchone()
    return float(found)


def test_a_list_does_not_judge_again_what_has_not_changed(service: Service) -> None:
    service.call()
    service.get("/rollouts")
    before = given_at(service)
    service.get("/rollouts")
    assert given_at(service) == before


def test_a_list_judges_again_after_another_call(service: Service) -> None:
    service.call()
    assert [item["health"] for item in service.get("/rollouts")["items"]] == ["healthy"]
    service.provider.plays(DEAD)
    service.call()
    assert [item["health"] for item in service.get("/rollouts")["items"]] == ["api_error"]


def test_claims_whose_sum_no_database_takes_stop_no_list(service: Service) -> None:
    claimed = replace(FULL, usage=replace(FULL.usage, input_total=2**53 - 1, cost_usd=1e308))
    database = Database(str(service.database))
    calls = [replace(claimed, id=f"x{n}", rollout_id="r1") for n in range(1030)]
    database.calls.write(CommitBatch(recorded=calls), worker="w")
    database.close()
    assert [item["id"] for item in service.get("/rollouts")["items"]] == ["r1"]
    verdict = service.get("/rollouts/r1/verdict")
    assert (verdict["total_requests"], verdict["output_tokens"]) == (1030, 8 * 1030)
    assert [verdict[name] for name in ("input_tokens", "total_tokens", "cost_usd")] == [None] * 3


def test_registering_what_traffic_created_judges_it_again(service: Service) -> None:
    path = "/r/r1/openai/v1/chat/completions"
    service.provider.plays(DEAD)
    service.http.post(path, json={"model": "other", "messages": []})
    service.provider.plays(answers.chat())
    service.http.post(path, json={"model": "gpt-5", "messages": ["the longer one of the two"]})
    assert service.get("/rollouts", health="healthy")["items"]
    service.http.post("/rollouts", json={"id": "r1", "batch": "b", "model": "other"})
    assert service.get("/batches/b")["health"] == {"api_error": 1}


# --- a score that a dead judge gave -------------------------------------------------------------

UNJUDGED = "not scored: role judge did not reach its model in 1 of 1 call (auth) (judge_failed)"
ZERO = {"status": "success", "termination_reason": "agent_stop", "rewards": {"reward": 0.0}}


def judged_by_nobody(service: Service, rollout: str = "r1") -> dict[str, Any]:
    """Play a rollout whose judge has a dead key, and return the answer to its outcome."""
    at = {"id": rollout, "batch": "b", "task": "t", "repeat": 0, "repeats": 1}
    service.http.post("/rollouts", json=at)
    service.provider.plays(answers.healthy)
    service.call(rollout)
    service.provider.plays(DEAD)
    service.http.post(f"/r/{rollout}/as/judge/openai{CHAT}", json=ASK)
    answer = service.http.post(f"/rollouts/{rollout}/outcome", json=ZERO)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def test_a_reward_that_a_dead_judge_gave_is_null_wherever_it_is_read(service: Service) -> None:
    result = judged_by_nobody(service)
    assert service.get("/rollouts/r1/verdict")["scoreable"] == "no"
    assert service.get("/rollouts/r1/result") == result
    assert (result["health"], result["rewards"], result["error"]) == ("healthy", None, UNJUDGED)
    (item,) = service.get("/rollouts", reward="null")["items"]
    assert (item["scoreable"], item["reward"]) == ("no", None)
    assert service.get("/rollouts", reward="zero")["items"] == []
    (row,) = csv.DictReader(
        io.StringIO(service.http.get("/rollouts", headers={"accept": "text/csv"}).text)
    )
    assert (row["scoreable"], row["reward"]) == ("no", "")
    batch = service.get("/batches/b")
    assert (batch["scored"], batch["score_effective"], batch["coverage"]) == (0, None, 0.0)
    (group,) = service.get("/batches/b/groups")["items"]
    assert (group["rewards"], group["valid"], group["baseline"]) == ([None], [False], None)
    shown = service.http.get("/ui/rollouts/r1", headers={"accept": "text/html"}).text
    assert "<s>0</s> <b>null</b>" in shown


def test_what_the_runner_says_went_wrong_stays_its_own_error(service: Service) -> None:
    judged_by_nobody(service)
    service.http.post("/rollouts", json={"id": "r2", "batch": "b"})
    service.http.post(f"/r/r2/as/judge/openai{CHAT}", json=ASK)
    service.provider.plays(answers.healthy)
    service.call("r2")
    told = {**ZERO, "error": "the judge said nothing"}
    result = service.http.post("/rollouts/r2/outcome", json=told).json()
    assert (result["scoreable"], result["rewards"]) == ("no", None)
    assert result["error"] == "the judge said nothing"


def test_a_result_that_an_earlier_version_stored_says_the_same(service: Service) -> None:
    result = judged_by_nobody(service)
    earlier = {**result, "rewards": {"reward": 0.0}, "error": None}
    with closing(sqlite3.connect(service.database)) as connection, connection:
        connection.execute("UPDATE verdicts SET result = ?", [json.dumps(earlier)])
    assert service.get("/rollouts/r1/result") == result
