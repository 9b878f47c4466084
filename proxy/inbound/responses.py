"""Sends complete ASGI responses: to HTTP requests, and to WebSocket upgrades that are declined."""

from __future__ import annotations

from proxy.inbound.asgi import Send
from proxy.routing.errors import Refusal, problem
from proxy.routing.headers import Pairs

HTTP = "http"
WEBSOCKET = "websocket.http"  # the extension "Websocket Denial Response"


async def send_response(
    send: Send, status: int, headers: Pairs, body: bytes, *, to: str = HTTP
) -> None:
    """Send a complete response.

    Arguments:
        to: HTTP or WEBSOCKET, the prefix of the messages.
    """
    await send({"type": f"{to}.response.start", "status": status, "headers": headers})
    await send({"type": f"{to}.response.body", "body": body, "more_body": False})


async def send_refusal(refusal: Refusal, send: Send, *, to: str = HTTP) -> None:
    """Answer with a refusal as problem JSON."""
    headers, body = problem(refusal)
    await send_response(send, refusal.status, headers, body, to=to)
