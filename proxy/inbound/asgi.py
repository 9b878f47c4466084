"""Types of the ASGI interface, this server's extension to it, and refusals as responses.

Source: asgi.readthedocs.io/en/latest/specs/www.html and /extensions.html. An application may use
an extension only if ``scope["extensions"]`` names it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from proxy.routing.errors import REFUSAL_HEADER, Refusal, problem
from proxy.routing.headers import Pairs, first

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


# --- counts by cause ---------------------------------------------------------------------------
# Each cause is counted every time and logged at most once a second.


log = logging.getLogger("truezero")

INTERVAL_S = 1.0


class RefusalCounter:
    """Counts by cause, over the life of the process.

    A cause is one of few words and comes from no caller: it becomes a metric's label.

    Arguments:
        line: what is logged before the cause.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        line: str,
        *,
        level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line
        self._level = level
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, tuple[float, int]] = {}  # when, and how many there were then

    @property
    def counts(self) -> dict[str, int]:
        """The number of times each cause came up."""
        return dict(self._counts)

    def note(self, cause: str) -> None:
        """Count a cause; log it, and how many of it were not logged, if a second has passed."""
        self._counts[cause] += 1
        now, count = self._clock(), self._counts[cause]
        logged_at, logged = self._logged.get(cause, (-math.inf, 0))
        if now - logged_at < INTERVAL_S:
            return
        self._logged[cause] = now, count
        more = count - logged - 1
        log.log(self._level, "%s%s%s", self._line, cause, f" ({more} more unlogged)" * bool(more))


def refused_calls() -> RefusalCounter:
    """Make the log of agents' requests that are refused, by the refusal's code."""
    return RefusalCounter("refused an agent's request: ")


def refused_requests() -> RefusalCounter:
    """Make the log of the control plane's refusals, by code; less loud: they answer runners."""
    return RefusalCounter("refused a control request: ", level=logging.INFO)


# --- complete responses ------------------------------------------------------------------------
# Sent to HTTP requests, and to WebSocket upgrades that are declined.


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


def noting_refusals(send: Send, log: RefusalCounter) -> Send:
    """Wrap ``send`` so that each refusal among its responses is noted, by its code."""

    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            code = first(message["headers"], REFUSAL_HEADER)
            if code is not None:
                log.note(code.decode())
        await send(message)

    return noted
