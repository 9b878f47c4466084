"""The seam: one httpx request in, one httpx response out, over connections kept alive.

It sends a request a second time only where a kept connection died before any byte came back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import httpx

from proxy.outbound.http1.connection import Connection
from proxy.outbound.http1.connector import Connector, route
from proxy.outbound.http1.messages import UpstreamRequest, UpstreamResponse
from proxy.outbound.http1.pool import IdlePool
from proxy.outbound.http1.response import ResponseBodyStream
from proxy.outbound.http1.serialize import compose
from proxy.routing.address_guard import AddressGuard

_Key = str | tuple[bytes, bytes, int | None]
_Limits = Mapping[str, float | None]

_DIED = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
_NO_LIMITS: _Limits = {}


class Http1Transport(httpx.AsyncBaseTransport):
    """Sends requests over as many connections as it takes; those at rest wait to be reused.

    Understands the extensions ``timeout`` (httpx's dict: connect, read and write, seconds)
    and ``target`` (the raw request target, bytes). An answer's head counts as here with its
    last byte; interim answers (1xx) and trailers are passed over; an answer that comes while
    a streamed request is still being sent stops the sending. An answer that is all here with
    its head has its body (bytes) as the extension ``whole`` too. After a 101 the extension
    ``network_stream`` carries both directions.
    """

    def __init__(
        self, *, verify: ssl.SSLContext | bool = True, reach: AddressGuard | None = None
    ) -> None:
        self._dialer = Connector(verify, reach)
        self._origins: dict[_Key, _Origin] = {}
        self._open: set[Connection] = set()

    async def __aenter__(self) -> Http1Transport:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return once the answer's head is here.

        Raises:
            httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError: no byte was sent.
            httpx.TransportError: it broke afterwards.
        """
        key: _Key
        if isinstance(request, UpstreamRequest):
            key, limits = request.origin, request.timeout
        else:
            url = request.url
            key = (url.raw_scheme, url.raw_host, url.port)
            limits = request.extensions.get("timeout", _NO_LIMITS)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = _Origin(request.url)
        message = compose(request, origin.prefix, origin.more)
        read_s, write_s = limits.get("read"), limits.get("write")
        exchange: ResponseBodyStream | None = None
        connection = origin.shelf.take()
        if connection is not None:
            try:
                exchange = await connection.ask(message, read_s, write_s)
            except _DIED:
                if not connection.may_repeat(message):
                    raise
        if exchange is None:
            connection = await self._connect(origin, limits.get("connect"))
            exchange = await connection.ask(message, read_s, write_s)
        extensions: dict[str, Any] = {}
        if exchange.ended:
            extensions["whole"] = exchange.unread()
        elif exchange.status == 101:
            extensions["network_stream"] = _Upgraded(exchange)
        return UpstreamResponse(exchange.status or 0, exchange.headers, exchange, extensions)

    async def aclose(self) -> None:
        """Close every connection; calls in flight fail."""
        for origin in self._origins.values():
            origin.shelf.clear()
        for connection in tuple(self._open):
            connection.fail(httpx.ReadError("the transport was closed"))
        await asyncio.sleep(0)  # so that the loop is done with them

    async def _connect(self, origin: _Origin, connect_s: float | None) -> Connection:
        def protocol() -> Connection:
            return Connection(origin.shelf.keep, self._open.discard)

        connection = await self._dialer.open(origin.route, protocol, connect_s)
        if not connection.closed:
            self._open.add(connection)
        return connection


class _Origin:
    """Where a provider is: the way there, and the connections to it that are at rest."""

    def __init__(self, url: httpx.URL) -> None:
        self.route = route(url)
        self.shelf = IdlePool()
        via = self.route.proxy
        in_the_open = via is not None and not self.route.secure
        self.prefix = b"http://" + url.netloc if in_the_open else b""
        self.more = via.headers if via is not None and in_the_open else ()


class _Upgraded:
    """Both directions of a connection that speaks another protocol now (httpx's network stream)."""

    def __init__(self, exchange: ResponseBodyStream) -> None:
        self._exchange = exchange
        self._rest = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """What has arrived, at most so many bytes; empty once the server is done.

        Raises:
            httpx.ReadTimeout: nothing came in time.
        """
        if not self._rest:
            try:
                async with asyncio.timeout(timeout):
                    self._rest = await anext(self._exchange, b"")
            except TimeoutError as error:
                raise httpx.ReadTimeout("the peer was silent for too long") from error
        part, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return part

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes.

        Raises:
            httpx.WriteError, httpx.WriteTimeout: they cannot be sent.
        """
        if self._exchange.connection is None:
            raise httpx.WriteError("the connection is closed")
        await self._exchange.connection.write(buffer, timeout)

    async def aclose(self) -> None:
        """Cut the connection."""
        await self._exchange.aclose()
