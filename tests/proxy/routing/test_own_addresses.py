"""Which addresses are the service's own, in any spelling a resolver returns."""

from __future__ import annotations

import pytest

from proxy.routing.addresses import OwnAddresses, check_not_own
from proxy.routing.upstreams import Upstream

OURS = {"192.168.1.5", "fd12::5"}


def holds(listening: str, address: str, port: int = 8383) -> bool:
    own = OwnAddresses(listening=((listening, 8383), ("10.0.0.9", 9000)), is_ours=OURS.__contains__)
    return own.hold(address, port)


def test_an_address_is_ours_where_the_service_listens() -> None:
    rows = (
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),  # connects to loopback
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "127.0.0.2", True),
        ("localhost", "::1", True),
        ("127.0.0.1", "192.168.1.5", False),  # ours, but nobody listens there
        ("0.0.0.0", "192.168.1.5", True),
        ("::", "fd12::5%eth0", True),
        ("::", "127.0.0.1", True),
        ("0.0.0.0", "192.168.1.6", False),
        ("192.168.1.5", "192.168.1.5", True),
        ("192.168.1.5", "127.0.0.1", False),
        ("proxy.internal", "192.168.1.5", True),
        ("127.0.0.1", "somewhere", False),
    )
    for listening, address, ours in rows:
        assert holds(listening, address) is ours, (listening, address)
        assert not holds(listening, address, 8384)
    assert holds("127.0.0.1", "10.0.0.9", 9000), "the other port counts too"


def test_an_upstream_that_is_the_service_is_named() -> None:
    own = OwnAddresses(listening=(("127.0.0.1", 80),))
    check_not_own(
        [Upstream(name="far", url="http://far.example"), Upstream(name="none", url=None)], own
    )
    with pytest.raises(ValueError, match=r"x: http.* is this service itself"):
        check_not_own([Upstream(name="x", url="http://localhost")], own)
