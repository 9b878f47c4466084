"""The page of causes does not list what agents did themselves."""

from __future__ import annotations

from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import words
from tests.truezero.cli.test_own_failures import service

__all__ = ["service"]


def test_no_rollout_failed_by_a_provider_where_agents_failed_by_themselves(
    service: Service,
) -> None:
    causes = words(service.http.get("/ui/causes").text)
    assert "No failures" not in causes
    assert "No rollout failed by a provider" in causes
