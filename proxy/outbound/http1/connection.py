"""One connection to a provider: sends one request at a time and delivers its response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from proxy.outbound import errors
from proxy.outbound.http1.request_writer import RequestWriter
from proxy.outbound.http1.response import ResponseBodyStream, ResponseInFlight
from proxy.outbound.http1.response_parser import ResponseParser
from proxy.outbound.http1.serialize import SerializedRequest
from proxy.routing.headers import Pairs

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
