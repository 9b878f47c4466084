"""The seam by which agents' WebSockets are taken; without anyone they are told to use HTTP."""

from __future__ import annotations

from typing import Protocol

from proxy.inbound.asgi import Receive, Scope, Send


class AgentSockets(Protocol):
    """Takes agents' sockets, as an ASGI application."""

    def claims(self, raw_path: bytes) -> bool:
        """Return True if a socket is an agent's."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one socket, or answer why not."""
        ...
