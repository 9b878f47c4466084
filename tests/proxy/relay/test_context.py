"""What the relay is given: limits."""

from __future__ import annotations

from proxy.relay.context import CallLimits


def test_only_connecting_is_limited_unless_it_is_set() -> None:
    limits = CallLimits()
    assert limits.connect_s is not None
    assert (limits.read_s, limits.write_s) == (None, None)
