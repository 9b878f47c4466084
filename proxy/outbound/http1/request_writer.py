"""Writes requests to one connection, no faster than its provider reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

from proxy.outbound import errors
from proxy.outbound.http1.response import ResponseBodyStream
from proxy.outbound.http1.serialize import SerializedRequest, UploadFraming

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
