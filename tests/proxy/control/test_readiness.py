"""Readiness: the database answers and the recorder writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proxy.api.test_routes import Service


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.mark.postgres_smoke
def test_health_and_readiness(service: Service) -> None:
    assert service.get("/healthz")["status"] == "ok"
    assert service.get("/readyz") == {
        "status": "ready", "database": True, "recorder": True, "gaps": 0, "waiting": 0,
    }  # fmt: skip
