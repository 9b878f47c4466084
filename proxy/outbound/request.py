"""Requests to providers and their responses, as the relay sees them, and their HTTP/1.1 bytes.

`proxy.outbound.transport.Http1Transport` implements the interface `UpstreamTransport`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from proxy.outbound import errors
from proxy.routing.headers import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits of one request in seconds; None is unlimited.

    ``connect_s``: for name resolution, TCP and TLS together. ``read_s``: the longest silence of
    the provider. ``write_s``: the longest time in which it accepts no byte.
    """

    connect_s: float | None = None
    read_s: float | None = None
    write_s: float | None = None


NO_TIMEOUTS = Timeouts()


@dataclass(slots=True)  # mutable: freezing doubles the cost of making one
class UpstreamRequest:
    """A request as it is sent.

    ``origin``: scheme, host and port, as ``https://api.example.com``. ``target``: path and
    query, raw. ``headers``: in order, host included. ``body``: in memory, or still arriving.
    """

    method: str
    origin: str
    target: bytes
    headers: Pairs
    body: bytes | AsyncIterable[bytes]
    timeouts: Timeouts


class ResponseBody(Protocol):
    """A response body as it arrives, still encoded; it is read once."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the body; raise UpstreamError where it will never be complete."""
        ...

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Hand each part that arrives while its reader waits to a callback at once.

        A transport may ignore this; every part is then read by iteration.

        Arguments:
            pass_on: returns False for a part that it cannot take now; it is then read by
                iteration.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading; a connection with an unfinished response is closed."""
        ...


@dataclass(slots=True)
class UpstreamResponse:
    """A response whose head has arrived.

    ``headers``: in order, as received. ``whole``: the body, where all of it arrived together
    with the head; ``body`` has it as well.
    """

    status: int
    headers: Pairs
    body: ResponseBody
    whole: bytes | None = None

    async def aclose(self) -> None:
        """Stop reading; a connection with an unfinished response is closed."""
        await self.body.aclose()


class UpstreamTransport(Protocol):
    """Sends requests to providers."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and return once the head of its response has arrived.

        Raises:
            UnreachableError: no byte was sent.
            UpstreamError: the request failed afterwards.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection; requests in flight fail."""
        ...


# --- a request as bytes ------------------------------------------------------------------------


# A body that may have to be sent again (see `UploadFraming.replay`) is kept up to this size.
_REPLAY_LIMIT = 4 * 1024 * 1024

_LENGTH = b"\r\ncontent-length:"
_CODING = b"\r\ntransfer-encoding:"
_CHUNKED = b"\r\ntransfer-encoding: chunked"
_LAST_CHUNK = b"0\r\n\r\n"

# RFC 9110 §8.6: where these carry no body they should say so.
_EXPECT_A_BODY = frozenset({"POST", "PUT", "PATCH"})


class UploadFraming:
    """A body that is still arriving while it is sent.

    ``replay``: the parts sent so far, for as long as they may have to be sent again on another
    connection; None once that is over.
    """

    def __init__(self, stream: AsyncIterable[bytes], length: int | None) -> None:
        self.source: AsyncIterator[bytes] = aiter(stream)
        self.length = length
        self.replay: list[bytes] | None = []
        self._replay_bytes = 0

    def remember(self, part: bytes) -> None:
        """Keep a part, unless too much has been kept already."""
        if self.replay is not None:
            self.replay.append(part)
            self._replay_bytes += len(part)
            if self._replay_bytes > _REPLAY_LIMIT:
                self.replay = None

    def framed(self, part: bytes) -> bytes:
        """Return the part as it is sent."""
        return part if self.length is not None else b"%x\r\n%b\r\n" % (len(part), part)

    def end(self, sent: int) -> bytes:
        """Return what follows the last part.

        Raises:
            errors.LocalProtocolError: the body is shorter than its content-length says.
        """
        if self.length is None:
            return _LAST_CHUNK
        self.check(sent, complete=True)
        return b""

    def check(self, sent: int, *, complete: bool = False) -> None:
        """Reject a body that is not as long as its content-length.

        The provider would misread what follows it on the connection.
        """
        if self.length is not None and (sent > self.length or (complete and sent < self.length)):
            raise errors.LocalProtocolError("the body is not as long as its content-length")


class SerializedRequest(NamedTuple):
    """A request ready to be sent: its head, then a body in memory or one still arriving."""

    head: bytes
    body: bytes
    upload: UploadFraming | None
    wants_no_body: bool  # a response to HEAD has none, whatever its head says

    @property
    def repeatable(self) -> bool:
        """Whether it could be sent again from the start."""
        return self.upload is None or self.upload.replay is not None


def compose(
    request: UpstreamRequest, prefix: bytes = b"", more: tuple[tuple[bytes, bytes], ...] = ()
) -> SerializedRequest:
    """Serialize a request.

    Arguments:
        prefix: put before the target, as a forward proxy wants it (RFC 9112 §3.2.2).
        more: headers for that proxy.

    Raises:
        errors.LocalProtocolError: the request cannot be framed unambiguously.
    """
    method, body = request.method, request.body
    first = b"%b %b%b HTTP/1.1" % (method.encode("ascii"), prefix, request.target)
    lines = [first, *map(b": ".join, request.headers), *map(b": ".join, more)]
    head = b"\r\n".join(lines)
    # No header value or target may end its line early: that would smuggle in another.
    if not head.count(b"\n") == head.count(b"\r") == len(lines) - 1 or first.count(b" ") != 2:
        raise errors.LocalProtocolError("a line break or blank in the request's head")
    length, chunked = _framing(head)
    if not isinstance(body, bytes):
        if length is None and not chunked:
            head += _CHUNKED
        return SerializedRequest(
            head + b"\r\n\r\n", b"", UploadFraming(body, length), method == "HEAD"
        )
    if chunked:
        body = b"%x\r\n%b\r\n%b" % (len(body), body, _LAST_CHUNK) if body else _LAST_CHUNK
    elif length is None:
        if body or method in _EXPECT_A_BODY:
            head += b"%b %d" % (_LENGTH, len(body))
    elif length != len(body):
        raise errors.LocalProtocolError("the body is not as long as its content-length")
    return SerializedRequest(head + b"\r\n\r\n", body, None, method == "HEAD")


def _framing(head: bytes) -> tuple[int | None, bool]:
    """Return the content-length in a head, and whether it is chunked."""
    lowered = head.lower()
    chunked = _CODING in lowered
    _, named, rest = lowered.partition(_LENGTH)
    if not named:
        return None, chunked
    if chunked or _LENGTH in rest:
        raise errors.LocalProtocolError("the request's body is framed twice")
    value = rest.partition(b"\r")[0].strip()
    if not value.isdigit():
        raise errors.LocalProtocolError("content-length is not a number")
    return int(value), False
