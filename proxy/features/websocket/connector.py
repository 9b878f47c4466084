"""Opens WebSockets to providers: no redirects, no pings of its own, no paths in logs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import InvalidProxy, InvalidStatus, ProxyError, WebSocketException
from websockets.typing import Subprotocol

from classifier.records import Ending
from proxy.outbound import dial
from proxy.routing.address_guard import AddressGuard
from proxy.routing.errors import RefusalCode
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream

_QUEUE = 64  # messages buffered for a slow agent before reading from the provider stops
_CLOSE_S = 5.0  # how long to wait for the provider's close frame

# Both WebSocket libraries log paths, queries and, at debug level, messages.
log = logging.getLogger("truezero.sockets")
log.setLevel(logging.WARNING)


@dataclass(slots=True)
class UpgradeRefusedError(Exception):
    """The provider answered the upgrade with an ordinary response."""

    status: int
    headers: Pairs
    body: bytes


@dataclass(slots=True)
class WebSocketUnreachableError(Exception):
    """There was no response: how the call ended, and the refusal's status and code."""

    ending: Ending
    status: int
    code: RefusalCode
    detail: str


# The first match wins, so subclasses come before their bases.
_FAILURES: tuple[tuple[type[Exception], Ending, int, RefusalCode], ...] = (
    (TimeoutError, Ending.TIMED_OUT, 504, "upstream_timeout"),
    (InvalidProxy, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (ProxyError, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (OSError, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (WebSocketException, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
    (EOFError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
)


class WebSocketConnector:
    """Opens WebSockets to providers.

    Arguments:
        reach: which addresses of an upstream's host may be connected to.
    """

    def __init__(self, reach: AddressGuard | None = None) -> None:
        self._tls: ssl.SSLContext | None = None  # made for the first connection that needs it
        self._dialer = dial.Dialer(reach)

    async def open(
        self,
        upstream: Upstream,
        target: bytes,
        headers: Pairs,
        *,
        subprotocols: Sequence[str],
        deflate: bool,
        timeout_s: float | None,
    ) -> ClientConnection:
        """Open a WebSocket.

        Arguments:
            target: the request target, raw.
            headers: all but those of the handshake itself.
            deflate: offer compression, for this hop only.
            timeout_s: for the connection and the handshake together, in seconds.

        Raises:
            UpgradeRefusedError: the provider answered with a status other than 101.
            WebSocketUnreachableError: there was no response.
        """
        options: dict[str, Any] = {
            "subprotocols": [Subprotocol(one) for one in subprotocols] or None,
            "compression": "deflate" if deflate else None,
            "additional_headers": [(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers],
        }
        try:
            async with asyncio.timeout(timeout_s):
                return await self._open(upstream, target, options)
        except InvalidStatus as refused:
            response = refused.response
            body = bytes(response.body)
            raise UpgradeRefusedError(response.status_code, pairs(response.headers), body) from None
        except (WebSocketException, OSError, EOFError) as error:
            if dial.is_exhausted(error):
                detail = "no descriptor or memory is left"
                raise WebSocketUnreachableError(
                    Ending.LOST, 503, "out_of_resources", detail
                ) from error
            _, ending, status, code = next(row for row in _FAILURES if isinstance(error, row[0]))
            raise WebSocketUnreachableError(ending, status, code, type(error).__name__) from error

    async def _open(
        self, upstream: Upstream, target: bytes, options: dict[str, Any]
    ) -> ClientConnection:
        parts = urlsplit(upstream.origin)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        proxy = dial.forward_proxy(parts.scheme, host, port)
        if secure:
            options["ssl"] = self._context()
        if proxy is None:  # else the proxy resolves the name
            options["sock"] = await self._dialer.upstream(host, port)
        opening = _NoRedirects(
            "ws" + upstream.origin.removeprefix("http"),
            user_agent_header=None,
            proxy=proxy,
            open_timeout=None,
            ping_interval=None,
            close_timeout=_CLOSE_S,
            max_size=None,
            max_queue=_QUEUE,
            logger=log,
            **options,
        )
        path, _, query = target.decode("ascii").partition("?")
        opening.ws_uri = replace(opening.ws_uri, path=path, query=query)
        return await opening

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = dial.tls_context()
        return self._tls


class _NoRedirects(connect):
    """The library's client without redirects."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def pairs(headers: Headers) -> Pairs:
    """Return the library's headers as raw pairs."""
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.raw_items()]
