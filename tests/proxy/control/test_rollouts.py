"""Rollouts: registration, outcomes, lists and exchanges."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_registration_says_where_to_point_an_agent(service: Service) -> None:
    answer = service.http.post("/rollouts", json={"id": "a/b", "batch": "x", "model": "gpt-5"})
    assert answer.status_code == 201
    got = answer.json()
    base = str(service.http.base_url).rstrip("/")
    assert got["base_urls"]["openai"] == f"{base}/r/a%2Fb/openai/v1"
    assert got["base_urls"]["anthropic"] == f"{base}/r/a%2Fb/anthropic"
    assert got["env"]["OPENAI_BASE_URL"] == got["base_urls"]["openai"]
    assert (got["admitted"], got["error"]) == (True, None)
    assert got["key"].startswith("tz-")


def test_an_id_is_made_where_none_is_given(service: Service) -> None:
    one, two = (service.http.post("/rollouts", json={}).json()["id"] for _ in range(2))
    assert one != two


def test_the_public_address_can_differ_from_the_runners(services: Services) -> None:
    service = services(PUBLIC_URL="http://host.docker.internal:8383/")
    got = service.http.post("/rollouts", json={"id": "r"}).json()
    assert got["base_urls"]["openai"] == "http://host.docker.internal:8383/r/r/openai/v1"


def test_registering_again_needs_the_same_facts(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "r", "batch": "a"})
    assert service.http.post("/rollouts", json={"id": "r", "batch": "a"}).status_code == 201
    problem(service.http.post("/rollouts", json={"id": "r", "batch": "b"}), 409, "rollout_exists")


def test_exchanges_come_oldest_first_in_pages(service: Service) -> None:
    made = [service.call().headers["x-truezero-exchange"] for _ in range(5)]
    first = service.get("/rollouts/r1/exchanges", limit=3)
    rest = service.get("/rollouts/r1/exchanges", limit=3, after=first["next"])
    assert [call["id"] for call in first["items"] + rest["items"]] == made
    assert rest["next"] is None


def test_repeating_an_outcome_is_harmless_and_contradicting_it_is_not(service: Service) -> None:
    service.call()
    seen = {"status": "success", "rewards": {"reward": 1}}
    once, again = (service.http.post("/rollouts/r1/outcome", json=seen) for _ in range(2))
    assert once.json() == again.json()
    other = {**seen, "rewards": {"reward": 0}}
    problem(service.http.post("/rollouts/r1/outcome", json=other), 409, "outcome_exists")


def test_rollouts_are_listed_by_what_they_are(service: Service) -> None:
    for name, batch in (("good", "b1"), ("bad", "b1"), ("other", "b2")):
        service.http.post("/rollouts", json={"id": name, "batch": batch, "task": f"t-{name}"})
    service.call("good")
    service.call("other")
    service.provider.plays(answers.FAILURES[Api.CHAT][Fault.AUTH])
    service.call("bad")

    def ids(**filters: str) -> set[str]:
        return {item["id"] for item in service.get("/rollouts", **filters)["items"]}

    assert ids() == {"good", "bad", "other"}
    assert ids(batch="b1") == {"good", "bad"}
    assert ids(task="t-bad") == {"bad"}
    assert ids(health="api_error") == {"bad"}
    assert ids(subcategory="auth") == {"bad"}
    assert ids(fingerprint="auth:401") == {"bad"}
    assert ids(batch="b2", health="api_error") == set()
    assert ids(batch="nobody's") == set()


def test_a_list_comes_in_pages(service: Service) -> None:
    for number in range(5):
        service.http.post("/rollouts", json={"id": f"r{number}"})
    first = service.get("/rollouts", limit=2)
    second = service.get("/rollouts", limit=2, after=first["next"])
    last = service.get("/rollouts", limit=2, after=second["next"])
    pages = [item["id"] for page in (first, second, last) for item in page["items"]]
    assert pages == [f"r{number}" for number in range(5)]
    assert last["next"] is None
    problem(service.http.get("/rollouts", params={"after": "junk"}), 422, "invalid")


def test_registration_can_be_required(services: Services) -> None:
    service = services(REQUIRE_REGISTRATION="1")
    problem(service.call("new"), 401, "unregistered_rollout")
    problem(service.http.get("/rollouts/new/verdict"), 404, "unknown_rollout")
    service.http.post("/rollouts", json={"id": "new"})
    assert service.call("new").status_code == 200


def test_an_unknown_rollout_is_a_problem(service: Service) -> None:
    for path in ("verdict", "result", "exchanges"):
        problem(service.http.get(f"/rollouts/nobody/{path}"), 404, "unknown_rollout")
    seen = {"status": "success"}
    problem(service.http.post("/rollouts/nobody/outcome", json=seen), 404, "unknown_rollout")
