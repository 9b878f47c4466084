"""Both ends of a socket: how an agent's is accepted, and how a provider's is opened.

It relays nothing, follows no redirect, sends no ping of its own and logs no path.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import InvalidProxy, InvalidStatus, ProxyError, WebSocketException
from websockets.typing import Subprotocol

from classifier.records import Ending
from proxy.outbound.http1 import connector
from proxy.routing.address_guard import AddressGuard
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream

_QUEUE = 64  # messages of a provider that wait for a slow agent, before its socket does
_CLOSE_S = 5.0  # how long a provider may take to answer a close frame

# What both libraries log on the way holds paths, queries and, in debug, messages.
log = logging.getLogger("truezero.sockets")
log.setLevel(logging.WARNING)


@dataclass(slots=True)
class UpgradeRefusedError(Exception):
    """The provider answered the upgrade as it answers any request."""

    status: int
    headers: Pairs
    body: bytes


@dataclass(slots=True)
class WebSocketUnreachableError(Exception):
    """No answer came: how it ended, and the refusal's status and code."""

    ending: Ending
    status: int
    code: str
    detail: str


# First match wins, so that subclasses come before their bases.
_FAILURES: tuple[tuple[type[Exception], Ending, int, str], ...] = (
    (TimeoutError, Ending.TIMED_OUT, 504, "upstream_timeout"),
    (InvalidProxy, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (ProxyError, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (OSError, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
    (WebSocketException, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
    (EOFError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
)


class WebSocketConnector:
    """Opens sockets to providers.

    Arguments:
        tls: how certificates are verified; None is the system's way.
        reach: which addresses of an upstream's host may be connected to.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, reach: AddressGuard | None = None
    ) -> None:
        self._tls = tls
        self._dialer = connector.Connector(reach=reach)

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
        """Open a socket.

        Arguments:
            target: the request target, raw.
            headers: all but those that the handshake itself makes.
            deflate: offer compression; what comes of it stays on this hop.
            timeout_s: for the connection and the handshake together, in seconds.

        Raises:
            RefusedUpgradeError: an answer came that is no 101.
            UnopenedError: none came.
        """
        how: dict[str, Any] = {
            "subprotocols": [Subprotocol(one) for one in subprotocols] or None,
            "compression": "deflate" if deflate else None,
            "additional_headers": [(n.decode("latin-1"), v.decode("latin-1")) for n, v in headers],
        }
        try:
            async with asyncio.timeout(timeout_s):
                return await self._open(upstream, target, how)
        except InvalidStatus as refused:
            answer = refused.response
            body = bytes(answer.body)
            raise UpgradeRefusedError(answer.status_code, pairs(answer.headers), body) from None
        except (WebSocketException, OSError, EOFError) as error:
            _, ending, status, code = next(row for row in _FAILURES if isinstance(error, row[0]))
            raise WebSocketUnreachableError(ending, status, code, type(error).__name__) from error

    async def _open(
        self, upstream: Upstream, target: bytes, how: dict[str, Any]
    ) -> ClientConnection:
        parts = urlsplit(upstream.origin)
        secure, proxy = parts.scheme == "https", _forward_proxy(upstream)
        if secure:
            how["ssl"] = self._context()
        if proxy is None:  # else the proxy looks the name up
            port = parts.port or (443 if secure else 80)
            how["sock"] = await self._dialer.reach(parts.hostname or "", port)
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
            **how,
        )
        path, _, query = target.decode("ascii").partition("?")
        opening.ws_uri = replace(opening.ws_uri, path=path, query=query)
        return await opening

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


class _NoRedirects(connect):
    """The library's client, staying where it was sent."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def pairs(headers: Headers) -> Pairs:
    """The library's headers as this house has them."""
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.raw_items()]


def _forward_proxy(upstream: Upstream) -> str | None:
    """The same proxy of the operator's as for a request, by HTTPS_PROXY and NO_PROXY."""
    scheme, _, netloc = upstream.origin.partition("://")
    return None if proxy_bypass(netloc) else getproxies().get(scheme)
