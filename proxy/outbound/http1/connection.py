"""One connection to a provider: asks one question at a time, hands the answer on as it arrives.

It opens nothing and never asks twice by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import httptools

from proxy.outbound import errors
from proxy.outbound.http1.response import ResponseBodyStream
from proxy.outbound.http1.serialize import SerializedRequest, UploadFraming
from proxy.routing.headers import Pairs

_HEAD_LIMIT = 64 * 1024  # bytes of one answer's head, interim answers included
_ONE_WRITE = 64 * 1024  # up to here, copying a body behind its head is cheaper than two writes

_DROPPED: deque[tuple[bytes, bytes]] = deque(maxlen=0)  # trailers (RFC 9110 §6.5.1)
_CLOSED_EARLY = "the peer closed the connection before its answer was whole"


class _UnsolicitedBytes(Exception):
    """The server went on after its answer."""


class Connection(asyncio.Protocol):
    """A connection that asks, and afterwards offers itself to ``keep`` for the next question.

    ``closed``: no use any more. ``reused``: this is not its first question. ``heard``: bytes
    that came in answer to the current one, up to its head. ``loop``: the one it lives on.
    """

    def __init__(
        self, keep: Callable[[Connection], None], lost: Callable[[Connection], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self.reused = False
        self.heard = 0
        self.held_back = False
        self.idle_since = 0.0
        self._keep = keep
        self._lost = lost
        self._exchange: ResponseBodyStream | None = None
        self._complete = False
        self._reusable = False
        self._upgraded = False
        self._drained: asyncio.Future[None] | None = None
        self._headers: Pairs | deque[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        # What curl accepts too: lines that end in LF alone, blanks after a chunk's size.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    async def ask(
        self, message: SerializedRequest, read_s: float | None, write_s: float | None
    ) -> ResponseBodyStream:
        """Send a request and return once the answer's head is here.

        Arguments:
            read_s, write_s: the longest silence and the longest standstill, in seconds.

        Raises:
            errors.UpstreamError: there will be no answer; the connection is gone.
        """
        exchange = self._exchange = ResponseBodyStream(self, message, self.loop, read_s)
        self.heard = 0
        self._headers = exchange.headers
        try:
            if message.upload is not None:
                pouring = self._pour(message.head, message.upload, exchange, write_s)
                await self._interruptibly(exchange, pouring)
            else:
                if len(message.body) <= _ONE_WRITE:
                    self._transport.write(message.head + message.body)
                else:
                    self._transport.writelines((message.head, message.body))
                exchange.sent = True
                if write_s is not None and self._drained is not None:
                    await self._interruptibly(exchange, self._drain(write_s))
            while exchange.status is None:
                if exchange.error is not None:
                    raise exchange.error
                await exchange.arrival()
        except BaseException:
            if exchange.connection is not None:  # else it may serve another question already
                self.abort()
            raise
        return exchange

    def may_repeat(self, message: SerializedRequest) -> bool:
        """Whether a request that failed here was lost with a connection gone stale.

        RFC 9112 §9.3.1: a client may repeat a request on a new connection where the old one
        was closed before any byte of an answer.
        """
        return self.reused and not self.heard and message.repeatable

    def abort(self) -> None:
        """Cut the connection now, whatever is under way."""
        self._detach()
        self.closed = True
        self._transport.abort()

    def close(self) -> None:
        """End the connection after what was written is out."""
        self.closed = True
        self._transport.close()

    def fail(self, error: errors.UpstreamError) -> None:
        """Tell whoever waits for the answer that it will not be whole, and cut the connection."""
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.error = error
            if exchange.message is None or not self.may_repeat(exchange.message):
                exchange.interrupt_upload()
            exchange.wake()

    def let_go_on(self) -> None:
        """The reader has caught up."""
        self.held_back = False
        self._transport.resume_reading()

    # up

    async def _pour(
        self,
        head: bytes,
        upload: UploadFraming,
        exchange: ResponseBodyStream,
        write_s: float | None,
    ) -> None:
        """Send a body as it arrives; what another attempt sent of it comes first."""
        again, upload.kept = upload.kept or [], [] if self.reused else None
        self._transport.write(head)
        sent = 0
        for part in again:
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
            raise errors.WriteTimeout("the peer did not take the request") from error

    def pause_writing(self) -> None:
        """The transport's: its buffer is full."""
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        """The transport's: there is room again."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # down

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport's: here it is."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """The transport's: bytes came."""
        exchange = self._exchange
        if exchange is None:  # a server that speaks unasked is not asked again
            self.abort()
            return
        headless = exchange.status is None
        if headless:
            self.heard += len(data)
        if self._upgraded:
            self._pieces.append(data)
        else:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._upgraded, self._complete = True, False
                self._pieces.append(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._reusable = False
                if not self._complete:
                    exchange.arrived(b"".join(self._pieces))
                    self.fail(errors.RemoteProtocolError("the peer does not speak HTTP/1.1"))
                    return
        pieces = self._pieces
        if pieces:
            part = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            if exchange.arrived(part) and not self.held_back:
                self.held_back = True
                self._transport.pause_reading()
        if headless and not self._head_came(exchange):
            return
        if self._complete:
            self._finish(exchange)
        elif not headless:
            return
        exchange.wake()

    def eof_received(self) -> None:
        """The transport's: the server will say no more; it closes itself on our return."""
        self._over(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport's: it is gone."""
        self._over(exc)
        self.resume_writing()
        self._lost(self)

    def _head_came(self, exchange: ResponseBodyStream) -> bool:
        if self.heard > _HEAD_LIMIT and (
            exchange.status is None or _size(exchange.headers) > _HEAD_LIMIT
        ):
            self.fail(errors.RemoteProtocolError("the answer's head is too long"))
            return False
        if exchange.status is None:
            return False
        if exchange.uploader is not None:
            exchange.interrupt_upload()
        return True

    def _finish(self, exchange: ResponseBodyStream) -> None:
        """The answer is whole: offer the connection for the next question."""
        exchange.ended = True
        self._detach()
        if self.held_back:
            self.let_go_on()
        if not exchange.sent or self._transport.get_write_buffer_size():
            self.abort()
        elif self._reusable:
            self.reused = True
            self._keep(self)
        else:
            self.close()

    def _over(self, error: Exception | None) -> None:
        self.closed = True
        exchange = self._exchange
        if exchange is None:
            return
        if error is None and exchange.status is not None and self._ends_here(exchange):
            exchange.ended = True
            self._detach()
            exchange.wake()
        else:
            self.fail(_connection_error(error, sending=not exchange.sent))

    def _ends_here(self, exchange: ResponseBodyStream) -> bool:
        """RFC 9112 §6.3: a body without a framing of its own ends with the connection."""
        if self._upgraded:
            return True
        framing = {name.lower(): value for name, value in exchange.headers}
        coding = framing.get(b"transfer-encoding", b"").lower()
        return b"content-length" not in framing and not coding.endswith(b"chunked")

    def _detach(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._complete = False
        if exchange is not None:
            exchange.connection = None

    # the parser's

    def on_message_begin(self) -> None:
        """The parser's: a first byte, of the answer or of what nobody asked for."""
        if self._complete:
            raise _UnsolicitedBytes

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's: a header, or after the body a trailer."""
        self._headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The parser's: the head is here; that of an interim answer (1xx) is passed over."""
        exchange = cast(ResponseBodyStream, self._exchange)
        status: int = self._parser.get_status_code()
        if status < 200 and not (status == 101 and self._parser.should_upgrade()):
            exchange.headers.clear()
            return
        exchange.status = status
        exchange.message = None
        self._headers = _DROPPED
        self._reusable = self._parser.should_keep_alive()
        if exchange.bodiless:
            # The parser cannot know that no body follows, so it can serve no second answer.
            self._complete, self._reusable = True, False

    def on_message_complete(self) -> None:
        """The parser's: the answer is whole."""
        self._complete = cast(ResponseBodyStream, self._exchange).status is not None


def _size(headers: Pairs) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _connection_error(error: Exception | None, *, sending: bool) -> errors.UpstreamError:
    if error is None:
        return errors.RemoteProtocolError(_CLOSED_EARLY)
    kind = errors.WriteError if sending else errors.ReadError
    return kind(type(error).__name__)
