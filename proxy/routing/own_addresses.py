"""Where this service listens, so that no upstream is the service itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from proxy.routing.upstreams import Upstream

_Address = IPv4Address | IPv6Address
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = "127.0.0.1"


def _of_nobody(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddresses:
    """Where the service listens.

    ``listening``: hosts and ports, as set. ``public_url``: what agents are given. ``is_ours``:
    whether an address, as text, is one of this machine's.
    """

    listening: tuple[tuple[str, int], ...] = ()
    public_url: str | None = None
    is_ours: Callable[[str], bool] = _of_nobody

    def hold(self, address: str, port: int) -> bool:
        """Whether a connection to an address, as a resolver returns it, would arrive here."""
        hosts = [host for host, own in self.listening if own == port]
        found = _parsed(address.partition("%")[0])
        return found is not None and any(self._arrives(found, host) for host in hosts)

    def named_by(self, url: str) -> bool:
        """Whether a URL names this service; names other than localhost are not looked up."""
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
