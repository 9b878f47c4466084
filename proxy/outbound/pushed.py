"""A response that is handed on in the very callbacks that bring it: no task, no future."""

from __future__ import annotations

import asyncio
from typing import Protocol

from proxy.outbound import errors
from proxy.outbound.connection import Connection
from proxy.outbound.request import SerializedRequest
from proxy.outbound.response import UNREAD_LIMIT, ResponseInFlight

DIED = (errors.ReadError, errors.WriteError, errors.RemoteProtocolError)
"""How a pooled connection fails that its server has closed meanwhile."""

_GONE = "the connection was closed as soon as it was open"


class OriginLines(Protocol):
    """The connections to one origin."""

    def take(self) -> Connection | None:
        """Return an idle connection, which is the caller's now."""
        ...

    async def connect(self, connect_s: float | None) -> Connection:
        """Open a connection; raises an UpstreamError."""
        ...


class PushedResponse(ResponseInFlight):
    """A request and its response, whose reader is a subclass.

    The reader's methods are called one after the other: `on_head`, `on_part` for each part, and
    `on_end`; or, once, `on_failure`. While it is ``held`` none of them is called, and parts are
    kept: a provider that goes on sending is not read from. Whatever they raise ends it as
    `on_broken` says.

    A request is sent a second time only where a pooled connection died before any byte came back.

    Arguments:
        loop: runs the task that connects, where no connection is idle.
    """

    held = False
    _begun = False  # the head was handed on
    _unread = 0
    _line: Connection | None = None  # what the request was sent over
    _connecting: asyncio.Task[None] | None = None

    def __init__(
        self, message: SerializedRequest, lines: OriginLines, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(message)
        self._lines = lines
        self._loop = loop
        self._parts: list[bytes] = []

    def send(self, connect_s: float | None) -> None:
        """Send the request; ``connect_s`` is how long connecting may take, in seconds."""
        self._connect_s = connect_s
        line, message = self._lines.take(), self.message
        assert message is not None, "no response has begun"
        if line is None:
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._line = line
            line.begin(message, self)

    def release(self) -> None:
        """Hand on what was kept, and what comes."""
        self.held = False
        try:
            self._hand_on()
        except Exception as error:
            self.on_broken(error)

    def take_parts(self) -> bytes:
        """Take what came of the body and was not handed on."""
        parts = self._parts
        if not parts:
            return b""
        self._parts, self._unread = [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stop(self) -> None:
        """Hand on nothing more; an unfinished response cuts its connection."""
        self.held = True
        self._parts = []
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        if self.connection is not None:
            self.connection.abort()

    # the reader's

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

    def on_broken(self, error: Exception) -> None:
        """Take what the reader raised."""
        raise NotImplementedError

    # the connection's

    def arrived(self, part: bytes) -> bool:
        """Take a part of the body; True where too much of it is kept."""
        if not part:
            return False
        if self._begun and not self.held:
            try:
                if self.on_part(part):
                    return False
            except Exception as error:
                self.on_broken(error)
                return False
        self._parts.append(part)
        self._unread += len(part)
        return self._unread > UNREAD_LIMIT

    def wake(self) -> None:
        """Take that the head came, the end, or an error."""
        if self.held:
            return
        try:
            if not self._begun:
                if self.status is None:
                    if self.error is not None:
                        self._failed(self.error)
                    return
                self._begun = True
                self.on_head()
            if not self.held:
                self._hand_on()
        except Exception as error:
            self.on_broken(error)

    def _hand_on(self) -> None:
        part = self.take_parts()
        if part and not self.on_part(part):
            self._parts.insert(0, part)
            self._unread += len(part)
            return
        if self.held:
            return
        line = self.connection
        if line is not None and line.reading_paused:
            line.resume_reading()
        if self.ended:
            self.on_end()
        elif self.error is not None:
            self.on_failure(self.error)

    def _failed(self, error: errors.UpstreamError) -> None:
        line, message = self._line, self.message
        stale = line is not None and message is not None and line.may_repeat(message)
        if stale and isinstance(error, DIED):
            self.error, self.sent, self._line = None, False, None
            self._connecting = self._loop.create_task(self._connect())
        else:
            self.on_failure(error)

    async def _connect(self) -> None:
        """Open a connection and send the request over it."""
        try:
            line = await self._lines.connect(self._connect_s)
            self._connecting = None
            self._send_over(line)
        except errors.UpstreamError as error:
            self._connecting = None
            self.error = error
            self.wake()
        except Exception as error:
            self._connecting = None
            self.on_broken(error)

    def _send_over(self, line: Connection) -> None:
        message = self.message
        assert message is not None, "no response has begun"
        self._line = line
        if line.closed:  # nobody would tell of it
            raise errors.RemoteProtocolError(_GONE)
        line.begin(message, self)
