"""HTTP/1.1 responses to agents: framing, flow control, and writes without a task."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.routing.headers import Pairs

# --- framing -----------------------------------------------------------------------------------
# A head, then a body by length or in chunks.


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
        self._left -= len(body)
        if self._left < 0:
            raise RuntimeError("the body is longer than its content-length")
        if self._left and not more_body:
            raise RuntimeError("the body is shorter than its content-length")
        return body


# --- flow control ------------------------------------------------------------------------------


_NO_LINGER = struct.pack("ii", 1, 0)  # close with a RST and discard what was not yet sent


class FlowControl:
    """A transport and the pauses of its two directions.

    ``held``: the agent is not read from. ``full``: it is not read again before one of the requests
    that it sent ahead is answered. ``write_paused``: the transport's buffer is full.
    ``on_writable``: called once, when there is room in it again or the connection is lost.
    """

    __slots__ = ("_writers", "full", "held", "loop", "on_writable", "transport", "write_paused")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.write_paused = False
        self.on_writable: Callable[[], None] | None = None
        self.held = False
        self.full = False
        self._writers: list[asyncio.Future[None]] = []

    def pause_reading(self) -> None:
        """Stop reading."""
        if not self.held:
            self.held = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless the connection is full of requests that wait."""
        if self.held and not self.full:
            self.held = False
            self.transport.resume_reading()

    def resume_writing(self) -> None:
        """Wake everyone who waits for room."""
        self.write_paused = False
        wake_all(self._writers)
        then, self.on_writable = self.on_writable, None
        if then is not None:
            then()

    async def drain(self) -> None:
        """Wait until there is room in the buffer, or the connection is lost."""
        await wait_for_wake(self._writers, self.loop)

    def reset(self) -> None:
        """End the connection with a RST, as a crashed peer or an impatient firewall does."""
        connection = self.transport.get_extra_info("socket")
        with socket.socket(fileno=socket.dup(connection.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


def wake_all(waiting: list[asyncio.Future[None]]) -> None:
    """Wake everyone who waits."""
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(None)


async def wait_for_wake(
    waiting: list[asyncio.Future[None]], loop: asyncio.AbstractEventLoop
) -> None:
    """Wait until `wake_all` is called."""
    waiter = loop.create_future()
    waiting.append(waiter)
    try:
        await waiter
    finally:
        waiting.remove(waiter)


# --- response ----------------------------------------------------------------------------------


_FAILED = b"Internal Server Error"


class AgentResponse:
    """A response on its way out; nothing here waits for the agent to read.

    ``disconnected``: the agent is. ``begun``, ``complete``: the response is. ``on_disconnect``:
    called once, when the agent is; None: nobody watches.

    Arguments:
        answered: called when the response is complete.
        bodiless, keep_alive: as in `ResponseFraming`.
    """

    disconnected = False
    begun = False
    complete = False
    on_disconnect: Callable[[], None] | None = None

    def __init__(
        self, flow: FlowControl, answered: Callable[[], None], *, bodiless: bool, keep_alive: bool
    ) -> None:
        self._flow = flow
        self._answered = answered
        self.framing = ResponseFraming(bodiless=bodiless, keep_alive=keep_alive)

    @property
    def paused(self) -> bool:
        """True if whatever is sent next waits for the agent to read."""
        return self._flow.write_paused

    def on_writable(self, then: Callable[[], None] | None) -> None:
        """Call ``then`` once, when there is room to send or the connection is lost; None: no more.

        For one who sees that the response is `paused`.
        """
        self._flow.on_writable = then

    def start(self, status: int, headers: Pairs) -> None:
        """Send the head."""
        if not self.disconnected:
            self.begun = True
            self._flow.transport.write(self.framing.head(status, headers))

    def pass_on(self, part: bytes) -> bool:
        """Send a part of the body now; False if it must wait or nobody reads it."""
        flow = self._flow
        if flow.write_paused or self.disconnected:
            return False
        framing = self.framing
        if framing.chunked:
            flow.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            flow.transport.write(framing.part(part, True))
        return True

    def finish(self) -> None:
        """Send what ends the body.

        Raises:
            RuntimeError: the body is shorter than its content-length.
        """
        if not self.disconnected:
            end = self.framing.part(b"", False)
            if end:
                self._flow.transport.write(end)
            self._end()

    def send_now(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response in one write."""
        if not self.disconnected:
            self.begun = True
            framing = self.framing
            self._flow.transport.write(framing.head(status, headers) + framing.part(body, False))
            self._end()

    def fail(self) -> None:
        """Answer 500; a response that was begun is cut."""
        if self.begun:
            self.abort()
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (CONTENT_LENGTH, b"%d" % len(_FAILED)),
            (CONNECTION, b"close"),
        ]
        self.send_now(500, headers, _FAILED)

    def abort(self) -> None:
        """Close the connection, so that the agent sees that the response is not complete."""
        self._flow.transport.close()

    def reset(self) -> None:
        """Reset the agent's connection (RST)."""
        if not self._flow.transport.is_closing():
            self._flow.reset()

    def watch(self, on_disconnect: Callable[[], None]) -> None:
        """Call ``on_disconnect`` once, when the agent is gone."""
        self.on_disconnect = on_disconnect
        if self.disconnected:
            on_disconnect()

    def leave(self) -> None:
        """Take that the agent is gone."""
        if not self.disconnected:
            self.disconnected = True
            if self.on_disconnect is not None:
                self.on_disconnect()

    def _end(self) -> None:
        self.complete = True
        if not self.framing.keep_alive:
            self._flow.transport.close()
        self._answered()
