"""HTTP/1.1 client connection to a provider: sends one request at a time, delivers its response."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from proxy.outbound import errors
from proxy.outbound.request import ArrivingBody, SerializedRequest, UpstreamRequest
from proxy.routing.headers import Pairs

# --- one request and its response --------------------------------------------------------------


UNREAD_LIMIT = 64 * 1024  # bytes that may wait unread before reading is paused

CONNECTION_LOST = (errors.ReadError, errors.WriteError, errors.RemoteProtocolError)
"""How a pooled connection fails that its server has closed meanwhile."""

_GONE = "the connection was closed as soon as it was open"


class Exchanger(Protocol):
    """A connection, as far as a request and its response need it.

    ``closed``: of no more use. ``reading_paused``: too much of the response waits for its reader.
    """

    closed: bool
    reading_paused: bool

    def begin(self, message: SerializedRequest, response: ResponseHandler) -> None:
        """Send a request, or as much of it as came; its response is filled in as it arrives."""

    def write_part(self, body: ArrivingBody, framed: bytes) -> None:
        """Send a part of a body that is arriving."""

    def may_repeat(self, message: SerializedRequest) -> bool:
        """Return True if a request that failed here was lost with a connection gone stale."""

    def resume_reading(self) -> None:
        """Read on: the reader has caught up."""

    def abort(self) -> None:
        """Close the connection at once."""

    def fail(self, error: errors.UpstreamError) -> None:
        """Close the connection at once; the reader gets the error."""


class Origin(Protocol):
    """A destination of requests: its connections, and the serialization of its requests."""

    def compose(self, request: UpstreamRequest) -> SerializedRequest:
        """Serialize a request; raises an UpstreamError."""
        ...

    def take(self) -> Exchanger | None:
        """Return an idle connection, which is the caller's now."""
        ...

    async def connect(self, connect_s: float | None) -> Exchanger:
        """Open a connection; raises an UpstreamError."""
        ...


