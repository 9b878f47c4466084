"""Opens connections: names, both families of addresses, TLS, and the operator's proxies.

It sends no request and keeps no connection.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from proxy.outbound import errors
from proxy.outbound.http1.connection import Connection
from proxy.routing.address_guard import AddressGuard

Address = tuple[int, Any]  # family, and what a socket of it connects to

_HEAD_START_S = 0.25  # RFC 8305 §5, the delay before the next address is tried as well
_NAMES_S = 10.0  # how long an answer of the resolver is used
_PROXY_HEAD_LIMIT = 64 * 1024

# A provider that vanished without a FIN is noticed after some minutes, although no read
# timeout is set; the same values as in anthropic-sdk-python's `_base_client.py`.
_ALIVE = tuple(
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 60),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 60),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 5),
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    )
    if hasattr(socket, name)  # not every system has them all
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardProxy:
    """A proxy of the operator's between us and a provider."""

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
    """Say how an origin is reached, by HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

    Arguments:
        origin: scheme, host and port, as ``https://api.example.com``.

    Raises:
        errors.UnsupportedProtocol: neither http nor https.
        errors.ForwardProxyError: a proxy that is asked in another protocol than http.
    """
    parts = urlsplit(origin)
    scheme, host = parts.scheme, parts.hostname
    default = {"http": 80, "https": 443}.get(scheme)
    if default is None or not host:
        raise errors.UnsupportedProtocol("an origin is http:// or https:// and a host")
    port = parts.port or default
    bypassed = proxy_bypass(host) or proxy_bypass(f"{host}:{port}")
    named = None if bypassed else getproxies().get(scheme)
    return UpstreamRoute(
        scheme=scheme, host=host, port=port, proxy=_proxy(named) if named else None
    )


def _proxy(named: str) -> ForwardProxy:
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise errors.ForwardProxyError("a proxy between us and a provider is http://host:port")
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
        self._permitted = (reach or AddressGuard()).permitted
        self._context = verify if isinstance(verify, ssl.SSLContext) else None
        self._names: dict[tuple[str, int], asyncio.Task[Sequence[Address]]] = {}

    async def open(
        self, along: UpstreamRoute, protocol: Callable[[], Connection], timeout_s: float | None
    ) -> Connection:
        """Open a connection.

        Arguments:
            timeout_s: for names, addresses, proxy and TLS together, in seconds.

        Raises:
            errors.ConnectError: no such name, nobody there, or a certificate that proves nothing.
            errors.ConnectTimeout: it took too long.
            errors.ForwardProxyError: the operator's proxy refused.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._open(along, protocol)
        except TimeoutError as error:
            raise errors.ConnectTimeout(type(error).__name__) from error
        except (OSError, UnicodeError) as error:
            raise errors.ConnectError(type(error).__name__) from error

    async def _open(self, along: UpstreamRoute, protocol: Callable[[], Connection]) -> Connection:
        via = along.proxy
        sock = await (self._to(via.host, via.port) if via else self.reach(along.host, along.port))
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
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
            if self._verify is False:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE
        return self._context

    async def reach(self, host: str, port: int) -> socket.socket:
        """Connect to an upstream itself, at an address where one may be.

        Raises:
            OSError: no such name, nobody there, or an address where no upstream may be.
        """
        return await self._to(host, port, lambda found: self._permitted(host, found, _shown))

    async def _to(
        self,
        host: str,
        port: int,
        permitted: Callable[[Sequence[Address]], Sequence[Address]] = lambda found: found,
    ) -> socket.socket:
        try:
            found = permitted(await self._look_up(host, port))
            return await _first_to_answer(_interleaved(found))
        except OSError:
            self._names.pop((host, port), None)
            raise

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of a name; those who ask at the same time share one look-up."""
        key = (host, port)
        asked = self._names.get(key)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._names[key] = loop.create_task(_addresses(host, port))
            loop.call_later(_NAMES_S, self._names.pop, key, None)
        return await asyncio.shield(asked)


def _shown(address: Address) -> str:
    """An address as text, without its port."""
    where: str = address[1][0]
    return where


async def _addresses(host: str, port: int) -> Sequence[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _interleaved(addresses: Sequence[Address]) -> list[Address]:
    """RFC 8305 §4: the families in turn, beginning with the one the system prefers."""
    if len(addresses) == 1:
        return list(addresses)
    first = [each for each in addresses if each[0] == addresses[0][0]]
    second = [each for each in addresses if each[0] != addresses[0][0]]
    pairs = itertools.zip_longest(first, second)
    return [each for pair in pairs for each in pair if each is not None]


async def _first_to_answer(addresses: Sequence[Address]) -> socket.socket:
    """Try one address after the other, each with a head start (RFC 8305 §5)."""
    if len(addresses) == 1:
        return await _connected(addresses[0])
    left = list(addresses)
    tries: set[asyncio.Task[socket.socket]] = set()
    try:
        while True:
            if left:
                tries.add(asyncio.create_task(_connected(left.pop(0))))
            done, _ = await asyncio.wait(
                tries,
                timeout=_HEAD_START_S if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                tries.discard(task)
                if task.exception() is None:
                    return task.result()
            if done and not left and not tries:
                return done.pop().result()
    finally:
        for task in tries:
            task.cancel()
            task.add_done_callback(_close_late)


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connected(address: Address) -> socket.socket:
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        for option in _ALIVE:
            try:
                sock.setsockopt(*option)
            except OSError:  # what is refused is done without
                continue
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


async def _tunnel(sock: socket.socket, along: UpstreamRoute, via: ForwardProxy) -> None:
    """Ask a proxy for a tunnel to the origin (RFC 9110 §9.3.6)."""
    loop = asyncio.get_running_loop()
    lines = [b"CONNECT %b HTTP/1.1" % along.authority, b"host: " + along.authority]
    lines += map(b": ".join, via.headers)
    await loop.sock_sendall(sock, b"\r\n".join(lines) + b"\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        got = await loop.sock_recv(sock, 4096)
        if not got or len(head) > _PROXY_HEAD_LIMIT:
            raise errors.ForwardProxyError("the proxy gave no answer to CONNECT")
        head += got
    version, _, status = head.partition(b"\r\n")[0][:12].partition(b" ")
    if not version.startswith(b"HTTP/1.") or not status.startswith(b"2"):
        shown = status.decode("ascii", "replace") if status.isdigit() else "no HTTP"
        raise errors.ForwardProxyError(f"the proxy answered CONNECT with {shown}")
