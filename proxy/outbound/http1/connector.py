"""Opens HTTP/1.1 connections along a route: directly, or through the operator's forward proxy."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from proxy.outbound import dial, errors
from proxy.outbound.http1.connection import Connection
from proxy.routing.addresses import AddressGuard

_PROXY_HEAD_LIMIT = 64 * 1024  # bytes
_BLOCKED_S = 1.0  # how much later than due a timer runs only where the event loop was blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardProxy:
    """A forward proxy of the operator's, between this service and a provider."""

    host: str
    port: int
    headers: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRoute:
    """Where an origin is, and through which proxy it is reached."""

    scheme: str
    host: str
    port: int
    proxy: ForwardProxy | None

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken with the origin."""
        return self.scheme == "https"

    @property
    def authority(self) -> bytes:
        """Host and port as CONNECT wants them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode("ascii")


def route(origin: str) -> UpstreamRoute:
    """Return how an origin is reached, by HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

    Arguments:
        origin: scheme, host and port, as ``https://api.example.com``.

    Raises:
        errors.UnsupportedProtocol: neither http nor https.
        errors.ForwardProxyError: the proxy's URL is not http://host:port.
    """
    parts = urlsplit(origin)
    scheme, host = parts.scheme, parts.hostname
    default = {"http": 80, "https": 443}.get(scheme)
    if default is None or not host:
        raise errors.UnsupportedProtocol("an origin is http://host[:port] or https://host[:port]")
    port = parts.port or default
    named = dial.forward_proxy(scheme, host, port)
    return UpstreamRoute(
        scheme=scheme, host=host, port=port, proxy=_proxy(named) if named else None
    )


def _proxy(named: str) -> ForwardProxy:
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise errors.ForwardProxyError("the forward proxy must be http://host:port")
    return ForwardProxy(host=parts.hostname, port=parts.port or 80, headers=_credentials(parts))


def _credentials(parts: SplitResult) -> tuple[tuple[bytes, bytes], ...]:
    if parts.username is None:
        return ()
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return ((b"proxy-authorization", b"Basic " + base64.b64encode(pair.encode())),)


class Connector:
    """Opens connections along a route.

    Arguments:
        reach: which addresses of an upstream's host may be connected to.
    """

    def __init__(
        self, verify: ssl.SSLContext | bool = True, reach: AddressGuard | None = None
    ) -> None:
        self._verify = verify
        self._dialer = dial.Dialer(reach)
        self._context = verify if isinstance(verify, ssl.SSLContext) else None

    async def open(
        self, along: UpstreamRoute, protocol: Callable[[], Connection], timeout_s: float | None
    ) -> Connection:
        """Open a connection.

        Arguments:
            timeout_s: for names, addresses, proxy and TLS together, in seconds.

        Raises:
            errors.ConnectError: the name, the TCP connection or the certificate failed.
            errors.ConnectTimeout: it took longer than ``timeout_s``.
            errors.ForwardProxyError: the operator's proxy refused.
            errors.OwnFault: there is no descriptor or memory left, or the event loop was blocked.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._open(along, protocol)
        except TimeoutError as error:
            if loop.time() - began > (timeout_s or 0.0) + _BLOCKED_S:
                raise errors.OwnFault("the event loop was blocked") from error
            raise errors.ConnectTimeout(type(error).__name__) from error
        except (OSError, UnicodeError) as error:
            if dial.is_exhausted(error):
                raise errors.OwnFault("no descriptor or memory is left") from error
            raise errors.ConnectError(type(error).__name__) from error

    async def _open(self, along: UpstreamRoute, protocol: Callable[[], Connection]) -> Connection:
        via = along.proxy
        if via is not None:
            sock = await self._dialer.forward_proxy(via.host, via.port)
        else:
            sock = await self._dialer.upstream(along.host, along.port)
        try:
            if via and along.secure:
                await _tunnel(sock, along, via)
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                protocol,
                sock=sock,
                ssl=self._tls() if along.secure else None,
                server_hostname=along.host.rstrip(".") if along.secure else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = dial.tls_context(verify=self._verify is not False)
        return self._context


async def _tunnel(sock: socket.socket, along: UpstreamRoute, via: ForwardProxy) -> None:
    """Ask a proxy for a tunnel to the origin (RFC 9110 §9.3.6)."""
    loop = asyncio.get_running_loop()
    lines = [b"CONNECT %b HTTP/1.1" % along.authority, b"host: " + along.authority]
    lines += map(b": ".join, via.headers)
    await loop.sock_sendall(sock, b"\r\n".join(lines) + b"\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        data = await loop.sock_recv(sock, 4096)
        if not data or len(head) > _PROXY_HEAD_LIMIT:
            raise errors.ForwardProxyError("the forward proxy did not answer CONNECT")
        head += data
    version, _, status = head.partition(b"\r\n")[0][:12].partition(b" ")
    if not version.startswith(b"HTTP/1.") or not status.startswith(b"2"):
        answer = status.decode("ascii", "replace") if status.isdigit() else "no HTTP"
        raise errors.ForwardProxyError(f"the forward proxy answered CONNECT with {answer}")
