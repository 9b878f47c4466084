"""Block link-local and cloud metadata addresses, unless an operator allows them for an upstream.

The service's own addresses are always blocked.

Nothing is resolved here: callers pass a host and its addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from proxy.routing.own_addresses import OwnAddresses
from proxy.routing.upstreams import Upstream

T = TypeVar("T")
_Address = IPv4Address | IPv6Address

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
    """Which addresses of a host may be connected to.

    ``allowed_hosts`` are the hosts of upstreams with ``allow_link_local``. ``own``: where the
    service listens itself.
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
    """Whether an address, as a resolver returns it, is blocked; so is what is no address."""
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
