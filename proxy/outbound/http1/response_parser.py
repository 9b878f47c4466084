"""Parses the responses of one connection with httptools, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import httptools

from proxy.outbound.http1.response import ResponseInFlight
from proxy.routing.headers import Pairs

_OUTSIDE_LIMIT = 64 * 1024  # bytes between two parts of a body, or behind the last, as of a head


class FramingTooLong(httptools.HttpParserError):
    """A trailer, or the framing between two parts of a body, is too long."""


class _UnsolicitedBytes(Exception):
    """The server sent more after its response."""


class ResponseParser:
    """Feeds bytes to httptools and collects what they hold.

    ``feed``: takes bytes; raises httptools' errors. ``pieces``: the parts of
    the body that came with the last bytes; the caller clears it. ``complete``: the response is.
    ``reusable``: the connection may serve another request after it. ``upgraded``: after a 101, all
    bytes are body.
    """

    def __init__(self) -> None:
        self.complete = False
        self.reusable = False
        self.upgraded = False
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append
        self._exchange: ResponseInFlight | None = None
        self._headers: Pairs | None = None  # None: what comes is a trailer (RFC 9110 §6.5.1)
        self._parser = httptools.HttpResponseParser(self)
        # What curl accepts too: lines that end in LF alone, blanks after a chunk's size.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.feed: Callable[[bytes], object] = self._parser.feed_data
        self._outside = 0

    def begin(self, exchange: ResponseInFlight) -> None:
        """Fill in the next response."""
        self._exchange = exchange
        self._headers = exchange.headers

    def end(self) -> None:
        """Forget the response, complete or not."""
        self._exchange = None
        self.complete = False

    def bound_framing(self) -> None:
        """Count what comes until there is more of the body: httptools keeps a line until it ends.

        Called when bytes behind the head held nothing of it, which is rare.
        """
        if not (self.upgraded or self.complete):
            self.feed = self._feed_outside

    def _feed_outside(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self.pieces or self.complete:
            self._outside = 0
            self.feed = self._parser.feed_data
            return
        self._outside += len(data)
        if self._outside > _OUTSIDE_LIMIT:
            raise FramingTooLong

    def switch_protocols(self, rest: bytes) -> None:
        """Take what follows a 101 as its body, beginning with the rest of the last bytes."""
        self.upgraded, self.complete = True, False
        self.feed = self.pieces.append
        self.feed(rest)

    # called by httptools

    def on_message_begin(self) -> None:
        """Refuse a second response that was not requested."""
        if self.complete:
            raise _UnsolicitedBytes

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; a trailer after the body is dropped."""
        if self._headers is not None:
            self._headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Note the head of the response; that of an interim one (1xx) is dropped.

        A status below 100 is none of HTTP's: nothing else would follow it.
        """
        exchange = self._exchange
        assert exchange is not None, "httptools reads nothing before `begin`"
        status: int = self._parser.get_status_code()
        if status < 200 and status >= 100 and not (status == 101 and self._parser.should_upgrade()):
            exchange.headers.clear()
            return
        exchange.status = status
        exchange.message = None
        if exchange.uploader is not None:
            exchange.interrupt_upload()
        self._headers = None
        self.reusable = self._parser.should_keep_alive()
        if exchange.bodiless:
            # The parser cannot know that no body follows, so it cannot parse another response.
            self.complete, self.reusable = True, False

    def on_message_complete(self) -> None:
        """Note that the response is complete."""
        exchange = self._exchange
        assert exchange is not None, "httptools reads nothing before `begin`"
        self.complete = exchange.status is not None
