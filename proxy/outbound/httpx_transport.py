"""Adapter that sends the relay's requests through any httpx transport, such as a mock of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import httpx

from proxy.outbound import errors
from proxy.outbound.transport import UpstreamRequest, UpstreamResponse

# The first match wins, so subclasses come before their bases.
_ERRORS: tuple[tuple[type[httpx.HTTPError], type[errors.UpstreamError]], ...] = (
    (httpx.ConnectTimeout, errors.ConnectTimeout),
    (httpx.PoolTimeout, errors.ConnectTimeout),  # no connection, so no byte was sent
    (httpx.ReadTimeout, errors.ReadTimeout),
    (httpx.WriteTimeout, errors.WriteTimeout),
    (httpx.TimeoutException, errors.UpstreamTimeout),
    (httpx.ConnectError, errors.ConnectError),
    (httpx.ProxyError, errors.ForwardProxyError),
    (httpx.WriteError, errors.WriteError),
    (httpx.NetworkError, errors.ReadError),
    (httpx.LocalProtocolError, errors.LocalProtocolError),
    (httpx.UnsupportedProtocol, errors.UnsupportedProtocol),
    (httpx.DecodingError, errors.DecodingError),
    (httpx.HTTPError, errors.RemoteProtocolError),
)
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class HttpxTransport:
    """An `UpstreamTransport` over an httpx transport: respx, `httpx.MockTransport` or a real one.

    The service's own client is `Http1Transport`. This one costs more per request, has no
    ``whole`` bodies, and sends what the given transport makes of the headers.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and return once the head of its response has arrived."""
        with _own_errors():
            response = await self._transport.handle_async_request(_as_httpx(request))
        return UpstreamResponse(response.status_code, response.headers.raw, _Body(response))

    async def aclose(self) -> None:
        """Close the httpx transport."""
        await self._transport.aclose()


class _Body:
    """The body of an httpx response, still encoded."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        stream = self._response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        with _own_errors():
            async for part in stream:
                yield part

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Do nothing: every part is read by iteration."""

    async def aclose(self) -> None:
        """Stop reading."""
        stream = self._response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        await stream.aclose()


class _Upload(httpx.AsyncByteStream):
    """A request body that is still arriving."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts


def _as_httpx(request: UpstreamRequest) -> httpx.Request:
    body, timeouts = request.body, request.timeouts
    headers = list(request.headers)
    if not any(name.lower() in _FRAMING for name, _ in headers):
        if not isinstance(body, bytes):
            headers.append((b"transfer-encoding", b"chunked"))
        elif body:
            headers.append((b"content-length", b"%d" % len(body)))
    return httpx.Request(
        request.method,
        request.origin + request.target.decode("ascii"),
        headers=headers,
        stream=httpx.ByteStream(body) if isinstance(body, bytes) else _Upload(aiter(body)),
        extensions={
            "target": request.target,
            "timeout": {
                "connect": timeouts.connect_s,
                "read": timeouts.read_s,
                "write": timeouts.write_s,
                "pool": timeouts.connect_s,
            },
        },
    )


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        own = next(own for theirs, own in _ERRORS if isinstance(error, theirs))
        raise own(str(error) or type(error).__name__) from error
