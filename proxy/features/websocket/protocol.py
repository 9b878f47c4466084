"""The server's side of an agent's WebSocket."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from proxy.features.websocket.connector import log
from proxy.inbound.connections import table_of

WEBSOCKET_DRAIN = "truezero.websocket.drain"
"""WebSocket extension, and the message that it adds: end as soon as no call is in flight."""


class AgentWebSocketProtocol(WebSocketsSansIOProtocol):
    """The server's side of an agent's socket.

    Beyond uvicorn's own it logs no request, counts a refusal over HTTP as a completed
    handshake, and lets calls under way end when the server stops.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._table = table_of(server_state, None)
        self.logger = self.conn.logger = log
        self.conn.debug = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        super().connection_lost(exc)
        self._table.leave(self.client[0] if self.client else "")

    def handle_connect(self, event: Request) -> None:
        """Take an upgrade request, and offer the extension `WEBSOCKET_DRAIN`.

        The application's task first runs when this has returned.
        """
        super().handle_connect(event)
        if not self.handshake_complete:
            self.scope["extensions"][WEBSOCKET_DRAIN] = {}

    async def send(self, message: ASGISendEvent) -> None:
        """Take a message of the application."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True

    def shutdown(self) -> None:
        """Ask the application to come to an end; uvicorn cancels it when its grace is over."""
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": WEBSOCKET_DRAIN})  # type: ignore[arg-type,misc]
        else:
            super().shutdown()


def websocket_options(max_bytes: int) -> dict[str, Any]:
    """Return the arguments of uvicorn's Config for serving WebSockets.

    Arguments:
        max_bytes: the longest message an agent may send.

    There are no pings: one that a busy agent leaves unanswered would end its socket, which
    no provider asked for. Messages are not deflated, which would take time from all calls.
    """
    return {
        "ws": AgentWebSocketProtocol,
        "ws_max_size": max_bytes,
        "ws_ping_interval": None,
        "ws_per_message_deflate": False,
    }
