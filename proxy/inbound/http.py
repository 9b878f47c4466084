"""The server's side of an agent's connection: HTTP/1.1 to ASGI at little cost per call.

Beyond what ASGI servers do it bounds a request's head, reads on behind an upgrade that is not
spoken here, and tells calls at once that their agent is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from proxy.inbound.connections import Waiting, descriptor_of, table_of
from proxy.inbound.dispatch import Dispatch
from proxy.inbound.flow_control import FlowControl
from proxy.inbound.request_cycle import RequestCycle
from proxy.inbound.request_head import RepeatedHead, RequestHead
from proxy.inbound.request_parser import RequestParser
from proxy.inbound.response_framing import CONTENT_LENGTH
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs

HEAD_LIMIT = 64 * 1024  # bytes of one request's head, or of its trailer, give or take one read
# Requests that may be pipelined behind one that is not answered; behind them nothing is read, not
# even that the agent is gone.
_PIPELINED = 8
# An agent that is refused may be sending still. A connection that is closed with bytes unread is
# reset, and its client says so instead of why: for so long, and so many bytes, it may go on.
_LINGER_S = 2.0
_LINGER_BYTES = 16 * 1024 * 1024
_TOO_LARGE = Refusal(
    431, "head_too_large", f"a request's head, or its trailer, has at most {HEAD_LIMIT} bytes"
)
_NO_HTTP = b"Invalid HTTP request received."
_PLAIN = ((b"content-type", b"text/plain; charset=utf-8"),)


class HttpProtocol(asyncio.Protocol):
    """An agent's connection, as uvicorn's server makes them."""

    __slots__ = (
        "_config", "_cycles", "_dispatch", "_flow", "_lingering", "_loop", "_parser", "_reading",
        "_server", "_state", "_table", "_unread", "quiet", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config, self._server, self._state = config, server_state, app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._dispatch = Dispatch(config, server_state, app_state, self._loop)
        takes_websocket = config.ws_protocol_class is not None
        self._parser: RequestParser | None = RequestParser(self, takes_websocket=takes_websocket)
        self._cycles: list[RequestCycle] = []  # the first is running, the others wait for it
        self._reading: RequestCycle | None = None  # the one whose request's body is arriving
        self._table = table_of(server_state, self._dispatch.relaying)
        self._lingering: asyncio.TimerHandle | None = None  # closes a connection that was refused
        self._unread = 0  # bytes that came since
        self.quiet = 0
        self.waiting: Waiting | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        line = cast(asyncio.Transport, transport)
        self._flow = FlowControl(line, self._loop)
        self._server.connections.add(self)  # type: ignore[arg-type]  # its own kinds only
        self._dispatch.connected(line, self._config)
        connections = len(self._server.connections)
        refusal = self._table.enter(self, self._address, descriptor_of(line), connections)
        if refusal is not None:
            self._refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Take bytes; an unfinished head may only grow so far."""
        parser = self._parser
        if parser is None:
            self._unread += len(data)
            if self._unread > _LINGER_BYTES:
                self._flow.transport.close()
            return
        try:
            if parser.feed(data):
                self._hand_over(parser.upgrade_request())
            elif parser.head_bytes is not None and parser.head_bytes > HEAD_LIMIT:
                self._refuse(_TOO_LARGE)
        except httptools.HttpParserError:
            self._table.refusals.note("invalid_http")
            self._close_with(400, [*_PLAIN, (CONTENT_LENGTH, b"%d" % len(_NO_HTTP))], _NO_HTTP)
        if self._dispatch.fresh is not None:  # it is known what came behind it
            self._dispatch.begin_soon()

    def eof_received(self) -> None:
        """Take that the agent is gone; asyncio closes the connection on return."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        if self._lingering is None:
            self._depart()
        else:
            self._lingering.cancel()
            self._table.lingering -= 1
        self._leave()
        self._flow.resume_writing()
        self._let_go()

    def pause_writing(self) -> None:
        """Take that the transport's buffer is full."""
        self._flow.write_paused = True

    def resume_writing(self) -> None:
        """Take that there is room in it again."""
        self._flow.resume_writing()

    # uvicorn's, and the table's

    def shutdown(self) -> None:
        """End the connection after the responses that are requested already."""
        if self._cycles:
            self._cycles[-1].framing.keep_alive = False
        else:
            self._flow.transport.close()

    def waits_for(self) -> Waiting | None:
        """Return what is waited for from the agent, not what is held up here."""
        parser, reading = self._parser, self._reading
        if parser is not None and reading is not None and reading.more_body:
            return None if reading.expects or self._flow.held else Waiting.BODY
        if parser is None or self._cycles:
            return None
        return Waiting.HEAD if reading is None or parser.head_bytes is not None else Waiting.IDLE

    def end(self, refusal: Refusal | None) -> None:
        """Close the connection, with a refusal where a request was begun."""
        parser = self._parser
        if refusal is not None and parser is not None and (self._cycles or parser.head_bytes):
            self._refuse(refusal)
            return
        self._leave()
        self._let_go()
        self._flow.transport.close()

    # the parser's

    def on_request(self, head: RequestHead, keep_alive: bool) -> None:
        """Take a request's head, and answer it once those before it are answered."""
        expect = dict(head.headers).get(b"expect")
        expects = expect is not None and expect.lower() == b"100-continue"
        client, answered = self._dispatch.client, self._answered
        self._take(
            RequestCycle(self._flow, head, client, answered, keep_alive=keep_alive, expects=expects)
        )

    def on_repeated(self, head: RepeatedHead, body: bytes, more_body: bool) -> None:
        """Take a request whose head came before, with what came of its body."""
        cycle = RequestCycle(
            self._flow, head.head, self._dispatch.client, self._answered, keep_alive=True,
            expects=False, repeated=head, body=body, more_body=more_body,
        )  # fmt: skip
        self._take(cycle)
        if len(body) > HIGH_WATER_LIMIT and cycle is not self._dispatch.fresh:
            self._flow.hold()

    def _take(self, cycle: RequestCycle) -> None:
        self.quiet = 0
        self._reading = cycle
        self._cycles.append(cycle)
        if len(self._cycles) == 1:
            self._dispatch.fresh = cycle
        elif len(self._cycles) > _PIPELINED:
            self._flow.hold()

    def on_body(self, body: bytes) -> None:
        """Take a part of a request's body."""
        self.quiet = 0
        cycle = self._reading
        waits = 0 if cycle is None or cycle.complete else cycle.on_body_part(body)
        if waits > HIGH_WATER_LIMIT and cycle is not self._dispatch.fresh:  # it has yet to begin
            self._flow.hold()

    def on_request_end(self) -> None:
        """Take a request's end."""
        if (cycle := self._reading) is not None:
            cycle.more_body = False
            cycle.notify()

    # one request after the other

    def _answered(self) -> None:
        """Begin the next request's cycle, or rest."""
        del self._cycles[0]
        if self._flow.transport.is_closing():
            return
        if self._flow.held:
            self._flow.go_on()
        if self._cycles:
            self._dispatch.begin(self._cycles[0])

    @property
    def _address(self) -> str:
        """The agent's."""
        client = self._dispatch.client
        return client[0] if client else ""

    def _leave(self) -> None:
        """Tell every cycle at once that its agent is gone."""
        self._dispatch.begin_late()
        for cycle in self._cycles:
            cycle.leave()

    def _let_go(self) -> None:
        """Break the references to this connection."""
        if self._parser is not None:
            self._parser.close()
        self._parser = self._reading = None

    def _refuse(self, refusal: Refusal) -> None:
        self._close_with(refusal.status, *self._table.problem(refusal))

    def _close_with(self, status: int, headers: Pairs, body: bytes) -> None:
        """Answer what is no request, but not in the middle of another response."""
        answering = any(cycle.begun for cycle in self._cycles)
        self._leave()
        self._let_go()
        if not answering:
            lines = [*map(b": ".join, headers), b"connection: close", b"", body]
            self._flow.transport.write(STATUS_LINE[status] + b"\r\n".join(lines))
            if self._flow.transport.can_write_eof() and self._table.may_linger:
                self._linger()
                return
        self._flow.transport.close()

    def _linger(self) -> None:
        """Send nothing more, and close the connection once its agent has, or after a moment."""
        self._depart()
        del self._cycles[1:]  # they are not begun
        self._table.lingering += 1
        self._flow.go_on()
        self._flow.transport.write_eof()
        self._lingering = self._loop.call_later(_LINGER_S, self._flow.transport.close)

    def _depart(self) -> None:
        """Count the connection out."""
        self._server.connections.discard(self)
        self._table.leave(self._address, self)

    def _hand_over(self, upgrade_request: bytes) -> None:
        """Let the WebSocket's protocol class have the connection, and the request."""
        self._server.connections.discard(self)
        self._table.hand_over(self)
        serve = cast(Callable[..., Any], self._config.ws_protocol_class)
        end = serve(config=self._config, server_state=self._server, app_state=self._state)
        self._let_go()
        end.connection_made(self._flow.transport)
        end.data_received(upgrade_request)
        self._flow.transport.set_protocol(end)
