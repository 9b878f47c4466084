"""Opening WebSockets to providers: what is sent, and the error of each failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from websockets.asyncio.client import ClientConnection

from classifier.records import Ending
from proxy.features.websocket.connector import (
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
