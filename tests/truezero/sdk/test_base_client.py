"""Where both clients connect: the address in the environment, and never through a proxy to here."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.provider import closed_port
from truezero.sdk.client import Client
from truezero.sdk.errors import ServiceError


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://elsewhere:1/")
    with Client() as client:
        assert client.url == "http://elsewhere:1"


def test_a_proxy_for_the_world_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("HTTP_PROXY", nowhere)
    port = closed_port()
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ServiceError) as caught:
        client.greet()
    cause = caught.value.__cause__
    assert isinstance(cause, httpx.ConnectError)
    assert cause.request.url.port == port
    pool = client._http._transport_for_url(httpx.URL(client.url))
    assert pool is client._http._transport
