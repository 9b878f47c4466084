"""Base URLs that lead to the service, past it and nowhere."""

from __future__ import annotations

from tests.fakes.provider import closed_port
from tests.proxy.api.test_routes import Service
from tests.truezero.runner.doctor.looking import look
from truezero import Client


def test_a_base_url_that_leads_past_the_proxy(client: Client, service: Service) -> None:
    found = look(client, {"ANTHROPIC_BASE_URL": service.provider.url})["ANTHROPIC_BASE_URL"]
    assert found.health == "failed"
    assert "bypass the proxy" in found.told


def test_a_base_url_that_leads_nowhere(client: Client) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}/r/x/openai/v1"
    found = look(client, {"OPENAI_BASE_URL": nowhere})["OPENAI_BASE_URL"]
    assert found.health == "failed"
    assert "cannot reach" in found.told


def test_no_base_url_is_no_failure(client: Client) -> None:
    assert look(client)["base URLs"].health == "skipped"
