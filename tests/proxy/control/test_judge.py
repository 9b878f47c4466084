"""Which rollouts a list judges anew: those whose calls are not all in their verdict, no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services

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


def test_registering_what_traffic_created_judges_it_again(service: Service) -> None:
    path = "/r/r1/openai/v1/chat/completions"
    service.provider.plays(DEAD)
    service.http.post(path, json={"model": "other", "messages": []})
    service.provider.plays(answers.chat())
    service.http.post(path, json={"model": "gpt-5", "messages": ["the longer one of the two"]})
    assert service.get("/rollouts", health="healthy")["items"]
    service.http.post("/rollouts", json={"id": "r1", "batch": "b", "model": "other"})
    assert service.get("/batches/b")["health"] == {"api_error": 1}
