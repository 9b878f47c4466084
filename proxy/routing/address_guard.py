"""Addresses that upstreams may not have, and names under which a service on loopback is asked.

Link-local and cloud metadata addresses are blocked unless an operator allows them for an
upstream; the service's own addresses always are. Nothing is resolved here: callers pass a host
and its addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from proxy.routing import refusals
from proxy.routing.upstreams import Upstream

# --- own addresses, so that no upstream is the service itself ----------------------------------


_Address = IPv4Address | IPv6Address
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = "127.0.0.1"


def _of_nobody(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddresses:
    """The addresses at which the service listens.

    ``listening``: hosts and ports, as set. ``public_url``: the URL given to agents. ``is_ours``
    returns True if an address, as text, is one of this machine's.
    """

    listening: tuple[tuple[str, int], ...] = ()
    public_url: str | None = None
    is_ours: Callable[[str], bool] = _of_nobody

    def hold(self, address: str, port: int) -> bool:
        """Return True if a connection to an address from a resolver would arrive here."""
        hosts = [host for host, own in self.listening if own == port]
        parsed = _parsed(address.partition("%")[0])
        return parsed is not None and any(self._arrives(parsed, host) for host in hosts)

    def named_by(self, url: str) -> bool:
        """Return True if a URL names this service. Names other than localhost are not looked up."""
        host, port = _origin(url)
        if self.public_url is not None and _is_below(url, self.public_url):
            return True
        local = host == "localhost" or host.endswith(".localhost")
        return self.hold(_LOOPBACK if local else host, port)

    def _arrives(self, address: _Address, host: str) -> bool:
        listens = _parsed(_LOOPBACK if host == "localhost" else host)
        if listens is None:  # a name: it is looked up where it is bound
            return address.is_loopback or self.is_ours(str(address))
        here = address.is_loopback or address.is_unspecified
        if listens.is_unspecified:
            return here or self.is_ours(str(address))
        return address == listens or (listens.is_loopback and here)


def check_not_own(upstreams: Iterable[Upstream], own: OwnAddresses) -> None:
    """Check that no upstream is this service.

    Raises:
        ValueError: one is; the message names it.
    """
    for upstream in upstreams:
        if upstream.url is not None and own.named_by(upstream.url):
            raise ValueError(
                f"{upstream.name}: {upstream.url} is this service itself; set the provider's "
                f"own address under [upstreams.{upstream.name}]"
            )


def _origin(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    return host, parts.port or _PORTS.get(parts.scheme, 0)


def _is_below(url: str, base: str) -> bool:
    path, prefix = (f"{urlsplit(each).path.rstrip('/')}/" for each in (url, base))
    return _origin(url) == _origin(base) and path.startswith(prefix)


def _parsed(host: str) -> _Address | None:
    """Return the address that is meant: of IPv4 inside IPv6 the inner one."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


# --- link-local and metadata addresses ---------------------------------------------------------


T = TypeVar("T")

# Where machines in a cloud find their own credentials. Besides the link-local ones each cloud
# documents its own: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
# cloud.google.com/compute/docs/metadata/querying-metadata, Azure's WireServer
# (learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16), Alibaba
# (alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata), Oracle, Scaleway, Linode.
_NETWORKS = tuple(
    ip_network(network)
    for network in (
        "169.254.0.0/16", "fe80::/10",  # RFC 3927, RFC 4291 §2.5.6
        "fd00:ec2::/32", "fd20:ce::254", "168.63.129.16", "100.100.100.200",
        "192.0.0.192", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1",
    )
)  # fmt: skip
_NAMES = frozenset(
    {
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data",
        "instance-data.ec2.internal", "metadata.tencentyun.com",
    }
)  # fmt: skip
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052 §2.1

# What getaddrinfo reads as an IPv4 address though nobody writes one so: 2852039166, 0xa9.0xfea9fe.
_ODD = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}\.?\Z")


