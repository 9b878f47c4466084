"""The part of WebSockets in a process: how the server serves them, and who relays an agent's."""

from __future__ import annotations

from proxy.features.websocket.connector import WebSocketConnector
from proxy.features.websocket.protocol import websocket_options
from proxy.features.websocket.relay import WebSocketRelay
from proxy.relay.context import RelayContext
from proxy.relay.sockets import AgentSockets
from proxy.routing.address_guard import AddressGuard

server_options = websocket_options


def relay(context: RelayContext, reach: AddressGuard | None = None) -> AgentSockets:
    """Return who takes agents' sockets; ``reach`` says which addresses may be connected to."""
    return WebSocketRelay(context, WebSocketConnector(reach=reach))
