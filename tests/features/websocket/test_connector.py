"""Opening WebSockets to providers: what is sent, and the error of each failure."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from websockets.asyncio.client import ClientConnection

from classifier.records import Ending
from proxy.features.websocket.connector import (
    UpgradeRefusedError,
    WebSocketConnector,
    WebSocketUnreachableError,
)
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream
from tests.fakes.provider import closed_port
from tests.fakes.talker import Talker

PATIENCE_S = 300.0


@pytest.fixture
def talker() -> Iterator[Talker]:
    with Talker(speaks=("realtime",)) as running:
        yield running


async def opened(
    url: str, target: bytes = b"/v1/responses", headers: Pairs | None = None, **more: float
) -> ClientConnection:
    return await WebSocketConnector().open(
        Upstream(name="there", url=url),
        target,
        headers or [],
        subprotocols=["realtime"],
        deflate=False,
        timeout_s=more.get("timeout_s", PATIENCE_S),
    )


async def test_the_target_and_the_headers_are_sent_as_they_are(talker: Talker) -> None:
    headers = [(b"authorization", b"Bearer k"), (b"x-a", b"1"), (b"x-a", b"2")]
    socket = await opened(talker.url, b"//a%2Fb/../c?model=x%20y", headers)
    async with socket:
        await socket.send("hi")
        assert await socket.recv() == "hi"
        assert socket.subprotocol == "realtime"
    (upgrade,) = talker.upgrades
    assert upgrade.path == "//a%2Fb/../c?model=x%20y"
    assert upgrade.headers["authorization"] == "Bearer k"
    assert upgrade.headers.get_all("x-a") == ["1", "2"]
    assert "user-agent" not in upgrade.headers


@pytest.mark.parametrize("status", [302, 401, 404])
async def test_a_refused_upgrade_has_the_providers_response(talker: Talker, status: int) -> None:
    talker.refuses(status, b"no", location="/elsewhere", x_a="1")
    with pytest.raises(UpgradeRefusedError) as caught:
        await opened(talker.url)
    assert (caught.value.status, caught.value.body) == (status, b"no")
    assert (b"x-a", b"1") in caught.value.headers
    assert len(talker.upgrades) == 1, "no redirect is followed"


async def test_a_closed_port_is_never_connected() -> None:
    with pytest.raises(WebSocketUnreachableError) as caught:
        await opened(f"http://127.0.0.1:{closed_port()}")
    failure = caught.value
    assert (failure.ending, failure.status) == (Ending.NEVER_CONNECTED, 502)
    assert failure.code == "upstream_unreachable"


async def test_a_forward_proxy_that_is_not_there_is_never_connected(
    monkeypatch: pytest.MonkeyPatch, talker: Talker
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(WebSocketUnreachableError) as caught:
        await opened(talker.url)
    assert caught.value.ending is Ending.NEVER_CONNECTED
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with await opened(talker.url):
        assert len(talker.upgrades) == 1


async def test_no_path_is_logged(talker: Talker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with await opened(talker.url, b"/secret/path?token=1") as socket:
            await socket.send("hush")
            await socket.recv()
    ours = [record for record in caplog.records if record.name != "websockets.server"]
    assert not [record for record in ours if "secret" in record.getMessage()]
    assert not [record for record in ours if "hush" in record.getMessage()]
