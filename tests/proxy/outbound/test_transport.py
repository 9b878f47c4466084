"""The transport sends what it is given, and nothing else."""

from __future__ import annotations

import pytest

from proxy.outbound.request import UpstreamRequest
from proxy.outbound.transport import Http1Transport
from tests.fakes.provider import Answer, Provider
from tests.proxy.outbound.client import fetch


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


def test_a_request_holds_nothing_but_its_parts() -> None:
    request = UpstreamRequest("GET", "http://h", b"/", [], b"")
    with pytest.raises(AttributeError):
        request.url = "http://elsewhere/"  # type: ignore[attr-defined]
