"""One question under way, and its answer as it arrives: first the head, then the body in parts.

It knows no framing and no socket, only the line that brings it its bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from proxy.outbound import errors
from proxy.outbound.http1.serialize import SerializedRequest
from proxy.routing.headers import Pairs

_UNREAD_LIMIT = 64 * 1024  # bytes that may wait unread before the provider is held back


class ConnectionLike(Protocol):
    """The connection, as an exchange needs it."""

    held_back: bool

    def let_go_on(self) -> None:
        """The reader has caught up."""

    def abort(self) -> None:
        """Cut the connection now."""

    def fail(self, error: errors.UpstreamError) -> None:
        """Tell the reader so, and cut the connection."""


class ResponseBodyStream:
    """One question under way: the answer's head, then its body as an async iterator of bytes.

    ``message``: what was asked, until the answer begins: a stream may last for minutes.
    ``bodiless``: an answer to HEAD has no body, whatever its head says.
    """

    status: int | None = None
    error: errors.UpstreamError | None = None
    ended = False  # the body is whole
    sent = False  # the request is
    interrupted = False  # the upload was stopped by what the server did
    uploader: asyncio.Task[object] | None = None
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
        self.connection: ConnectionLike | None = connection
        self.message: SerializedRequest | None = message
        self.bodiless = message.wants_no_body
        self.headers: Pairs = []
        self._loop = loop
        self._read_s = read_s
        self._parts: list[bytes] = []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """All that has arrived and was not read yet; waits where that is nothing.

        Raises:
            errors.UpstreamError: the answer will never be whole.
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
        if self.connection is not None and self.connection.held_back:
            self.connection.let_go_on()
        return chunk

    def unread(self) -> bytes:
        """All of the body that has arrived and was not read yet; it stays unread."""
        parts = self._parts
        if len(parts) > 1:
            parts[:] = [b"".join(parts)]
        return parts[0] if parts else b""

    async def aclose(self) -> None:
        """Stop reading; an unfinished response cuts its connection."""
        if self.connection is not None:
            self.connection.abort()

    def arrival(self) -> Awaitable[None]:
        """What is done when something came, or never will."""
        waiter = self._waiter = self._loop.create_future()
        return waiter if self._read_s is None else self._in_time(waiter, self._read_s)

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Have each part that comes while its reader waits handed over at once."""
        if self._read_s is None:  # else silence is timed by the reader's waiting
            self._pass_on = pass_on

    def arrived(self, part: bytes) -> bool:
        """Give the reader a part of the body; True where too much waits for it."""
        if self.bodiless or not part:
            return False
        if self._waiter is not None:  # so that nothing else is unread
            if self._pass_on is not None and self._pass_on(part):
                return False
            self.wake()
        self._parts.append(part)
        self._unread += len(part)
        return self._unread > _UNREAD_LIMIT

    def wake(self) -> None:
        """Let the reader look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def interrupt_upload(self) -> None:
        """Stop sending: the server has answered, or is gone."""
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
            self.connection.fail(errors.ReadTimeout("the peer was silent for too long"))
