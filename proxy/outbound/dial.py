"""Dial providers: name resolution, TCP over IPv4 and IPv6, TLS, and forward proxies."""

from __future__ import annotations

import asyncio
import base64
import errno
import itertools
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from proxy.outbound import errors
from proxy.outbound.connection import Connection
from proxy.routing.address_guard import AddressGuard

Address = tuple[int, Any]  # family, and what a socket of it connects to

_HEAD_START_S = 0.25  # RFC 8305 §5, the delay before the next address is tried as well
_NAMES_S = 10.0  # how long an answer of the resolver is used

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

# A provider that vanished without a FIN is noticed after some minutes, although no read
# timeout is set; the same values as in anthropic-sdk-python's `_base_client.py`.
_SOCKET_OPTIONS = tuple(
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


def forward_proxy(scheme: str, host: str, port: int) -> str | None:
    """Return the operator's forward proxy by HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""
    if proxy_bypass(host) or proxy_bypass(f"{host}:{port}"):
        return None
    return getproxies().get(scheme)


def is_own_address(address: str) -> bool:
    """Return True if an address is one of this machine's: a socket can be bound to no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def tls_context(*, verify: bool = True) -> ssl.SSLContext:
    """Return a client context for HTTP/1.1 with the system's certificate authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def is_exhausted(error: Exception) -> bool:
    """Return True if an operation failed for lack of a resource that all calls here share.

    A resolver that cannot open its files reports a temporary failure to resolve the name.
    """
    if not isinstance(error, socket.gaierror):
        return isinstance(error, OSError) and error.errno in _EXHAUSTED
    try:
        with socket.socket():
            return False
    except OSError as probed:
        return probed.errno in _EXHAUSTED


class Dialer:
    """Opens TCP connections by host name.

    Arguments:
        reach: which addresses of an upstream's host may be connected to.
    """

    def __init__(self, reach: AddressGuard | None = None) -> None:
        self._permitted = (reach or AddressGuard()).permitted
        self._names: dict[tuple[str, int], asyncio.Task[Sequence[Address]]] = {}

    async def upstream(self, host: str, port: int) -> socket.socket:
        """Connect to an upstream, at an address that the guard permits.

        Raises:
            OSError: the name does not resolve, nothing accepts, or no address is permitted.
        """
        return await self._connect(
            host, port, lambda addresses: self._permitted(host, port, addresses, _ip)
        )

    async def forward_proxy(self, host: str, port: int) -> socket.socket:
        """Connect to the operator's own forward proxy, which may be at any address.

        Raises:
            OSError: the name does not resolve, or nothing accepts.
        """
        return await self._connect(host, port, lambda addresses: addresses)

    async def _connect(
        self,
        host: str,
        port: int,
        permitted: Callable[[Sequence[Address]], Sequence[Address]],
    ) -> socket.socket:
        try:
            addresses = permitted(await self._look_up(host, port))
            return await _first_to_answer(_interleaved(addresses))
        except OSError:
            self._names.pop((host, port), None)
            raise

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        """Resolve a name; concurrent look-ups of one name share one query."""
        key = (host, port)
        look_up = self._names.get(key)
        if look_up is None:
            loop = asyncio.get_running_loop()
            look_up = self._names[key] = loop.create_task(_addresses(host, port))
            loop.call_later(_NAMES_S, self._names.pop, key, None)
        return await asyncio.shield(look_up)


def _ip(address: Address) -> str:
    """Return an address as text, without its port."""
    ip: str = address[1][0]
    return ip


async def _addresses(host: str, port: int) -> Sequence[Address]:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in infos]


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
        for option in _SOCKET_OPTIONS:
            try:
                sock.setsockopt(*option)
            except OSError:  # not every platform accepts every option
                continue
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


# --- routes: direct, or through the operator's forward proxy -----------------------------------


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
    """The address of an origin, and the proxy through which it is reached."""

    scheme: str
    host: str
    port: int
    proxy: ForwardProxy | None

    @property
    def secure(self) -> bool:
        """True if the origin is reached over TLS."""
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
    named = forward_proxy(scheme, host, port)
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
        self._dialer = Dialer(reach)
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
            if is_exhausted(error):
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
            self._context = tls_context(verify=self._verify is not False)
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
