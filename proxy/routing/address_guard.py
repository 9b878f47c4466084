"""Addresses where no upstream is unless its operator says so: this link's, and a cloud's metadata.

It resolves nothing: it is shown a host, and the addresses that somebody found for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from proxy.routing.upstreams import Upstream

T = TypeVar("T")
_Address = IPv4Address | IPv6Address

# Where machines in a cloud find their own credentials. Besides the link-local ones each cloud
# has told its own: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
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
    """A host that leads to no address but such as no upstream has."""


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Which addresses of a host may be connected to.

    ``near`` are the hosts whose upstream may be on this link, by ``allow_link_local``.
    """

    near: frozenset[str] = frozenset()

    @classmethod
    def of(cls, upstreams: Mapping[str, Upstream]) -> Self:
        """What an allow-list permits."""
        allowing = (one for one in upstreams.values() if one.url and one.allow_link_local)
        return cls(frozenset(_plain(urlsplit(one.url or "").hostname or "") for one in allowing))

    def permitted(self, host: str, found: Sequence[T], address: Any) -> list[T]:
        """Those that may be connected to.

        Arguments:
            found: what a look-up gave.
            address: takes one of them to its address, as text.

        Raises:
            GuardedAddressError: there were some, and none may be.
        """
        if _plain(host) in self.near:
            return list(found)
        left = [one for one in found if not is_guarded(address(one))]
        if found and not left:
            raise GuardedAddressError("this name leads to a link-local or metadata address")
        return left


@lru_cache(maxsize=1024)  # every connection asks
def is_guarded(address: str) -> bool:
    """Whether an address, as a resolver gives it, is one of those; so is one that is none."""
    try:
        plain = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    return any(one in network for one in _meant(plain) for network in _NETWORKS)


def check(upstreams: Mapping[str, Upstream]) -> None:
    """Look at what an operator named; what its names lead to is looked at when they are dialled.

    Raises:
        ValueError: an upstream is at such an address, or hides one; the sentence names it.
    """
    for upstream in upstreams.values():
        if upstream.url and not upstream.allow_link_local:
            _check(upstream.name, _plain(urlsplit(upstream.url).hostname or ""))


def _check(name: str, host: str) -> None:
    if host in _NAMES or (_is_address(host) and is_guarded(host)):
        raise ValueError(
            f"{name}: {host} is a link-local or cloud metadata address, where machines find "
            f"their credentials; set allow_link_local = true under [upstreams.{name}] in "
            "truezero.toml where that is meant"
        )
    if not _is_address(host) and _ODD.match(host):
        raise ValueError(f"{name}: {host} is no plain address: write it as 203.0.113.7")


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _meant(address: _Address) -> Iterable[_Address]:
    """The address, and the IPv4 address inside an IPv6 one."""
    yield address
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if inside is None and address in _NAT64:
            inside = IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            yield inside
