"""A WebSocket goes over TLS as a call does."""

from __future__ import annotations

from typing import Any

from websockets.sync.client import connect

from tests.fakes.relaying import Protocol, Tls, running


def test_a_websocket_goes_over_tls(tls: Tls) -> None:
    scopes = []

    async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for done in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{done}.complete"})
            return
        scopes.append(scope["scheme"])
        await receive()
        await send({"type": "websocket.accept"})
        message = await receive()
        await send({"type": "websocket.send", "text": message["text"]})
        await receive()

    with (
        running(echo, protocol=Protocol(http=tls.http)) as port,
        connect(f"wss://127.0.0.1:{port}/", proxy=None, ssl=tls.trust) as agent,
    ):
        agent.send("x" * 70_000)
        assert agent.recv(timeout=60) == "x" * 70_000
    assert scopes == ["wss"]
