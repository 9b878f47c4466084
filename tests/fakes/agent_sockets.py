"""An agent's WebSockets through a relay, and providers that answer no upgrade."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.fakes import caller
from tests.fakes.relaying import Relaying

PATH = "/v1/responses"
PATIENCE_S = 300


@contextmanager
def opened(relay: Relaying, path: str = PATH, **how: Any) -> Iterator[ClientConnection]:
    """An agent's socket through the relay; it offers no compression unless told to."""
    base = how.pop("base", relay.base()).replace("http://", "ws://")
    plain = {"compression": None, "max_size": None, "proxy": None, "close_timeout": 1}
    with connect(base + path, **{**plain, **how}) as agent:
        yield agent


UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def refusal(relay: Relaying, path: str = PATH, base: str = "") -> httpx.Response:
    """The answer to an upgrade that is none."""
    return caller.get((base or relay.base()) + path, headers=UPGRADE)


@contextmanager
def mute(answer: bytes | None) -> Iterator[str]:
    """A server that takes connections; it says this and hangs up, or nothing at all."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                kept.append(connection)
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # or its thread waits on
        listener.close()
        for connection in kept:
            connection.close()
