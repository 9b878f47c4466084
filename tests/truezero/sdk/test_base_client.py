"""Where both clients connect: the address in the environment, and never through a proxy to here."""
# ruff: noqa: SLF001
# Private: httpx's choice of a pool.

from __future__ import annotations

import httpx
import pytest

from tests.fakes.provider import closed_port
from truezero import AsyncClient, Client
from truezero.sdk.errors import ServiceError


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://elsewhere:1/")
    with Client() as client:
        assert client.url == "http://elsewhere:1"


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("url", ["localhost:8383", "127.0.0.1:8383", "http:/here", "//here:8383"])
def test_an_address_without_a_scheme_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, client: type[Client | AsyncClient], url: str
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", url)
    with pytest.raises(ServiceError) as caught:
        client()
    assert str(caught.value).startswith(
        f"the service's address {url!r} does not begin with http:// or https://: set TRUEZERO_URL"
    )
    assert ("for example http://localhost:8383" in str(caught.value)) == (url == "localhost:8383")


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
