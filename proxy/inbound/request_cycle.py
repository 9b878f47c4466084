"""One request of an agent and its response, between the connection and the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from proxy.inbound.agent_response import AgentResponse
from proxy.inbound.asgi import AGENT_CONNECTION, Application, Message, Scope
from proxy.inbound.flow_control import FlowControl, wait_for_wake, wake_all
from proxy.inbound.request_head import RepeatedHead, RequestHead
from proxy.routing.headers import Pairs

_log = logging.getLogger("uvicorn.error")


class RequestCycle(AgentResponse):
    """A response on its way out, and the body of its request on its way in.

    The request's body is kept in the parts it came in. It is the `AgentConnection` of its request.

    ``client``: the agent's address and port. ``more_body``: of the request. ``expects``: to be told
    that the body may be sent (100 Continue). ``repeated``: what knew its head again.

    Arguments:
        answered: called when the response is complete.
        keep_alive: as in `ResponseFraming`.
        body: what came of the request's with its head.
    """

    def __init__(
        self,
        flow: FlowControl,
        head: RequestHead,
        client: tuple[str, int] | None,
        answered: Callable[[], None],
        *,
        keep_alive: bool,
        expects: bool,
        repeated: RepeatedHead | None = None,
        body: bytes = b"",
        more_body: bool = True,
    ) -> None:
        super().__init__(flow, answered, bodiless=head.method == "HEAD", keep_alive=keep_alive)
        self.head = head
        self.client = client
        self.expects = expects
        self.repeated = repeated
        self.more_body = more_body
        self._parts = [body] if body else []
        self._parts_bytes = len(body)
        self._news = not more_body or body != b""  # something that `receive` has yet to return
        self._waiting: list[asyncio.Future[None]] = []  # for news

    async def run(self, app: Application, scope: Scope, tasks: set[asyncio.Task[Any]]) -> None:
        """Have an application answer, as one of the server's tasks.

        Arguments:
            scope: of the connection, to be completed by the request's head.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task(self._flow.loop))
        tasks.add(task)
        head = self.head
        scope["method"], scope["path"], scope["raw_path"], scope["query_string"] = head[:4]
        scope["http_version"], scope["headers"] = head.version, head.headers
        scope["extensions"] = {AGENT_CONNECTION: self}
        try:
            await app(scope, self.receive, self.send)
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

    def peek(self) -> bytes:
        """Return what came of the request's body; it stays here."""
        parts = self._parts
        if len(parts) > 1:
            parts[:] = [b"".join(parts)]
        return parts[0] if parts else b""

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
            self.start(message["status"], message["headers"])
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
        body = self.peek()
        self._parts, self._parts_bytes = [], 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # the extension `AGENT_CONNECTION`

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response in one write."""
        flow = self._flow
        if flow.write_paused and not self.gone:
            await flow.drain()
        self.send_now(status, headers, body)

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Call ``when_gone`` once, when the agent is gone; None stops watching.

        The rest of the request's body is discarded.
        """
        if when_gone is not None:
            self._parts, self._parts_bytes = [], 0
        super().watch(when_gone)

    # the connection's

    def leave(self) -> None:
        """Take that the agent is gone."""
        super().leave()
        self.notify()

    def on_body_part(self, part: bytes) -> int:
        """Take a part of the request's body; the bytes that wait to be received."""
        if self.when_gone is not None:
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
        super()._end()
        self._news = True
        if self._waiting:
            wake_all(self._waiting)

    async def _break_off(self) -> None:
        """Answer 500; a response that was begun is cut."""
        flow = self._flow
        if flow.write_paused and not (self.gone or self.begun):
            await flow.drain()
        self.break_off()
