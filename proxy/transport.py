"""What stands behind the relay's seam: an httpx transport that carries bytes unchanged, on aiohttp.

It adds no header, keeps no cookie, follows no redirect, decodes nothing and logs nothing.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace, TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.abc import ResolveResult
from multidict import CIMultiDict
from yarl import URL

from proxy.routing.address_guard import AddressGuard

_NO_AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_HEAD_LIMIT = 64 * 1024  # bytes in one header line of an answer
_KEEPALIVE_S = 55.0  # below the 60 s after which common load balancers drop idle connections

# First match wins, so that subclasses come before their bases.
_AS_HTTPX: tuple[tuple[type[BaseException], type[httpx.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.SocketTimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ServerFingerprintMismatch, httpx.ConnectError),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientOSError, httpx.ReadError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ClientError, httpx.RemoteProtocolError),
    (TimeoutError, httpx.ReadTimeout),
    (OSError, httpx.ReadError),
    (ValueError, httpx.RemoteProtocolError),
)


@contextmanager
def _as_httpx_errors() -> Iterator[None]:
    try:
        yield
    except tuple(theirs for theirs, _ in _AS_HTTPX) as error:
        ours = next(ours for theirs, ours in _AS_HTTPX if isinstance(error, theirs))
        raise ours(type(error).__name__) from error


class _Body(httpx.AsyncByteStream):
    """An answer's body as it arrives, still encoded."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = self._response.content.readany
        while True:
            try:
                chunk = await read()
            except Exception as error:
                with _as_httpx_errors():
                    raise error
            if not chunk:
                return
            yield chunk

    async def aclose(self) -> None:
        self._response.close()


@lru_cache(maxsize=4096)
def _url(origin: str, target: bytes) -> URL:
    return URL(origin + target.decode("ascii"), encoded=True)


@lru_cache(maxsize=256)
def _forward_proxy(scheme: str, host: str) -> str | None:
    """The operator's HTTPS_PROXY or HTTP_PROXY for a host, NO_PROXY respected."""
    return None if proxy_bypass(host) else getproxies().get(scheme)


class _Resolver(aiohttp.ThreadedResolver):
    """Leaves out addresses where no upstream is; the operator's own proxies may be anywhere."""

    def __init__(self, reach: AddressGuard) -> None:
        super().__init__()
        self._reach = reach

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Look up a name."""
        found = await super().resolve(host, port, family)
        if host in {urlsplit(proxy).hostname for proxy in getproxies().values()}:
            return found
        return self._reach.permitted(host, found, lambda one: one["host"])


async def _note_reuse(_session: object, context: SimpleNamespace, _params: object) -> None:
    context.trace_request_ctx["reused"] = True


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends one request over a pool of keep-alive connections without a limit of its own.

    Understands the extensions ``timeout`` (httpx's dict, seconds) and ``target`` (the raw
    request target, bytes). Raises httpx's own transport errors: ``ConnectError`` and
    ``ConnectTimeout`` where no byte was sent, the others afterwards.
    """

    def __init__(
        self, *, verify: ssl.SSLContext | bool = True, reach: AddressGuard | None = None
    ) -> None:
        self._verify = verify
        self._reach = reach or AddressGuard()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> AiohttpTransport:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return once the answer's head is here."""
        session = self._opened_session()
        trace: dict[str, bool] = {}
        with _as_httpx_errors():
            try:
                response = await self._send(session, request, trace)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                if not self._went_stale(request, error, trace):
                    raise
                response = await self._send(session, request, {})
        return httpx.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response)
        )

    async def aclose(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, session: aiohttp.ClientSession, request: httpx.Request, trace: dict[str, bool]
    ) -> aiohttp.ClientResponse:
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        target: bytes = request.extensions.get("target", request.url.raw_path)
        return await session.request(
            request.method,
            _url(f"{request.url.scheme}://{request.url.netloc.decode('ascii')}", target),
            headers=_pairs(request),
            data=_data(request),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=timeout.get("connect"), sock_read=timeout.get("read")
            ),
            proxy=_forward_proxy(request.url.scheme, request.url.host),
            trace_request_ctx=trace,
        )

    @staticmethod
    def _went_stale(request: httpx.Request, error: Exception, trace: dict[str, bool]) -> bool:
        """Whether a kept connection died before it carried anything, so that a repeat is safe.

        RFC 9112 §9.3.1: a client may repeat a request on a new connection where the old one
        was closed before any byte of an answer. A streamed body cannot be repeated.
        """
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError)):
            return False
        return trace.get("reused", False) and isinstance(request.stream, httpx.ByteStream)

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            reuse = aiohttp.TraceConfig()
            reuse.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    ssl=self._verify,
                    keepalive_timeout=_KEEPALIVE_S,
                    resolver=_Resolver(self._reach),
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_NO_AUTOMATIC_HEADERS,
                trust_env=False,  # it would also put in credentials from ~/.netrc
                max_line_size=_HEAD_LIMIT,
                max_field_size=_HEAD_LIMIT,
                trace_configs=[reuse],
            )
        return self._session


def _pairs(request: httpx.Request) -> CIMultiDict[str]:
    # aiohttp writes UTF-8: bytes that are none come through as their Latin-1 reading.
    return CIMultiDict((_text(name), _text(value)) for name, value in request.headers.raw)


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _data(request: httpx.Request) -> Any:
    stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        return next(iter(stream)) or None
    return stream
