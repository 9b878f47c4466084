"""Virtual keys as LiteLLM's clients generate, describe and delete them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.proxy.api.test_routes import ASK, PLAIN, Service, problem
from tests.proxy.relay.test_minted_keys import by_key, calls, end, register


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def generate(service: Service, **asked: Any) -> dict[str, Any]:
    answer = service.http.post("/key/generate", json=asked)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_key_is_a_rollout_that_its_alias_names(service: Service) -> None:
    made = generate(
        service, key_alias="django-123", team_id="swe", user_id="u", models=["gpt-5"],
        metadata={"run": 7}, max_budget=5.0, tpm_limit=10, duration=None, guardrails=["x"],
    )  # fmt: skip
    assert made["key"].startswith("tz-")
    assert made["key_name"] == "tz-..." + made["key"][-4:]
    assert (made["key_alias"], made["team_id"], made["user_id"]) == ("django-123", "swe", "u")
    assert (made["models"], made["metadata"], made["expires"]) == (["gpt-5"], {"run": 7}, None)
    assert (made["spend"], made["blocked"], made["max_budget"]) == (0.0, False, None)
    assert by_key(service, made["key"]).status_code == 200
    verdict = service.get("/rollouts/django-123/verdict")
    assert (verdict["health"], verdict["batch"], verdict["total_requests"]) == ("healthy", "swe", 1)
    (call,) = service.get("/rollouts/django-123/exchanges")["items"]
    assert call["attribution_source"] == "minted_key"


def test_a_key_needs_nothing_said_about_it(service: Service) -> None:
    one, two = generate(service), generate(service)
    assert one["key"] != two["key"]
    assert one["rollout_id"] != two["rollout_id"]
    assert (one["key_alias"], one["models"], one["metadata"]) == (None, [], {})
    url = one["base_urls"]["openai"] + "/chat/completions"
    assert httpx.post(url, json=ASK, verify=PLAIN).status_code == 200
    assert calls(service, one["rollout_id"]) == 1


def info(service: Service, key: str) -> dict[str, Any]:
    found = service.get("/key/info", key=key)
    assert found["key"] == key
    told: dict[str, Any] = found["info"]
    return told


def test_a_keys_spend_is_what_its_calls_cost(service: Service) -> None:
    made = generate(service)
    assert info(service, made["key"])["spend"] == 0.0
    by_key(service, made["key"])
    told = info(service, made["key"])
    assert told["spend"] == service.get(f"/rollouts/{made['rollout_id']}/verdict")["cost_usd"]
    assert told["spend"] is None or told["spend"] > 0
    assert {**told, "spend": None} == {**{k: made[k] for k in told}, "spend": None}


def test_no_key_is_told_again_but_to_who_shows_it(service: Service) -> None:
    made = generate(service, key_alias="a")
    secret = made["key"].partition(".")[2]
    assert secret not in str(info(service, made["key"]))
    assert secret not in str(service.get("/rollouts")["items"])


def delete(service: Service, **named: Any) -> httpx.Response:
    return service.http.post("/key/delete", json=named)


def test_a_deleted_key_opens_nothing_and_its_record_stays(service: Service) -> None:
    made = generate(service)
    assert by_key(service, made["key"]).status_code == 200
    assert delete(service, keys=[made["key"]]).json() == {"deleted_keys": [made["key"]]}
    problem(by_key(service, made["key"]), 403, "rollout_ended")
    told = info(service, made["key"])
    assert told["blocked"] is True
    assert calls(service, made["rollout_id"]) == 1
    assert delete(service, keys=[made["key"]]).status_code == 200, "again is harmless"
    end(service, made["rollout_id"])
    assert service.get(f"/rollouts/{made['rollout_id']}/result")["status"] == "success"


def test_keys_are_deleted_by_alias_too(service: Service) -> None:
    made = generate(service, key_alias="a_b")
    bystanders = (generate(service, key_alias="axb"), register(service, id="axb.1", task="a_b"))
    assert delete(service, key_aliases=["a_b"]).json() == {"deleted_keys": ["a_b"]}
    problem(by_key(service, made["key"]), 403, "rollout_ended")
    for bystander in bystanders:
        assert by_key(service, bystander["key"]).status_code == 200


@pytest.mark.postgres_smoke
def test_where_one_key_is_unknown_none_is_deleted(service: Service) -> None:
    made = generate(service)
    for unknown in ({"keys": [made["key"], "tz-bm9uZQ.x"]}, {"key_aliases": ["nobody"]}):
        problem(delete(service, **{"keys": [made["key"]], **unknown}), 404, "unknown_key")
    assert by_key(service, made["key"]).status_code == 200


def test_an_alias_in_use_is_refused_and_one_that_was_deleted_is_not(service: Service) -> None:
    first = generate(service, key_alias="a")
    again = service.http.post("/key/generate", json={"key_alias": "a"})
    problem(again, 400, "key_alias_exists")
    delete(service, key_aliases=["a"])
    second = generate(service, key_alias="a")
    assert second["rollout_id"] != first["rollout_id"]
    assert second["key_alias"] == "a"
    problem(service.http.post("/key/generate", json={"key_alias": "a"}), 400, "key_alias_exists")
    assert delete(service, key_aliases=["a"]).status_code == 200
    problem(by_key(service, second["key"]), 403, "rollout_ended")


@pytest.mark.postgres_smoke
def test_a_key_lives_as_long_as_was_asked(service: Service) -> None:
    made = generate(service, duration="1h")
    left = datetime.fromisoformat(made["expires"]) - datetime.now(UTC)
    assert 3590 < left.total_seconds() <= 3600
    assert by_key(service, made["key"]).status_code == 200
    brief = generate(service, duration="0s")
    problem(by_key(service, brief["key"]), 403, "rollout_ended")


def test_deleting_a_key_brings_its_end_forward_and_never_back(service: Service) -> None:
    made = generate(service, duration="0s")
    before = info(service, made["key"])["expires"]
    delete(service, keys=[made["key"]])
    assert info(service, made["key"])["expires"] == before
