"""Requests to providers, as the relay sees them and as HTTP/1.1 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from proxy.outbound import errors
from proxy.routing.headers import Pairs


@dataclass(slots=True)  # mutable: freezing doubles the cost of making one
class UpstreamRequest:
    """A request as it is sent.

    ``origin``: scheme, host and port, as ``https://api.example.com``. ``target``: path and
    query, raw. ``headers``: in order, host included. ``body``: in memory; None: it is
    still arriving.
    """

    method: str
    origin: str
    target: bytes
    headers: Pairs
    body: bytes | None


# --- a request as bytes ------------------------------------------------------------------------


# A body that may have to be sent again (see `ArrivingBody.kept`) is kept up to this size.
_REPLAY_LIMIT = 4 * 1024 * 1024

_LENGTH = b"\r\ncontent-length:"
_CODING = b"\r\ntransfer-encoding:"
_CHUNKED = b"\r\ntransfer-encoding: chunked"
_LAST_CHUNK = b"0\r\n\r\n"
_ILL_FRAMED = "the body is not as long as its content-length"

# RFC 9110 §8.6: where these carry no body they should say so.
_EXPECT_A_BODY = frozenset({"POST", "PUT", "PATCH"})


class ArrivingBody:
    """The body of a request that is sent while it arrives.

    ``complete``: all of it came. ``kept``: what came, as it is sent, for as long as it may have to
    be sent on another connection; None once that is over.

    Arguments:
        length: in bytes, as the head states it; None: it is sent in chunks.
    """

    def __init__(self, length: int | None) -> None:
        self.complete = False
        self.kept: list[bytes] | None = []
        self._length = length
        self._size = 0

    def add(self, part: bytes, more: bool) -> bytes:
        """Take the next part, and return it as it is sent.

        Raises:
            errors.LocalProtocolError: the body is not as long as its content-length: the provider
                would misread what follows it on the connection.
        """
        length = self._length
        self._size += len(part)
        if length is None:
            framed = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
            if not more:
                framed += _LAST_CHUNK
                self.complete = True
        else:
            if self._size > length or (self._size < length and not more):
                raise errors.LocalProtocolError(_ILL_FRAMED)
            framed = part
            self.complete = self._size == length
        if self.kept is not None:
            self.kept.append(framed)
        return framed

    def sent(self) -> None:
        """Take that all that came was sent; too much is not kept."""
        if self._size > _REPLAY_LIMIT:
            self.kept = None


class SerializedRequest(NamedTuple):
    """A request ready to be sent: its head, then a body in memory or one still arriving."""

    head: bytes
    body: bytes
    wants_no_body: bool = False  # a response to HEAD has none, whatever its head says
    arriving: ArrivingBody | None = None

    @property
    def repeatable(self) -> bool:
        """Return True if it could be sent again from the start."""
        return self.arriving is None or self.arriving.kept is not None


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
    if body is None:
        if length is None and not chunked:
            head += _CHUNKED
        return SerializedRequest(head + b"\r\n\r\n", b"", method == "HEAD", ArrivingBody(length))
    if chunked:
        body = b"%x\r\n%b\r\n%b" % (len(body), body, _LAST_CHUNK) if body else _LAST_CHUNK
    elif length is None:
        if body or method in _EXPECT_A_BODY:
            head += b"%b %d" % (_LENGTH, len(body))
    elif length != len(body):
        raise errors.LocalProtocolError("the body is not as long as its content-length")
    return SerializedRequest(head + b"\r\n\r\n", body, method == "HEAD")


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
