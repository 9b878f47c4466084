"""The adapter for httpx transports: respx and MockTransport stand in for a provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import respx

from classifier.records import Ending, UsageSource
from proxy.outbound import errors
from proxy.outbound.httpx_transport import HttpxTransport
from proxy.outbound.transport import Timeouts
from tests.fakes import answers, caller
from tests.fakes.relaying import relaying
from tests.proxy.outbound.client import Parts, Received, fetch, request

URL = "http://provider.test/v1/models?a=%2F"
CHAT = "/v1/chat/completions"


def mocked(
    answer: httpx.Response | Exception, heard: list[httpx.Request] | None = None
) -> HttpxTransport:
    async def handle(asked: httpx.Request) -> httpx.Response:
        await asked.aread()
        if heard is not None:
            heard.append(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return HttpxTransport(httpx.MockTransport(handle))


async def test_a_mock_transport_answers() -> None:
    heard: list[httpx.Request] = []
    answer = httpx.Response(418, headers=[("X-A", "1"), ("x-a", "2")], content=b"tea")
    got = await fetch(mocked(answer, heard), URL, "POST", b"{}")
    assert got == Received(418, [(b"X-A", b"1"), (b"x-a", b"2"), (b"Content-Length", b"3")], b"tea")
    (asked,) = heard
    assert (asked.method, str(asked.url), asked.content) == ("POST", URL, b"{}")
    assert asked.headers.raw == [(b"host", b"provider.test"), (b"content-length", b"2")]


@respx.mock
async def test_respx_answers() -> None:
    route = respx.get(URL).respond(json={"data": []})
    transport = HttpxTransport(httpx.AsyncHTTPTransport())
    got = await fetch(transport, URL)
    assert (got.status, json.loads(got.body)) == (200, {"data": []})
    assert route.call_count == 1
    await transport.aclose()


async def test_the_target_is_sent_as_it_is() -> None:
    heard: list[httpx.Request] = []
    await fetch(mocked(httpx.Response(200), heard), "http://h/", target=b"//a%2fb/../c?")
    assert heard[0].extensions["target"] == b"//a%2fb/../c?"


async def test_timeouts_are_handed_on() -> None:
    heard: list[httpx.Request] = []
    timeouts = Timeouts(connect_s=1.0, read_s=2.0, write_s=3.0)
    await fetch(mocked(httpx.Response(200), heard), URL, timeouts=timeouts)
    expected = {"connect": 1.0, "read": 2.0, "write": 3.0, "pool": 1.0}
    assert heard[0].extensions["timeout"] == expected


async def test_a_body_still_arriving_is_chunked_unless_its_length_is_known() -> None:
    heard: list[httpx.Request] = []
    transport = mocked(httpx.Response(200), heard)
    await fetch(transport, URL, "POST", Parts(b"ab", b"c"), [])
    await fetch(transport, URL, "POST", Parts(b"ab", b"c"), [(b"Content-Length", b"3")])
    assert [each.content for each in heard] == [b"abc", b"abc"]
    assert [each.headers.raw for each in heard] == [
        [(b"transfer-encoding", b"chunked")],
        [(b"Content-Length", b"3")],
    ]


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        (httpx.ConnectError, errors.ConnectError),
        (httpx.ConnectTimeout, errors.ConnectTimeout),
        (httpx.PoolTimeout, errors.ConnectTimeout),
        (httpx.ProxyError, errors.ForwardProxyError),
        (httpx.ReadTimeout, errors.ReadTimeout),
        (httpx.WriteTimeout, errors.WriteTimeout),
        (httpx.ReadError, errors.ReadError),
        (httpx.CloseError, errors.ReadError),
        (httpx.WriteError, errors.WriteError),
        (httpx.RemoteProtocolError, errors.RemoteProtocolError),
        (httpx.LocalProtocolError, errors.LocalProtocolError),
        (httpx.UnsupportedProtocol, errors.UnsupportedProtocol),
        (httpx.DecodingError, errors.DecodingError),
        (httpx.TooManyRedirects, errors.RemoteProtocolError),
    ],
)
async def test_their_errors_become_our_own(
    theirs: type[httpx.HTTPError], own: type[errors.UpstreamError]
) -> None:
    with pytest.raises(errors.UpstreamError, match="went wrong") as caught:
        await fetch(mocked(theirs("went wrong")), URL)
    assert type(caught.value) is own


class Breaking(httpx.AsyncByteStream):
    """A response body whose connection breaks, and which notes that it was closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"some"
        raise httpx.ReadError("")

    async def aclose(self) -> None:
        self.closed = True


async def test_a_body_that_breaks_is_an_error_of_ours_and_can_be_closed() -> None:
    stream = Breaking()
    response = await mocked(httpx.Response(200, stream=stream)).send(request(URL))
    parts = aiter(response.body)
    assert await anext(parts) == b"some"
    with pytest.raises(errors.ReadError, match="ReadError"):
        await anext(parts)
    await response.aclose()
    assert stream.closed


def test_the_relay_records_a_call_to_a_mock() -> None:
    content = answers.chat().content
    headers = {"content-type": "application/json"}
    transport = mocked(httpx.Response(200, headers=headers, content=content))
    with relaying("http://provider.test", transport=transport) as relay:
        answer = caller.post(relay.base() + CHAT, json={"model": "gpt-5", "messages": []})
        assert (answer.status_code, answer.content) == (200, content)
        exchange = relay.book.only
    assert exchange.ending is Ending.COMPLETE
    assert exchange.usage.source is UsageSource.PROVIDER


@pytest.mark.parametrize(
    ("error", "status", "ending"),
    [
        (httpx.ConnectError, 502, Ending.NEVER_CONNECTED),
        (httpx.ReadTimeout, 504, Ending.TIMED_OUT),
        (httpx.ReadError, 502, Ending.CUT_UPSTREAM),
    ],
)
def test_the_relay_tells_a_mocks_failures_apart(
    error: type[httpx.TransportError], status: int, ending: Ending
) -> None:
    with relaying("http://provider.test", transport=mocked(error("on purpose"))) as relay:
        answer = caller.post(relay.base() + CHAT, json={"model": "gpt-5", "messages": []})
        assert answer.status_code == status
        assert relay.book.only.ending is ending
