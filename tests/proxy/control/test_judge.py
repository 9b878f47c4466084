"""Which rollouts a list judges anew: those whose calls are not all in their verdict, no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from proxy.store.database import Database
from proxy.store.types import CommitBatch
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service
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
