"""Frames a response as HTTP/1.1: its head, then its body by length or in chunks."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.routing.headers import Pairs

CONTENT_LENGTH = b"content-length"
TRANSFER_ENCODING = b"transfer-encoding"
CONNECTION = b"connection"
_NO_BODY = frozenset({204, 304})


class ResponseFraming:
    """The bytes of one response.

    Header names arrive in lower case, as ASGI requires.

    ``bodiless``: the response to a HEAD. ``keep_alive``: the connection outlives the response.
    ``chunked``: known once the head is.
    """

    chunked = False
    _left = 0  # bytes that the body still lacks

    def __init__(self, *, bodiless: bool, keep_alive: bool) -> None:
        self.bodiless = bodiless
        self.keep_alive = keep_alive

    def head(self, status: int, headers: Pairs) -> bytes:
        """Serialize the head, up to the empty line.

        Raises:
            RuntimeError: a header holds a line break.
        """
        named, more = dict(headers), b""
        length = named.get(CONTENT_LENGTH)
        if TRANSFER_ENCODING in named:
            self.chunked = named[TRANSFER_ENCODING].lower() == b"chunked"
        if length is not None and not self.chunked:
            self._left = int(length)
        elif not (self.chunked or self.bodiless or status in _NO_BODY):
            self.chunked = True
            more = b"transfer-encoding: chunked\r\n"
        if CONNECTION in named and b"close" in named[CONNECTION].lower():
            self.keep_alive = False
        elif not self.keep_alive:
            more += b"connection: close\r\n"
        lines = b"\r\n".join([*map(b": ".join, headers), more])
        if not lines.count(b"\n") == lines.count(b"\r") == len(headers) + more.count(b"\n"):
            raise RuntimeError("a header holds a line break")
        return b"%b%b\r\n" % (STATUS_LINE[status], lines)

    def part(self, body: bytes, more_body: bool) -> bytes:
        """Frame a part of the body.

        Raises:
            RuntimeError: the body is longer than its content-length, or ends before it.
        """
        if self.bodiless:
            return b""
        if self.chunked:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return framed if more_body else framed + b"0\r\n\r\n"
        if len(body) > self._left:
            raise RuntimeError("the body is longer than its content-length")
        self._left -= len(body)
        if self._left and not more_body:
            raise RuntimeError("the body is shorter than its content-length")
        return body
