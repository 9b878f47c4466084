"""The route of reruns: what it takes and gives."""

from __future__ import annotations

import pytest

from tests.pairs import PAIRINGS, Pairing
from tests.proxy.api.test_addresses import FORGED, cursor, status
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import play
from truezero import models


@pytest.fixture
def service(services: Services) -> Service:
    return services()


def test_reruns_are_as_they_are_described(service: Service) -> None:
    play(service, "a", batch="x/y", task="t", reward=1.0)
    rerun = service.get("/batches/x%2Fy/rerun")
    assert models.Reruns.model_validate(rerun).model_dump(mode="json") == rerun


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_forged_cursor_is_none(service: Service, pairing: Pairing) -> None:
    service.http.post("/rollouts", json={"id": "r1", "batch": "b"})
    for text, path in pairing(FORGED, ["/batches/b/rerun"]):
        assert status(service, f"{path}?after={cursor(text)}") in (404, 422), text[:40]


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("limit=0", "limit", "must be at least 1, not 0"),
        ("limit=1001", "limit", "must be at most 1000, not 1001"),
        ("limit=x", "limit", "must be a whole number, not 'x'"),
        ("after=x", "after", "not a valid page cursor"),
        ("kind=transient", "kind", "unknown; it takes after, limit"),
    ],
)
def test_an_unreadable_parameter_of_reruns_is_named(
    service: Service, query: str, field: str, message: str
) -> None:
    play(service, "a")
    detail = problem(service.http.get(f"/batches/b/rerun?{query}"), 422, "invalid")["detail"]
    assert detail.startswith(f"{field}: ")
    assert message in detail
