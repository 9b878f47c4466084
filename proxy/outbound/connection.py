"""HTTP/1.1 client connection to a provider: sends one request at a time, delivers its response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

from proxy.outbound import errors
from proxy.outbound.request import SerializedRequest, UploadFraming
from proxy.outbound.response import ResponseBodyStream, ResponseInFlight
from proxy.routing.headers import Pairs

# --- requests out ------------------------------------------------------------------------------
# Written no faster than the provider reads.


_ONE_WRITE = 64 * 1024  # up to here, copying a body behind its head is cheaper than two writes


class RequestWriter:
    """The sending side of a connection."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._drained: asyncio.Future[None] | None = None  # pending while the buffer is full

    async def send(
        self,
        message: SerializedRequest,
        exchange: ResponseBodyStream,
        write_s: float | None,
        *,
        may_repeat: bool,
    ) -> None:
        """Send a request; returns early where the server answers or leaves first.

        Arguments:
            write_s: the longest time without progress, in seconds.
            may_repeat: keep what is sent of a streamed body, to send it again elsewhere.

        Raises:
            errors.WriteTimeout: there was no progress for ``write_s``.
        """
        if message.upload is not None:
            upload = self._upload(message.head, message.upload, exchange, write_s, may_repeat)
            await self._interruptibly(exchange, upload)
            return
        if write_s is None or len(message.body) <= _ONE_WRITE:
            self.write(message)
        else:
            # Until 3.12.9 and 3.13.2, asyncio's writelines() does not call pause_writing()
            # (github.com/python/cpython/issues/127655): a timeout would never begin.
            self._transport.write(message.head)
            self._transport.write(message.body)
        exchange.sent = True
        if write_s is not None and self._drained is not None:
            await self._interruptibly(exchange, self._drain(write_s))

    def write(self, message: SerializedRequest) -> None:
        """Write a request whose body is in memory."""
        if len(message.body) <= _ONE_WRITE:
            self._transport.write(message.head + message.body)
        else:
            self._transport.writelines((message.head, message.body))

    def pause(self) -> None:
        """Wait before sending more: the transport's buffer is full."""
        self._drained = self._loop.create_future()

    def resume(self) -> None:
        """Go on: the transport's buffer has room again, or its connection is gone."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def _upload(
        self,
        head: bytes,
        upload: UploadFraming,
        exchange: ResponseBodyStream,
        write_s: float | None,
        may_repeat: bool,
    ) -> None:
        """Send a body as it arrives, after the parts that an earlier attempt has sent."""
        sent_parts, upload.replay = upload.replay or [], [] if may_repeat else None
        self._transport.write(head)
        sent = 0
        for part in sent_parts:
            sent += self._write_part(upload, exchange, part, sent)
        async for part in upload.source:
            upload.remember(part)
            if exchange.error is not None:
                return
            sent += self._write_part(upload, exchange, part, sent)
            if self._drained is not None and not exchange.sent:
                await self._drain(write_s)
        if exchange.error is None and not exchange.sent:
            self._transport.write(upload.end(sent))
            exchange.sent = True

    def _write_part(
        self, upload: UploadFraming, exchange: ResponseBodyStream, part: bytes, before: int
    ) -> int:
        if part:  # an empty chunk would be the last one
            upload.check(before + len(part))
            self._transport.write(upload.framed(part))
            if before + len(part) == upload.length:
                exchange.sent, exchange.uploader = True, None
        return len(part)

    async def _interruptibly(self, exchange: ResponseBodyStream, sending: Awaitable[None]) -> None:
        """Await the sending, unless the server answers or leaves first.

        Cancels the current task and takes that back, as ``asyncio.timeout`` does, so that
        an upload needs no task of its own.
        """
        task = cast("asyncio.Task[object]", asyncio.current_task())
        cancelled_before = task.cancelling()
        exchange.uploader = task
        try:
            await sending
        except asyncio.CancelledError:
            if not exchange.interrupted or task.uncancel() > cancelled_before:
                raise
        finally:
            exchange.uploader = None

    async def _drain(self, write_s: float | None) -> None:
        if self._drained is None:
            return
        try:
            async with asyncio.timeout(write_s):
                await self._drained
        except TimeoutError as error:
            raise errors.WriteTimeout("the provider did not read the request") from error


# --- responses in ------------------------------------------------------------------------------


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


# --- connection --------------------------------------------------------------------------------


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
        self._exchange: ResponseInFlight | None = None
        self._parser = ResponseParser()

    async def send(
        self, message: SerializedRequest, read_s: float | None, write_s: float | None
    ) -> ResponseBodyStream:
        """Send a request and return once the head of its response has arrived.

        Arguments:
            read_s, write_s: the longest silence, and the longest time without progress in
                sending, in seconds.

        Raises:
            errors.UpstreamError: there will be no response; the connection is closed.
        """
        exchange = self._exchange = ResponseBodyStream(self, message, self.loop, read_s)
        self.head_bytes = 0
        self._parser.begin(exchange)
        try:
            await self._writer.send(message, exchange, write_s, may_repeat=self.reused)
            while exchange.status is None:
                if exchange.error is not None:
                    raise exchange.error
                await exchange.arrival()
        except BaseException:
            if exchange.connection is not None:  # else it may serve another request already
                self.abort()
            raise
        return exchange

    def begin(self, message: SerializedRequest, exchange: ResponseInFlight) -> None:
        """Send a request whose body is in memory; its response is filled in as it arrives."""
        self._exchange = exchange
        exchange.connection = self
        self.head_bytes = 0
        self._parser.begin(exchange)
        self._writer.write(message)
        exchange.sent = True

    def may_repeat(self, message: SerializedRequest) -> bool:
        """Whether a request that failed here was lost with a connection gone stale.

        RFC 9112 §9.3.1: a client may repeat a request on a new connection where the old one
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
            if exchange.message is None or not self.may_repeat(exchange.message):
                exchange.interrupt_upload()
            exchange.wake()

    def resume_reading(self) -> None:
        """Read on: the reader has caught up."""
        self.reading_paused = False
        self._transport.resume_reading()

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport over."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = RequestWriter(self._transport, self.loop)

    def pause_writing(self) -> None:
        """Send no more of a request for now."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._writer.resume()

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
        except httptools.HttpParserError:
            parser.reusable = False
            if not parser.complete:
                exchange.arrived(b"".join(parser.pieces))
                self.fail(errors.RemoteProtocolError("the provider does not speak HTTP/1.1"))
                return
        pieces = parser.pieces
        if pieces:
            part = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            if exchange.arrived(part) and not self.reading_paused:
                self.reading_paused = True
                self._transport.pause_reading()
        elif not headless:
            parser.bound_framing()
        if headless:
            fine = exchange.status is not None and self.head_bytes <= _HEAD_LIMIT
            if not (fine or self._head_arrived(exchange)):
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
        self._writer.resume()
        self._lost(self)

    def _head_arrived(self, exchange: ResponseInFlight) -> bool:
        """Whether the head is all there; one that is too long fails the connection."""
        long = exchange.status is None or _size(exchange.headers) > _HEAD_LIMIT
        if long and self.head_bytes > _HEAD_LIMIT:
            self.fail(errors.RemoteProtocolError("the head of the response is too long"))
            return False
        return exchange.status is not None

    def _finish(self, exchange: ResponseInFlight) -> None:
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


def _unframed(exchange: ResponseInFlight) -> bool:
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
