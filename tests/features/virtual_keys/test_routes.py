"""The `/key` routes: what they refuse, and whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.features.virtual_keys.test_virtual_keys import delete, generate
from tests.proxy.api.test_port_policy import TOKEN, two_ports
from tests.proxy.api.test_routes import Service, problem, serving
from tests.proxy.conftest import Services


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_a_key_opens_no_control_route(services: Services) -> None:
    service = services(ADMIN_TOKEN="s3cret-token")
    operator = {"authorization": "Bearer s3cret-token"}
    made = service.http.post("/key/generate", json={}, headers=operator).json()
    service.http.headers["authorization"] = f"Bearer {made['key']}"
    for method, path in (
        ("POST", "/key/generate"),
        ("GET", f"/key/info?key={made['key']}"),
        ("POST", "/key/delete"),
        ("GET", "/rollouts"),
        ("POST", f"/rollouts/{made['rollout_id']}/outcome"),
    ):
        problem(service.http.request(method, path, json={}), 401, "unauthorized")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"duration": "soon"}, "duration"),
        ({"duration": "-1h"}, "duration"),
        ({"duration": False}, "duration"),
        ({"duration": True}, "duration"),
        ({"key_alias": ""}, "key_alias"),
        ({"key_alias": "a\u2028b"}, "key_alias"),
        ({"key_alias": "x" * 201}, "key_alias"),
        ({"models": "gpt-5"}, "models"),
        ({"metadata": []}, "metadata"),
        ({"key": "sk-my-own"}, "key"),
    ],
)
def test_a_request_that_cannot_be_kept_is_refused(
    service: Service, asked: dict[str, Any], field: str
) -> None:
    answer = service.http.post("/key/generate", json=asked)
    assert problem(answer, 422, "invalid")["errors"][0]["field"].partition(".")[0] == field


def test_a_key_that_is_not_ours_is_unknown(service: Service) -> None:
    made = generate(service)
    for key in ("sk-x", "tz-", made["key"][:-1] + "!", "tz-bm9uZQ.AAAAAAAAAAAAAAAAAAAAAAAA"):
        problem(service.http.get("/key/info", params={"key": key}), 404, "unknown_key")
    problem(service.http.get("/key/info"), 422, "invalid")
    problem(delete(service), 422, "invalid")


def test_registrations_are_paced_by_rollout_and_key_together(tmp_path: Path) -> None:
    with serving(tmp_path, REGISTRATIONS_PER_S="0.2") as service:
        assert service.http.post("/rollouts", json={"id": "a"}).status_code == 201
        assert service.http.post("/key/generate", json={}).status_code == 200
        for path in ("/rollouts", "/key/generate"):
            answer = service.http.post(path, json={"id": "b"})
            assert answer.status_code == 429
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["x-truezero-refusal"] == "too_many_registrations"
            assert 1 <= int(answer.headers["retry-after"]) <= 5
        assert service.http.get("/rollouts/b/verdict").status_code == 404
        assert service.call("a").status_code == 200, "calls have no such pace"
        outcome = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}
        assert service.http.post("/rollouts/a/outcome", json=outcome).status_code == 200


@pytest.mark.slow
def test_a_key_generated_at_the_control_port_leads_agents_to_the_other(tmp_path: Path) -> None:
    with two_ports(tmp_path, WORKERS="1", ADMIN_TOKEN="t0ken") as (service, control, *_):
        minted = control.post("/key/generate", json={"key_alias": "k"}, headers=TOKEN).json()
        assert minted["base_urls"]["openai"].startswith(f"{service.url}/r/k~")
