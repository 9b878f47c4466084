"""Types of the ASGI interface, and the two extensions that this server offers beyond it.

Source: asgi.readthedocs.io/en/latest/specs/www.html and /extensions.html. An application may use
an extension where ``scope["extensions"]`` names it, and has to do without elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from proxy.routing.headers import Pairs

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

AGENT_CONNECTION = "truezero.connection"
"""HTTP extension: the request's `AgentConnection`."""

WEBSOCKET_DRAIN = "truezero.websocket.drain"
"""WebSocket extension, and the message that it adds: end as soon as no call is in flight."""


class AgentConnection(Protocol):
    """Answers one request without a task that waits for the agent to leave.

    ASGI messages do the same, but for `reset`, and cost a turn of the event loop each.
    """

    @property
    def paused(self) -> bool:
        """Whether what is sent next waits for the agent to read; True where that is unknown."""
        ...

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response in one write."""
        ...

    def pass_on(self, part: bytes) -> bool:
        """Send a part of the response's body now; False where it must be awaited instead."""
        ...

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Call ``when_gone`` once, when the agent is gone; None stops watching.

        The rest of the request's body is discarded.
        """
        ...

    def reset(self) -> bool:
        """Reset the agent's connection (RST); False where that is not possible."""
        ...