class GuardedAddressError(OSError):
    """All addresses of a host are blocked."""


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """A guard that allows or blocks connections to the addresses of a host.

    ``allowed_hosts`` are the hosts of upstreams with ``allow_link_local``. ``own`` are the
    addresses at which the service itself listens.
    """

    allowed_hosts: frozenset[str] = frozenset()
    own: OwnAddresses = field(default_factory=OwnAddresses)

    @classmethod
    def of(cls, upstreams: Mapping[str, Upstream], own: OwnAddresses | None = None) -> Self:
        """Make the guard of an allow-list."""
        allowing = (one for one in upstreams.values() if one.url and one.allow_link_local)
        hosts = frozenset(_plain(urlsplit(one.url or "").hostname or "") for one in allowing)
        return cls(hosts, own or OwnAddresses())

    def permitted(self, host: str, port: int, resolved: Sequence[T], address: Any) -> list[T]:
        """Return the addresses that may be connected to.

        Arguments:
            resolved: the results of a look-up.
            address: returns the address of one of them, as text.

        Raises:
            GuardedAddressError: every one of them is blocked.
        """
        elsewhere = [one for one in resolved if not self.own.hold(address(one), port)]
        if resolved and not elsewhere:
            raise GuardedAddressError("the host resolves to this service itself")
        if _plain(host) in self.allowed_hosts:
            return elsewhere
        permitted = [one for one in elsewhere if not is_guarded(address(one))]
        if resolved and not permitted:
            raise GuardedAddressError("the host resolves to a link-local or metadata address")
        return permitted


@lru_cache(maxsize=1024)  # every connection asks
def is_guarded(address: str) -> bool:
    """Return True if an address, as a resolver returns it, is blocked or is not an address."""
    try:
        plain = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    return any(one in network for one in _meant(plain) for network in _NETWORKS)


def check_addresses(upstreams: Mapping[str, Upstream]) -> None:
    """Check the URLs of an allow-list; host names are checked again when they are resolved.

    Raises:
        ValueError: an upstream has a blocked or obscured address; the message names it.
    """
    for upstream in upstreams.values():
        if upstream.url and not upstream.allow_link_local:
            _check(upstream.name, _plain(urlsplit(upstream.url).hostname or ""))


def _check(name: str, host: str) -> None:
    if host in _NAMES or (_is_address(host) and is_guarded(host)):
        raise ValueError(
            f"{name}: {host} is a link-local or cloud metadata address, where machines find "
            f"their credentials; to allow it, set allow_link_local = true under "
            f"[upstreams.{name}] in truezero.toml"
        )
    if not _is_address(host) and _ODD.match(host):
        raise ValueError(f"{name}: {host} is not a plain IPv4 address: write it as 203.0.113.7")


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _meant(address: _Address) -> Iterable[_Address]:
    """Yield the address, and the IPv4 address inside an IPv6 one."""
    yield address
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if inside is None and address in _NAT64:
            inside = IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            yield inside


# --- local names -------------------------------------------------------------------------------
# A page of another site reaches loopback too: by a request of another origin, or under a name of
# its own that it lets point here (DNS rebinding).


_HOST, _ORIGIN, _SITE = b"host", b"origin", b"sec-fetch-site"
# How containers name the machine they run on (docs.docker.com/desktop/features/networking,
# docs.podman.io/en/latest/markdown/podman-run.1.html): no zone of DNS has such names.
_CONTAINERS_HOST = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")
_CROSS_SITE = b"cross-site"  # w3.org/TR/fetch-metadata, also where a browser sends no Origin


def name_of(host: str) -> str:
    """Strip the port of a Host header."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def is_local(host: str) -> bool:
    """Return True if a Host header is localhost or an address, which no DNS can rebind."""
    name = name_of(host)
    if name in ("localhost", *_CONTAINERS_HOST) or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class LocalNames:
    """The names of a service on loopback: local ones, and ``configured``, in lower case."""

    configured: str | None = None

    def knows(self, host: str) -> bool:
        """Return True if a Host header, in lower case, names the service."""
        return is_local(host) or name_of(host) == self.configured

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Return if a request without any proof comes from no page of another site.

        Arguments:
            headers: by their names in lower case.

        Raises:
            Refusal: 403 otherwise.
        """
        host = headers.get(_HOST, b"").decode("latin-1").lower()
        if not self.knows(host):
            raise refusals.unknown_host()
        origin = headers.get(_ORIGIN, b"").decode("latin-1").lower()
        foreign = bool(origin) and not self.knows(origin.partition("://")[2])
        if foreign or headers.get(_SITE) == _CROSS_SITE:
            raise refusals.cross_origin()
