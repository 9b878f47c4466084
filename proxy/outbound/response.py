"""The response to one request as it arrives: first its head, then its body in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from proxy.outbound import errors
from proxy.outbound.request import SerializedRequest
from proxy.routing.headers import Pairs

UNREAD_LIMIT = 64 * 1024  # bytes that may wait unread before reading is paused


class ConnectionLike(Protocol):
    """The connection, as far as a response needs it."""

    reading_paused: bool

    def resume_reading(self) -> None:
        """Read on: the reader has caught up."""

    def abort(self) -> None:
        """Close the connection at once."""

    def fail(self, error: errors.UpstreamError) -> None:
        """Close the connection at once; the reader gets the error."""


class ResponseInFlight:
    """The response to one request as its connection fills it in.

    ``message``: the request, until its response begins: a stream may last for minutes.
    ``bodiless``: a response to HEAD has no body, whatever its head says. ``ended``: the body is
    complete. ``sent``: the request is. ``uploader``: sends it, where it is still arriving.
    """

    status: int | None = None
    error: errors.UpstreamError | None = None
    ended = False
    sent = False
    uploader: asyncio.Task[object] | None = None

    def __init__(self, message: SerializedRequest) -> None:
        self.connection: ConnectionLike | None = None  # a default of the class is lost by mypyc
        self.message: SerializedRequest | None = message
        self.bodiless = message.wants_no_body
        self.headers: Pairs = []

    def arrived(self, part: bytes) -> bool:
        """Take a part of the body; True where too much of it waits for the reader."""
        raise NotImplementedError

    def wake(self) -> None:
        """Take that the head came, the end, or an error."""
        raise NotImplementedError

    def interrupt_upload(self) -> None:
        """Stop sending: the provider has answered, or is gone."""


class ResponseBodyStream(ResponseInFlight):
    """One request in flight: its response's head, then the body as an async iterator of bytes."""

    interrupted = False  # the upload was stopped by what the server did
    _waiter: asyncio.Future[None] | None = None  # of a reader that has nothing to read
    _pass_on: Callable[[bytes], bool] | None = None
    _unread = 0

    def __init__(
        self,
        connection: ConnectionLike,
        message: SerializedRequest,
        loop: asyncio.AbstractEventLoop,
        read_s: float | None,
    ) -> None:
        super().__init__(message)
        self.connection = connection
        self._loop = loop
        self._read_s = read_s
        self._parts: list[bytes] = []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return all that has arrived and was not read yet; wait where that is nothing.

        Raises:
            errors.UpstreamError: the response will never be complete.
        """
        parts = self._parts
        while not parts:
            if self.error is not None:
                raise self.error
            if self.ended:
                raise StopAsyncIteration
            await self.arrival()
        chunk = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._unread = 0
        if self.connection is not None and self.connection.reading_paused:
            self.connection.resume_reading()
        return chunk

    def unread(self) -> bytes:
        """Return what has arrived of the body and was not read yet; it stays unread."""
        parts = self._parts
        if len(parts) > 1:
            parts[:] = [b"".join(parts)]
        return parts[0] if parts else b""

    async def aclose(self) -> None:
        """Stop reading; an unfinished response cuts its connection."""
        if self.connection is not None:
            self.connection.abort()

    def arrival(self) -> Awaitable[None]:
        """Return an awaitable that is done once something arrived, or never will."""
        waiter = self._waiter = self._loop.create_future()
        return waiter if self._read_s is None else self._in_time(waiter, self._read_s)

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Hand each part that arrives while its reader waits to a callback at once."""
        if self._read_s is None:  # else silence is timed by the reader's waiting
            self._pass_on = pass_on

    def arrived(self, part: bytes) -> bool:
        """Take a part of the body; True where too much of it waits for the reader."""
        if self.bodiless or not part:
            return False
        if self._waiter is not None:  # so nothing else is unread
            if self._pass_on is not None and self._pass_on(part):
                return False
            self.wake()
        self._parts.append(part)
        self._unread += len(part)
        return self._unread > UNREAD_LIMIT

    def wake(self) -> None:
        """Wake the reader up."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def interrupt_upload(self) -> None:
        """Stop sending: the provider has answered, or is gone."""
        task, self.uploader = self.uploader, None
        if task is not None:
            self.interrupted = True
            task.cancel()

    async def _in_time(self, waiter: asyncio.Future[None], read_s: float) -> None:
        timer = self._loop.call_later(read_s, self._too_silent)
        try:
            await waiter
        finally:
            timer.cancel()

    def _too_silent(self) -> None:
        if self.connection is not None:
            self.connection.fail(errors.ReadTimeout("the provider was silent for too long"))
