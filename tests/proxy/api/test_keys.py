"""The `/key` routes: what they refuse, and whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services
from tests.proxy.control.test_virtual_keys import delete, generate


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