class ResponseHandler:
    """A request, and the response to it, which is handed on in the callbacks that bring it.

    The reader is a subclass. Its methods are called one after the other: `on_head`, `on_part` for
    each part, and `on_end`; or, once, `on_failure`. While it is ``held`` none of them is called,
    and parts are kept: a provider that goes on sending is not read from. Whatever they raise ends
    it as `on_internal_error` says.

    A request is sent a second time only where a pooled connection died before any byte came back.
    Its body may still be arriving: `send_part` takes the rest.

    ``message``: the request, until its response begins: a stream may last for minutes.
    ``bodiless``: a response to HEAD has no body, whatever its head says. ``ended``: the body is
    complete. ``sent``: the request is. ``watches_writing``: it is to be told that the provider does
    not read.

    Arguments:
        loop: runs the task that connects, where no connection is idle.
    """

    message: SerializedRequest | None = None
    status: int | None = None
    error: errors.UpstreamError | None = None
    ended = False
    sent = False
    bodiless = False
    watches_writing = False
    held = True  # until the head is handed on
    trailers: tuple[tuple[bytes, bytes], ...] = ()  # gRPC's, behind the body
    _begun = False  # the head was handed on
    _unread = 0
    _connecting: asyncio.Task[None] | None = None

    def __init__(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        # Defaults of a class are lost by mypyc where their type is a Protocol.
        self.connection: Exchanger | None = None
        self._sent_over: Exchanger | None = None  # what the request was sent over last
        self.headers: Pairs = []
        self._origin = origin
        self._loop = loop
        self._parts: list[bytes] = []

    def send(self, message: SerializedRequest, connect_s: float | None) -> None:
        """Send a request; ``connect_s`` is how long connecting may take, in seconds."""
        self.message = message
        self._connect_s = connect_s
        connection = self._origin.take()
        if connection is None:
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._sent_over = connection
            connection.begin(message, self)

    def send_part(self, part: bytes, more: bool) -> None:
        """Send the next part of the body; none that comes behind the response's head.

        Raises:
            errors.LocalProtocolError: the body is not as long as its content-length.
        """
        message = self.message
        body = None if message is None else message.arriving
        if body is not None:
            framed = body.add(part, more)
            if self.connection is not None:
                self.connection.write_part(body, framed)

    def release(self) -> None:
        """Hand on what was kept, and what comes."""
        self.held = False
        try:
            self._hand_on()
        except Exception as error:
            self.on_internal_error(error)

    def take_parts(self) -> bytes:
        """Take what came of the body and was not handed on."""
        parts = self._parts
        if not parts:
            return b""
        self._parts, self._unread = [], 0
        return b"".join(parts)

    def stop(self) -> None:
        """Hand on nothing more; an unfinished response cuts its connection."""
        self.held = self._begun = True
        self._parts = []
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        if self.connection is not None:
            self.connection.abort()

    # the reader's

    def on_connecting(self) -> None:
        """Take that a connection died, and another is opened."""

    def on_connected(self) -> None:
        """Take that a new connection has what came of the request."""

    def on_unwritable(self) -> None:
        """Take that the provider does not read the request at the moment."""

    def on_writable(self) -> None:
        """Take that it does again."""

    def on_head(self) -> None:
        """Take that ``status`` and ``headers`` are known, and perhaps already the end."""
        raise NotImplementedError

    def on_part(self, part: bytes) -> bool:
        """Take a part of the body; False after setting ``held``: it is to come again."""
        raise NotImplementedError

    def on_end(self) -> None:
        """Take that the body is complete."""
        raise NotImplementedError

    def on_failure(self, error: errors.UpstreamError) -> None:
        """Take that the response will never be complete."""
        raise NotImplementedError

    def on_internal_error(self, error: Exception) -> None:
        """Take what the reader raised."""
        raise NotImplementedError

    # the connection's

    def arrived(self, part: bytes) -> bool:
        """Take a part of the body; True if too much of it is kept."""
        if not part:
            return False
        if not self.held:
            try:
                if self.on_part(part):
                    return False
            except Exception as error:
                self.on_internal_error(error)
                return False
        self._parts.append(part)
        self._unread += len(part)
        return self._unread > UNREAD_LIMIT

    def wake(self) -> None:
        """Take that the head came, the end, or an error."""
        try:
            if not self._begun:
                if self.status is None:
                    if self.error is not None:
                        self._failed(self.error)
                    return
                self._begun, self.held = True, False
                self.on_head()
            if not self.held:
                self._hand_on()
        except Exception as error:
            self.on_internal_error(error)

    def _hand_on(self) -> None:
        part = self.take_parts()
        if part and not self.on_part(part):
            self._parts.insert(0, part)
            self._unread += len(part)
            return
        if self.held:
            return
        connection = self.connection
        if connection is not None and connection.reading_paused:
            connection.resume_reading()
        if self.ended:
            self.on_end()
        elif self.error is not None:
            self.on_failure(self.error)

    def _failed(self, error: errors.UpstreamError) -> None:
        connection, message = self._sent_over, self.message
        stale = connection is not None and message is not None and connection.may_repeat(message)
        if stale and isinstance(error, CONNECTION_LOST):
            self.error, self.sent, self._sent_over = None, False, None
            self.on_connecting()
            self._connecting = self._loop.create_task(self._connect())
        else:
            self.on_failure(error)

    async def _connect(self) -> None:
        """Open a connection and send the request over it."""
        try:
            connection = await self._origin.connect(self._connect_s)
            self._connecting = None
            self._send_over(connection)
        except errors.UpstreamError as error:
            self._connecting = None
            self.error = error
            self.wake()
        except Exception as error:
            self._connecting = None
            self.on_internal_error(error)

    def _send_over(self, connection: Exchanger) -> None:
        message = self.message
        assert message is not None, "no response has begun"
        self._sent_over = connection
        if connection.closed:  # nobody would tell of it
            raise errors.RemoteProtocolError(_GONE)
        connection.begin(message, self)
        self.on_connected()


# --- responses in ------------------------------------------------------------------------------


_OUTSIDE_LIMIT = 64 * 1024  # bytes between two parts of a body, or behind the last, as of a head


class FramingTooLong(httptools.HttpParserError):
    """A trailer, or the framing between two parts of a body, is too long."""


class _SeveralLengths(httptools.HttpParserError):
    """A head states several lengths of its body."""


_ABOUT_FRAMING = "Content-Length"  # is in what llhttp says of each
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_FRAMING = re.compile(rb"(content-length|transfer-encoding)[ \t]*:(.*)", re.IGNORECASE | re.DOTALL)


def _framed_once(head: bytes) -> bytes:
    """Return a response's head whose body is framed once, as RFC 9112 §6.3 allows.

    Chunks go before a length, and one length may be stated several times. A head that says more
    may have come from two servers: its connection is closed behind it (§6.1).

    Raises:
        _SeveralLengths: it states several.
    """
    kept: list[bytes] = []
    chunks: list[bytes] = []
    lengths: set[bytes] = set()
    for line in re.split(rb"\r?\n", head):
        field = _FRAMING.fullmatch(line)
        if field is None:
            kept.append(line)
        elif field[1].lower() == b"content-length":
            lengths.update(length.strip() for length in field[2].split(b","))
        elif field[2].strip().lower() != b"identity":  # as of a server that states a length too
            chunks.append(line)
    if not chunks and len(lengths) > 1:
        raise _SeveralLengths
    kept += chunks or [b"Content-Length: " + length for length in lengths]
    return b"\r\n".join((*kept, b"Connection: close"))


class _UnsolicitedBytes(Exception):
    """The server sent more after its response."""


_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)\d\d[ \r]")


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
        self._exchange: ResponseHandler | None = None
        self._headers: Pairs | None = None  # None: what comes is a trailer (RFC 9110 §6.5.1)
        self._parser = self._new_parser()
        self.feed: Callable[[bytes], object] = self._parser.feed_data
        self._outside = 0
        self._head: bytes | None = None  # of a response that is parsed anew

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # What curl accepts too: lines that end in LF alone, blanks after a chunk's size.
        parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    def parse_anew(self, head: bytes) -> bool:
        """Parse a head again that could not be, with its body framed once; once only.

        Arguments:
            head: what came of the response.
        """
        if self._head is not None:
            return False
        self._head, self.feed = b"", self._feed_head
        self._feed_head(head)
        return True

    def _feed_head(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None, "only a response that has begun is parsed anew"
        self._head = (self._head or b"") + data
        start, end = 0, _BLANK_LINE.search(self._head)
        while end is not None and _INTERIM.match(self._head, start):
            start, end = end.end(), _BLANK_LINE.search(self._head, end.end())
        if end is not None:
            self._parser = self._new_parser()
            self._headers = exchange.headers
            exchange.headers.clear()
            self.feed = self._parser.feed_data
            self.feed(_framed_once(self._head[start : end.start()]) + self._head[end.start() :])

    def begin(self, exchange: ResponseHandler) -> None:
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
        """Collect a header; a trailer after the body is dropped, but for gRPC's status."""
        if self._headers is not None:
            self._headers.append((name, value.rstrip(b" \t")))
        elif self._exchange is not None and name[:5].lower() == b"grpc-":
            self._exchange.trailers += ((name.lower(), value.rstrip(b" \t")),)

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


# --- connection --------------------------------------------------------------------------------


_ONE_WRITE = 64 * 1024  # up to here, copying a body behind its head is cheaper than two writes
_HEAD_LIMIT = 64 * 1024  # bytes of one response's head, interim responses included
_CLOSED_EARLY = "the provider closed the connection before its response was complete"


class Connection(asyncio.Protocol):
    """A connection that serves one request after the other.

    ``closed``: of no more use. ``reused``: it has served a request before. ``head_bytes``: bytes
    received in answer to the current request, up to its head. ``reading_paused``: too much of a
    response waits for its reader. ``idle_since``: when it was pooled, in the loop's time.

    Arguments:
        keep: called with the connection once it may serve another request.
        lost: called with the connection once it is gone.
    """

    def __init__(
        self, keep: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = self.reused = False
        self.head_bytes = 0
        self.reading_paused = False
        self.idle_since = 0.0
        self._keep = keep
        self._lost = lost
        self._exchange: ResponseHandler | None = None
        self._parser = ResponseParser()
        self._began = b""  # of a head that takes several reads

    def begin(self, message: SerializedRequest, response: ResponseHandler) -> None:
        """Send a request, or as much of it as came; its response is filled in as it arrives."""
        self._exchange = response
        response.connection = self
        self.head_bytes = 0
        self._began = b""
        self._parser.begin(response)
        head, body, response.bodiless, arriving = message
        if arriving is not None:
            self._transport.write(head + b"".join(arriving.kept or ()))
            if not self.reused:
                arriving.kept = None
            response.sent = arriving.complete
            return
        if len(body) <= _ONE_WRITE:
            self._transport.write(head + body)
        elif response.watches_writing:
            # Until 3.12.9 and 3.13.2, asyncio's writelines() does not call pause_writing()
            # (github.com/python/cpython/issues/127655).
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.writelines((head, body))
        response.sent = True

    def write_part(self, body: ArrivingBody, framed: bytes) -> None:
        """Send a part of a body that is arriving."""
        exchange = self._exchange
        if framed and exchange is not None:
            self._transport.write(framed)
            body.sent()
            exchange.sent = body.complete

    def may_repeat(self, message: SerializedRequest) -> bool:
        """Return True if a request that failed here was lost with a stale connection.

        RFC 9112 §9.3.1: a client may repeat a request on a new connection if the old one
        was closed before any byte of a response.
        """
        return self.reused and not self.head_bytes and message.repeatable

    def abort(self) -> None:
        """Close the connection at once, whatever is in flight."""
        self._detach()
        self.closed = True
        self._transport.abort()

    def close(self) -> None:
        """Close the connection after what was written is sent."""
        self.closed = True
        self._transport.close()

    def fail(self, error: errors.UpstreamError) -> None:
        """Close the connection at once; whoever waits for the response gets the error."""
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.error = error
            exchange.wake()

    def resume_reading(self) -> None:
        """Read on: the reader has caught up."""
        self.reading_paused = False
        self._transport.resume_reading()

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport over."""
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        """Send no more of a request for now."""
        if self._exchange is not None:
            self._exchange.on_unwritable()

    def resume_writing(self) -> None:
        """Go on sending."""
        if self._exchange is not None:
            self._exchange.on_writable()

    def data_received(self, data: bytes) -> None:
        """Deliver what the bytes hold to the reader of the response."""
        exchange = self._exchange
        if exchange is None:  # a server that sends without a request is not trusted with another
            self.abort()
            return
        headless = exchange.status is None
        if headless:
            self.head_bytes += len(data)
        parser = self._parser
        try:
            parser.feed(data)
        except httptools.HttpParserUpgrade as upgrade:
            parser.switch_protocols(data[upgrade.args[0] :])
        except httptools.HttpParserError as flaw:
            parser.reusable = False
            if not (parser.complete or self._parsed_anew(exchange, data, flaw)):
                return
        pieces = parser.pieces
        if pieces:
            part = b"".join(pieces)
            pieces.clear()
            if exchange.arrived(part) and not self.reading_paused:
                self.reading_paused = True
                self._transport.pause_reading()
        elif not headless:
            parser.bound_framing()
        if headless:
            fine = exchange.status is not None and self.head_bytes <= _HEAD_LIMIT
            if not (fine or self._head_arrived(exchange, data)):
                return
        if parser.complete:
            self._finish(exchange)
        elif not headless:
            return
        exchange.wake()

    def eof_received(self) -> None:
        """Note that the server sends no more; the transport closes itself on return."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self._end(exc)
        self._lost(self)

    def _parsed_anew(self, exchange: ResponseHandler, data: bytes, flaw: Exception) -> bool:
        """Return True if a response goes on whose head was framed in two ways, else fail it."""
        try:
            framing = exchange.status is None and _ABOUT_FRAMING in str(flaw)
            if framing and self._parser.parse_anew(self._began + data):
                return True
        except httptools.HttpParserError as again:
            flaw = again
        exchange.arrived(b"".join(self._parser.pieces))
        if isinstance(flaw, _SeveralLengths):
            self.fail(errors.AmbiguousFraming("the provider states several lengths of one answer"))
        else:
            self.fail(errors.RemoteProtocolError("the provider does not speak HTTP/1.1"))
        return False

    def _head_arrived(self, exchange: ResponseHandler, data: bytes) -> bool:
        """Return True if the head is complete. A head that is too long fails the connection."""
        self._began += data
        long = exchange.status is None or _size(exchange.headers) > _HEAD_LIMIT
        if long and self.head_bytes > _HEAD_LIMIT:
            self.fail(errors.RemoteProtocolError("the head of the response is too long"))
            return False
        return exchange.status is not None

    def _finish(self, exchange: ResponseHandler) -> None:
        """Offer the connection for the next request: the response is complete."""
        exchange.ended = True
        exchange.connection = self._exchange = None
        self._parser.end()
        if self.reading_paused:
            self.resume_reading()
        if not exchange.sent or self._transport.get_write_buffer_size():
            self.abort()
        elif self._parser.reusable:
            self.reused = True
            self._keep(self)
        else:
            self.close()

    def _end(self, error: Exception | None) -> None:
        self.closed = True
        exchange = self._exchange
        if exchange is None:
            return
        if error is None and (self._parser.upgraded or _unframed(exchange)):
            exchange.ended = True
            self._detach()
            exchange.wake()
        else:
            self.fail(_failure(error, sending=not exchange.sent))

    def _detach(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._parser.end()
        if exchange is not None:
            exchange.connection = None


def _unframed(exchange: ResponseHandler) -> bool:
    """RFC 9112 §6.3: a body without framing of its own ends with the connection."""
    if exchange.status is None:
        return False
    framing = {name.lower(): value for name, value in exchange.headers}
    coding = framing.get(b"transfer-encoding", b"").lower()
    return b"content-length" not in framing and not coding.endswith(b"chunked")


def _size(headers: Pairs) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _failure(error: Exception | None, *, sending: bool) -> errors.UpstreamError:
    if error is None:
        return errors.RemoteProtocolError(_CLOSED_EARLY)
    kind = errors.WriteError if sending else errors.ReadError
    return kind(type(error).__name__)
