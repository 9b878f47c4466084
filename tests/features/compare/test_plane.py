"""The route of comparisons: what it takes, and that it takes no upstream's name."""

from __future__ import annotations

import pytest

from tests.proxy.api.test_routes import CHAT, Service, problem
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import play
from truezero import models


@pytest.fixture
def service(services: Services) -> Service:
    return services(upstreams=("OPENAI", "COMPARE"))


def test_a_comparison_is_as_it_is_described(service: Service) -> None:
    play(service, "a", batch="x/y", task="t", reward=1.0)
    play(service, "b", batch="z", task="t")
    compared = service.get("/compare", a="x/y", b="z")
    assert models.BatchComparison.model_validate(compared).model_dump(mode="json") == compared


@pytest.mark.parametrize("query", [{}, {"a": "b"}, {"a": "b", "b": ""}])
def test_a_comparison_needs_two_batches(service: Service, query: dict[str, str]) -> None:
    problem(service.http.get("/compare", params=query), 422, "invalid")


def test_an_upstream_of_a_routes_name_is_reached_as_before(service: Service) -> None:
    asked = {"model": "gpt-5", "messages": []}
    for path in (f"/r/r1/compare{CHAT}", f"/compare{CHAT}"):
        named = {"x-truezero-rollout": "r1"}
        assert service.http.post(path, json=asked, headers=named).status_code == 200, path
    calls = service.get("/rollouts/r1/exchanges")["items"]
    assert [call["upstream"] for call in calls] == ["compare", "compare"]
    problem(service.http.get("/compare"), 422, "invalid")
