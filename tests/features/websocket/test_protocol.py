"""The server's side of an agent's WebSocket: the extension it offers, and how it ends."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from proxy.features.websocket.protocol import WEBSOCKET_DRAIN, websocket_options
from tests.fakes.relaying import running


class Draining:
    """An application that accepts a socket, and closes it when it is asked to come to an end."""

    def __init__(self) -> None:
        self.extensions: dict[str, Any] = {}
        self.accepted = threading.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for done in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{done}.complete"})
            return
        self.extensions = scope["extensions"]
        await receive()
        await send({"type": "websocket.accept"})
        self.accepted.set()
        message = await receive()
        await send({"type": "websocket.close", "code": 4000, "reason": message["type"]})


def test_a_server_that_stops_asks_its_sockets_to_drain() -> None:
    app = Draining()
    with contextlib.ExitStack() as server:
        port = server.enter_context(running(app))
        with connect(f"ws://127.0.0.1:{port}/", proxy=None) as agent:
            assert app.accepted.wait(60)
            stopping = threading.Thread(target=server.pop_all().close)
            stopping.start()
            frame = _close_frame(agent)
        stopping.join(60)
    assert WEBSOCKET_DRAIN in app.extensions
    assert frame == (4000, WEBSOCKET_DRAIN)


def _close_frame(agent: Any) -> tuple[int, str]:
    try:
        agent.recv(timeout=60)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return closed.rcvd.code, closed.rcvd.reason
    raise AssertionError("a message came")


def test_messages_are_bounded_and_no_ping_is_sent() -> None:
    options = websocket_options(1000)
    assert options["ws_max_size"] == 1000
    assert options["ws_ping_interval"] is None
