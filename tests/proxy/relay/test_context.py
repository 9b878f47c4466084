"""What the relay is given: limits, and what they are for a transport."""

from __future__ import annotations

from proxy.outbound.request import Timeouts
from proxy.relay.context import CallLimits


def test_a_calls_limits_are_its_requests_timeouts() -> None:
    limits = CallLimits(connect_s=1, read_s=2, write_s=3)
    assert limits.timeouts == Timeouts(connect_s=1, read_s=2, write_s=3)


def test_only_connecting_is_limited_unless_it_is_set() -> None:
    timeouts = CallLimits().timeouts
    assert timeouts.connect_s is not None
    assert (timeouts.read_s, timeouts.write_s) == (None, None)
