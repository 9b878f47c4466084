"""One request of an agent and its response, between the connection and the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from proxy.inbound.asgi import AGENT_CONNECTION, Application, Message, Scope
from proxy.inbound.flow_control import FlowControl, wait_for_wake, wake_all
from proxy.inbound.response_framing import CONNECTION, CONTENT_LENGTH, ResponseFraming
from proxy.routing.headers import Pairs

_log = logging.getLogger("uvicorn.error")


class RequestCycle:
    """A response on its way out, and the body of its request on its way in.

    The request's body is kept in the parts it came in. It is the `AgentConnection` of its request.

    ``gone``: the agent is. ``begun``, ``complete``: the response is. ``more_body``: of the
    request. ``expects``: to be told that the body may be sent (100 Continue).

    Arguments:
        answered: called when the response is complete.
        bodiless, keep_alive: as in `ResponseFraming`.
    """

    gone = False
    begun = False
    complete = False
    more_body = True
    _parts_bytes = 0
    _news = False  # something that `receive` has not returned yet
    _when_gone: Callable[[], None] | None = None

    def __init__(
        self,
        flow: FlowControl,
        app: Application,
        scope: Scope,
        answered: Callable[[], None],
        *,
        bodiless: bool,
        keep_alive: bool,
        expects: bool,
    ) -> None:
        self._flow = flow
        self._app = app
        self._scope = scope
        self._answered = answered
        self.framing = ResponseFraming(bodiless=bodiless, keep_alive=keep_alive)
        self.expects = expects
        self._parts: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []  # for news

    async def run(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Have the application answer, as one of the server's tasks."""
        task = cast("asyncio.Task[Any]", asyncio.current_task(self._flow.loop))
        tasks.add(task)
        scope, self._scope = self._scope, {}  # it refers to this cycle
        scope["extensions"] = {AGENT_CONNECTION: self}
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

    # ASGI

    async def send(self, message: Message) -> None:
        """Take a message of the application.

        Raises:
            RuntimeError: it comes out of order, or would be read as another one.
        """
        flow = self._flow
        if flow.write_paused and not self.gone:
            await flow.drain()
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.begun and not self.complete:
            more_body = message.get("more_body", False)
            flow.transport.write(self.framing.part(message.get("body", b""), more_body))
            if not more_body:
                self._end()
        elif kind == "http.response.start" and not self.begun:
            self.begun = True
            flow.transport.write(self.framing.head(message["status"], message["headers"]))
        else:
            raise RuntimeError(f"{kind!r} out of order")

    async def receive(self) -> Message:
        """Return what came of the request, or that its agent is gone."""
        flow = self._flow
        if self.expects and not (self.begun or flow.transport.is_closing()):
            self.expects = False
            flow.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not (self.gone or self.complete):
            flow.go_on()
            if not self._news:
                await wait_for_wake(self._waiting, flow.loop)
            self._news = False
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        parts, self._parts, self._parts_bytes = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # the extension `AGENT_CONNECTION`

    @property
    def paused(self) -> bool:
        """Whether what is sent next waits for the agent to read."""
        return self._flow.write_paused

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response in one write."""
        flow = self._flow
        if flow.write_paused and not self.gone:
            await flow.drain()
        if not self.gone:
            self.begun = True
            head = self.framing.head(status, headers)
            flow.transport.write(head + self.framing.part(body, False))
            self._end()

    def pass_on(self, part: bytes) -> bool:
        """Send a part of the response's body now; False where it must wait or nobody reads it."""
        flow = self._flow
        if flow.write_paused or self.gone:
            return False
        framing = self.framing
        if framing.chunked:
            flow.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            flow.transport.write(framing.part(part, True))
        return True

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Call ``when_gone`` once, when the agent is gone; None stops watching.

        The rest of the request's body is discarded.
        """
        self._when_gone = when_gone
        if when_gone is not None:
            self._parts, self._parts_bytes = [], 0
            self._flow.go_on()
            if self.gone:
                when_gone()

    def reset(self) -> bool:
        """Reset the agent's connection."""
        if not self._flow.transport.is_closing():
            self._flow.reset()
        return True

    # the connection's

    def leave(self) -> None:
        """Take that the agent is gone."""
        if not self.gone:
            self.gone = True
            self.notify()
            if self._when_gone is not None:
                self._when_gone()

    def on_body_part(self, part: bytes) -> int:
        """Take a part of the request's body; the bytes that wait to be received."""
        if self._when_gone is not None:
            return 0
        self._parts.append(part)
        self._parts_bytes += len(part)
        self.notify()
        return self._parts_bytes

    def notify(self) -> None:
        """There is something new to be received."""
        self._news = True
        if self._waiting:
            wake_all(self._waiting)

    def _end(self) -> None:
        self.complete = True
        self.notify()
        if not self.framing.keep_alive:
            self._flow.transport.close()
        self._answered()

    async def _break_off(self) -> None:
        """Answer 500; a response that was begun is cut."""
        if self.begun:
            self._flow.transport.close()
            return
        text = b"Internal Server Error"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (CONTENT_LENGTH, b"%d" % len(text)),
            (CONNECTION, b"close"),
        ]
        await self.send_whole(500, headers, text)
