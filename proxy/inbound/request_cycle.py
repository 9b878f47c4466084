"""One request of an agent and its answer, between the connection and the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.inbound.asgi import Application, Message, Pairs, Scope

if TYPE_CHECKING:
    from proxy.inbound.http import HttpProtocol

CONTENT_LENGTH = b"content-length"
TRANSFER_ENCODING = b"transfer-encoding"
CONNECTION = b"connection"
_NO_BODY = frozenset({204, 304})
_log = logging.getLogger("uvicorn.error")


class RequestCycle:
    """One answer on its way out, and the body of its request on its way in.

    Names of headers arrive in lower case, as ASGI asks for. A start that carries a ``whole`` body
    is all of an answer, and goes out in one write. A request's body is kept in the parts it
    came in.

    As ``scope["answering"]`` it lets an application do without a task that waits for the agent's
    leaving, and pass parts on without being woken for each.

    ``gone``: the agent. ``begun``, ``complete``: the answer. ``more_body``: of the request.
    ``bodiless``: the answer to a HEAD. ``expects``: to be told that the body may be sent.
    """

    __slots__ = (
        "_app",
        "_chunked",
        "_left",
        "_news",
        "_parts",
        "_parts_bytes",
        "_protocol",
        "_scope",
        "_waiting",
        "_when_gone",
        "begun",
        "bodiless",
        "complete",
        "expects",
        "gone",
        "keep_alive",
        "more_body",
    )  # fmt: skip

    def __init__(self, protocol: HttpProtocol, app: Application, scope: Scope) -> None:
        self._protocol = protocol
        self._app = app
        self._scope = scope
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self.more_body = True
        self._news = False  # something that `receive` has not told yet
        self._waiting: list[asyncio.Future[None]] = []  # for news
        self.gone = self.begun = self.complete = self._chunked = False
        self._left = 0  # bytes that the answer's body still lacks
        self._when_gone: Callable[[], None] | None = None
        self.bodiless = self.expects = False
        self.keep_alive = True

    async def run(self) -> None:
        """Have the application answer."""
        protocol = self._protocol
        task = cast("asyncio.Task[Any]", asyncio.current_task(protocol.loop))
        tasks = protocol.tasks
        tasks.add(task)
        scope, self._scope = self._scope, {}  # which knows us
        try:
            await self._app(scope, self.receive, self.send)
        except BaseException as error:
            _log.error("Exception in ASGI application\n", exc_info=error)
            await self._break_off()
        else:
            if not self.complete and not self.gone:
                part = "completing" if self.begun else "starting"
                _log.error("ASGI callable returned without %s response.", part)
                await self._break_off()
        finally:
            tasks.discard(task)

    async def send(self, message: Message) -> None:
        """Take a message of the application.

        Raises:
            RuntimeError: it comes out of order, or would be read as another one.
        """
        protocol = self._protocol
        if protocol.write_paused and not self.gone:
            await protocol.drain()
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.begun and not self.complete:
            self._go_on(b"", message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.start" and not self.begun:
            head = self._begin(message["status"], message["headers"])
            if "whole" in message:
                self._go_on(head, message["whole"], False)
            else:
                protocol.transport.write(head)
        else:
            raise RuntimeError(f"{kind!r} out of order")

    async def receive(self) -> Message:
        """Hand on what came of the request, or that its agent is gone."""
        protocol = self._protocol
        if self.expects and not protocol.transport.is_closing():
            self.expects = False
            protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not (self.gone or self.complete):
            protocol.go_on()
            if not self._news:
                await wait_for_wake(self._waiting, protocol.loop)
            self._news = False
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        parts, self._parts, self._parts_bytes = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def pass_on(self, part: bytes) -> bool:
        """Send a part of the answer's body now; False, where it must wait or nobody reads it."""
        protocol = self._protocol
        if protocol.write_paused or self.gone:
            return False
        if self._chunked:
            protocol.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            self._go_on(b"", part, True)
        return True

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Have this called when the agent is gone; what is still to come of the request is lost.

        None: no more. At most one is called, once.
        """
        self._when_gone = when_gone
        if when_gone is not None:
            self._parts, self._parts_bytes = [], 0
            self._protocol.go_on()
            if self.gone:
                when_gone()

    def leave(self) -> None:
        """The agent is gone."""
        if not self.gone:
            self.gone = True
            self.tell()
            if self._when_gone is not None:
                self._when_gone()

    def on_body_part(self, part: bytes) -> int:
        """Take a part of the request's body; the bytes that wait to be received."""
        if self._when_gone is not None:
            return 0
        self._parts.append(part)
        self._parts_bytes += len(part)
        self.tell()
        return self._parts_bytes

    def tell(self) -> None:
        """There is something new to be received."""
        self._news = True
        if self._waiting:
            wake_all(self._waiting)

    def _begin(self, status: int, headers: Pairs) -> bytes:
        self.begun = True
        self.expects = False
        named = dict(headers)
        lines = [*map(b": ".join, headers)]
        self._chunked = named.get(TRANSFER_ENCODING, b"").lower() == b"chunked"
        if CONTENT_LENGTH in named and not self._chunked:
            self._left = int(named[CONTENT_LENGTH])
        elif not (self._chunked or self.bodiless or status in _NO_BODY):
            self._chunked = True
            lines.append(b"transfer-encoding: chunked")
        if b"close" in named.get(CONNECTION, b"").lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close")
        lines += (b"", b"")
        head = b"\r\n".join(lines)
        if not head.count(b"\n") == head.count(b"\r") == len(lines) - 1:
            raise RuntimeError("a header holds a line break")
        return STATUS_LINE[status] + head

    def _go_on(self, head: bytes, body: bytes, more_body: bool) -> None:
        if self.bodiless:
            self._left = 0
            body = b""
        elif self._chunked:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = framed if more_body else framed + b"0\r\n\r\n"
        else:
            if len(body) > self._left:
                raise RuntimeError("the body is longer than its content-length")
            self._left -= len(body)
        self._protocol.transport.write(head + body)
        if not more_body:
            self._end()

    def _end(self) -> None:
        if self._left:
            raise RuntimeError("the body is shorter than its content-length")
        self.complete = True
        self.tell()
        if not self.keep_alive:
            self._protocol.transport.close()
        self._protocol.answered()

    async def _break_off(self) -> None:
        """Say that nothing can be said; what was begun is cut."""
        if self.begun:
            self._protocol.transport.close()
            return
        said = b"Internal Server Error"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (CONTENT_LENGTH, b"%d" % len(said)),
            (CONNECTION, b"close"),
        ]
        await self.send({
            "type": "http.response.start", "status": 500, "headers": headers, "whole": said,
        })  # fmt: skip


def wake_all(waiting: list[asyncio.Future[None]]) -> None:
    """Wake everybody who waits."""
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
