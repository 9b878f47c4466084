"""The transport interface and its implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from proxy.outbound.request import (
    NO_TIMEOUTS,
    Timeouts,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTransport,
)
from proxy.outbound.transport import Http1Transport
from proxy.relay.context import CallLimits
from proxy.relay.faults import FaultInjector
from tests.fakes.provider import Answer, Provider
from tests.proxy.outbound.client import fetch
from truezero.models import Fault

IMPLEMENTATIONS: dict[str, Callable[[], UpstreamTransport]] = {
    "http1": Http1Transport,
    "fault": lambda: FaultInjector(Fault(kind="auth"), method="GET", path=b"/v1/models"),
}


class Body:
    """A response body that notes that it was closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Ignored: every part is read."""

    async def aclose(self) -> None:
        self.closed = True


async def test_the_transport_sends_what_it_is_given() -> None:
    headers = [(b"host", b"h"), (b"X-A", b"1"), (b"x-a", b"2"), (b"content-length", b"2")]
    transport = Http1Transport()
    with Provider(lambda _: Answer(headers=(("X-B", "1"), ("x-b", "2")), body=(b"{}",))) as there:
        got = await fetch(transport, there.url + "/a%2Fb?c", "PUT", b"hi", headers)
        (seen,) = there.requests
        await transport.aclose()
    assert (seen.method, seen.target, seen.body) == ("PUT", "/a%2Fb?c", b"hi")
    assert [(n.lower(), v) for n, v in seen.headers] == [
        (n.decode().lower(), v.decode()) for n, v in headers
    ]
    assert (got.status, got.body) == (200, b"{}")
    assert [pair for pair in got.headers if pair[0].lower() == b"x-b"] == [
        (b"X-B", b"1"),
        (b"x-b", b"2"),
    ]


async def test_a_fault_needs_no_provider() -> None:
    got = await fetch(IMPLEMENTATIONS["fault"](), "http://nobody.invalid/v1/models")
    assert got.status == 401


def test_the_timeouts_are_the_calls_limits() -> None:
    limits = CallLimits(connect_s=1.0, read_s=2.0, write_s=3.0)
    assert limits.timeouts == Timeouts(connect_s=1.0, read_s=2.0, write_s=3.0)
    assert Timeouts() == NO_TIMEOUTS


async def test_closing_a_response_closes_its_body() -> None:
    body = Body()
    await UpstreamResponse(200, [], body).aclose()
    assert body.closed


def test_a_request_holds_nothing_but_its_parts() -> None:
    request = UpstreamRequest("GET", "http://h", b"/", [], b"", NO_TIMEOUTS)
    with pytest.raises(AttributeError):
        request.url = "http://elsewhere/"  # type: ignore[attr-defined]
