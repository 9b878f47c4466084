"""The control plane as one application, and the base URL it hands to agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.api.test_routes import Service, serving
from tests.proxy.conftest import Services


@pytest.mark.parametrize(
    ("settings", "host", "base"),
    [
        ({}, "localhost:9000", "http://localhost:9000"),
        ({"PUBLIC_URL": "https://proxy.example/x/"}, "proxy.example", "https://proxy.example/x"),
    ],
)
def test_agents_are_sent_to_the_public_url_else_where_the_runner_asked(
    services: Services, settings: dict[str, Any], host: str, base: str
) -> None:
    service: Service = services(**settings)
    registered = service.http.post("/rollouts", json={"id": "r"}, headers={"host": host}).json()
    assert registered["base_urls"]["openai"] == f"{base}/r/r/openai/v1"


def test_rest_keys_metrics_pages_and_documentation_are_one_application(services: Services) -> None:
    service: Service = services()
    for path in ("/rollouts", "/metrics", "/", "/docs", "/help", "/openapi.json", "/healthz"):
        assert service.http.get(path, follow_redirects=True).status_code == 200, path
    assert service.http.post("/key/generate", json={}).status_code == 200


def test_pages_are_not_part_of_the_api_description(services: Services) -> None:
    paths = services().get("/openapi.json")["paths"]
    assert "/rollouts/{rollout_id}/verdict" in paths
    assert not [path for path in paths if path.startswith("/ui") or path == "/"]


def test_registrations_and_keys_share_one_rate_limit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving(tmp_path_factory.mktemp("limit"), REGISTRATIONS_PER_S="0.001") as service:
        statuses = [
            service.http.post(path, json={}).status_code
            for path in ("/rollouts", "/key/generate", "/rollouts", "/key/generate")
        ]
    assert statuses[0] == 201
    assert statuses[-1] == 429
