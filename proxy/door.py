"""The server's side of an agent's connection: uvicorn's, with less done for each call.

It decides nothing and changes no byte. It refuses a head that has no end, keeps the body of a
request that asks for a protocol which is not spoken here, and lets calls learn at once that their
agent is gone.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from proxy.refusals import Refusal, problem

HEAD_LIMIT = 64 * 1024  # bytes of one request's head, give or take one read

_LENGTH, _CODING, _CONNECTION = b"content-length", b"transfer-encoding", b"connection"
_FRAMING = frozenset({_LENGTH, _CODING})
_NO_BODY = frozenset({204, 304})
_ROLLOUTS = b"/r/"


class Door(HttpToolsProtocol):
    """uvicorn's protocol.

    Each request's ``scope["state"]["transport"]`` is its connection: a drill takes it, to
    reset it. An agent's call does not pass what tells the control plane its own address
    behind a proxy (``x-forwarded-*``), since a relay goes by the raw path.

    The parser ends where another protocol would begin, before the body. Java's client offers
    HTTP/2 with every first request (RFC 7540 §3.2), which is then a plain one (RFC 9110 §7.8): its
    body must neither be lost nor be read as a request of its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app = self.app
        self._relaying = app.app if isinstance(app, ProxyHeadersMiddleware) else app
        self._head_bytes: int | None = None  # of a head that has no end yet
        self._cycles: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head is held until its end, so that it must have one."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._read_on(data[upgrade.args[0] :])
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """The parser's: a request begins."""
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """The parser's: a request's head is here; as uvicorn's own, but with an `Answering`."""
        self._head_bytes = None
        parser, scope = self.parser, self.scope
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade() and self._should_upgrade():
            return
        url = httptools.parse_url(self.url)
        raw_path: bytes = url.path
        path = raw_path.decode("ascii")
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = url.query or b""
        before, self.cycle = (
            self.cycle,
            Answering(
                scope=scope,
                transport=self.transport,
                flow=self.flow,
                logger=self.logger,
                access_logger=self.access_logger,
                access_log=False,
                default_headers=self.server_state.default_headers,
                message_event=asyncio.Event(),
                expect_100_continue=self.expect_100_continue,
                keep_alive=version != "1.0" and parser.should_keep_alive(),
                on_response=self.on_response_complete,
            ),
        )
        self._cycles = [one for one in self._cycles if not one.response_complete]
        self._cycles.append(self.cycle)
        app = self._relaying if raw_path.startswith(_ROLLOUTS) else self.app
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, cast(ASGI3Application, app))
        else:  # asked before the answer to the last request was whole
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, cast(ASGI3Application, app)))

    def on_body(self, body: bytes) -> None:
        """The parser's: a part of a request's body is here."""
        cycle = self.cycle
        if cycle.response_complete or (self.parser.should_upgrade() and self._should_upgrade()):
            return
        assert isinstance(cycle, Answering)
        cycle.parts.append(body)
        cycle.parts_bytes += len(body)
        if cycle.parts_bytes > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The parser's: a request's end is here, unless its body is still to be read."""
        if not self.parser.should_upgrade() or self._should_upgrade():
            super().on_message_complete()

    def eof_received(self) -> None:
        """Take the agent's leaving; its connection closes on our return."""
        self._left()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        self._left()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP, but not in the middle of an answer."""
        self._refuse(lambda: super(Door, self).send_400_response(msg))

    def _refuse_head(self) -> None:
        refusal = Refusal(431, "head_too_large", f"a request's head has at most {HEAD_LIMIT} bytes")
        headers, body = problem(refusal)
        lines = [*map(b": ".join, headers), b"connection: close", b"", body]
        self._refuse(
            lambda: self.transport.write(STATUS_LINE[refusal.status] + b"\r\n".join(lines))
        )

    def _refuse(self, say: Callable[[], object]) -> None:
        answering = any(one.response_started and not one.response_complete for one in self._cycles)
        self._left()
        self._head_bytes = None
        if not answering:
            say()
        self.transport.close()

    def _left(self) -> None:
        """Tell every call under way at once: until the connection's end is told to uvicorn, and
        for all but the newest call after that, it would write where nothing can be written."""
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _read_on(self, data: bytes) -> None:
        framing = [b": ".join(pair) for pair in self.headers if pair[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(_AfterHead(self))
        self.data_received(b"\r\n".join((b"POST / HTTP/1.1", *framing, b"", b"")) + data)


class _AfterHead:
    """Hands on what a parser finds, but for the first head, which was handed on before."""

    def __init__(self, protocol: Door) -> None:
        self._to = protocol
        self._known = True
        self.on_body = protocol.on_body

    def on_message_begin(self) -> None:
        if not self._known:
            self._to.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._known:
            self._to.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._known:
            self._to.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._known:
            self._to.on_headers_complete()

    def on_message_complete(self) -> None:
        self._known = False
        self._to.on_message_complete()


class Answering(RequestResponseCycle):
    """One answer on its way out: uvicorn's, that joins its head instead of checking each header.

    Names arrive in lower case, as ASGI asks for. A start that says ``held`` goes out with the body
    that follows at once, in one write. A request's body is kept in the parts it came in.
    """

    _held = b""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parts: list[bytes] = []
        self.parts_bytes = 0

    async def send(self, message: Any) -> None:
        """Take a message of the application.

        Raises:
            RuntimeError: it comes out of order, or would be read as another one.
        """
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started and kind == "http.response.start":
            head = self._begin(message["status"], [*self.default_headers, *message["headers"]])
            if message.get("held"):
                self._held = head
            else:
                self.transport.write(head)
        elif self.response_started and not self.response_complete and kind == "http.response.body":
            self._go_on(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind!r} out of order")

    async def receive(self) -> Any:
        """Hand on what came of the request, or that its agent is gone."""
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self.flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        parts, self.parts, self.parts_bytes = self.parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        self.response_started = True
        self.waiting_for_100_continue = False
        lines = [*map(b": ".join, headers)]
        seen = dict(headers)
        self.chunked_encoding = seen.get(_CODING, b"").lower() == b"chunked"
        if _LENGTH in seen and not self.chunked_encoding:
            self.expected_content_length = int(seen[_LENGTH])
        elif (
            not self.chunked_encoding and self.scope["method"] != "HEAD" and status not in _NO_BODY
        ):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked")
        if b"close" in seen.get(_CONNECTION, b"").lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close")
        lines += (b"", b"")
        head = b"\r\n".join(lines)
        if not head.count(b"\n") == head.count(b"\r") == len(lines) - 1:
            raise RuntimeError("a header holds a line break")
        return STATUS_LINE[status] + head

    def _go_on(self, body: bytes, more_body: bool) -> None:
        held, self._held = self._held, b""
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            self.transport.write(held)
        elif self.chunked_encoding:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(held + (framed if more_body else framed + b"0\r\n\r\n"))
        else:
            if len(body) > self.expected_content_length:
                raise RuntimeError("the body is longer than its content-length")
            self.expected_content_length -= len(body)
            self.transport.write(held + body if held else body)
        if not more_body:
            self._end()

    def _end(self) -> None:
        if self.expected_content_length:
            raise RuntimeError("the body is shorter than its content-length")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
