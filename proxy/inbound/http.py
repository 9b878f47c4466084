"""HTTP/1.1 server side of an agent's connection, as a protocol class for uvicorn.

Unlike uvicorn's own classes it limits the size of a request's head, keeps reading after an upgrade
that it declines, and tells a call at once when its agent disconnects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

import httptools
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from proxy.inbound.asgi import Application, Message, Scope
from proxy.inbound.connections import Waiting, descriptor_of, table_of
from proxy.inbound.parser import RepeatedHead, RequestHead, RequestParser
from proxy.inbound.response import (
    CONTENT_LENGTH,
    AgentResponse,
    FlowControl,
    wait_for_wake,
    wake_all,
)
from proxy.routing.errors import OVER_HTTP, Refusal
from proxy.routing.headers import Pairs, first

# --- one request and its response --------------------------------------------------------------


_log = logging.getLogger("uvicorn.error")


class RequestCycle(AgentResponse):
    """A response on its way out, and the body of its request on its way in.

    The request's body is kept in the parts it came in, until a reader takes it or, of an ASGI
    application, `receive` is called.

    ``client``: the agent's address and port. ``more_body``: of the request. ``expects``: to be told
    that the body may be sent (100 Continue). ``repeated``: what knew its head again.

    Arguments:
        answered: called when the response is complete.
        keep_alive: as in `ResponseFraming`.
        body: what came of the request's with its head.
    """

    _reader: Callable[[bytes, bool], None] | None = None  # of the body
    _reader_waits = False
    _discards = False  # what comes of the body

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
        try:
            await app(scope, self.receive, self.send)
        except BaseException as error:
            _log.error("Exception in ASGI application\n", exc_info=error)
            await self._break_off()
        else:
            if not self.complete and not self.disconnected:
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

    # the body, handed on as it arrives

    def read_body(self, reader: Callable[[bytes, bool], None]) -> None:
        """Hand on what came of the body, and then what comes, with whether there is more.

        What comes of one read is handed on together. The reader is not called once more behind the
        last part, nor while it has paused.
        """
        self.go_ahead()
        self._reader = reader
        self._flow.resume_reading()
        self.hand_on()

    def hand_on(self) -> None:
        """Hand on what came, if anything did and somebody reads it."""
        reader = self._reader
        if reader is not None and self._news and not self._reader_waits:
            self._news = False
            part = self.peek()
            self._parts, self._parts_bytes = [], 0
            if not self.more_body:
                self._reader = None
            reader(part, self.more_body)

    def pause_body(self) -> None:
        """Hand on nothing more for now; what comes is kept, and the agent read no further."""
        self._reader_waits = True

    def resume_body(self) -> None:
        """Hand on again."""
        if self._reader_waits:
            self._reader_waits = False
            self._flow.resume_reading()
            self.hand_on()

    def discard_body(self) -> None:
        """Read the rest of the body, and hand on nothing of it."""
        self._discards, self._reader, self._parts = True, None, []
        if self._flow.held:
            self._flow.resume_reading()

    def go_ahead(self) -> None:
        """Tell an agent that waits for it that the body is wanted."""
        flow = self._flow
        if self.expects and not (self.begun or flow.transport.is_closing()):
            self.expects = False
            flow.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # ASGI

    async def send(self, message: Message) -> None:
        """Take a message of the application.

        Raises:
            RuntimeError: it comes out of order, or would be read as another one.
        """
        flow = self._flow
        if flow.write_paused and not self.disconnected:
            await flow.drain()
        if self.disconnected:
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
        self.go_ahead()
        if not (self.disconnected or self.complete):
            flow.resume_reading()
            if not self._news:
                await wait_for_wake(self._waiting, flow.loop)
            self._news = False
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body = self.peek()
        self._parts, self._parts_bytes = [], 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # the connection's

    def leave(self) -> None:
        """Take that the agent is gone."""
        super().leave()
        self.notify()

    def on_body_part(self, part: bytes) -> int:
        """Take a part of the request's body; the bytes that wait to be received."""
        if self._discards:
            return 0
        self._parts.append(part)
        self._parts_bytes += len(part)
        self.notify()
        return 0 if self.is_read else self._parts_bytes

    def on_body_end(self) -> None:
        """Take the end of the request's body."""
        self.more_body = False
        self.notify()
        self.hand_on()

    @property
    def is_read(self) -> bool:
        """True if parts of the body are handed on as they arrive."""
        return self._reader is not None and not self._reader_waits

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
        if flow.write_paused and not (self.disconnected or self.begun):
            await flow.drain()
        self.fail()


# --- answers: by the relay's callbacks, or by an application in a task --------------------------
# An agent's call does not pass `ProxyHeadersMiddleware`, which reads ``x-forwarded-*`` for the
# control plane: the relay uses the raw path.


_ROLLOUTS = b"/r/"
# Many clients send a head and its body apart. For so long the first waits for the second: a request
# that is all there takes half the work.
_SPLIT_S = 0.002
# Bytes of a body that is waited for: a long conversation comes in several reads. The beginning of a
# longer one is better sent on at once.
_LONGEST = 1024 * 1024


class AgentCalls(Protocol):
    """Answers agents' requests of one connection."""

    def claims(self, raw_path: bytes) -> bool:
        """Return True if a request is an agent's."""
        ...

    def take(self, request: RequestCycle, tasks: set[Any]) -> None:
        """Answer a request, of whose body there may be more to come.

        Arguments:
            tasks: what the server cancels when its grace is over: tasks, and whatever else has
                `cancel`.
        """
        ...


class Dispatch:
    """Begins the answers to the requests of one connection.

    ``fresh``: the request that has yet to begin. ``relaying``: the application itself. Where it has
    a method ``agent_calls``, that is asked once for each connection, by its scope, for its
    `AgentCalls`, which may be None. ``client``: the agent's address and port.
    """

    __slots__ = ("_app", "_calls", "_late", "_loop", "_scope", "_state", "_tasks", "client",
                 "fresh", "relaying")  # fmt: skip

    def __init__(
        self,
        config: Config,
        server: ServerState,
        state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        app: Any = config.loaded_app
        self._app: Application = app
        self.relaying: Any = app.app if isinstance(app, ProxyHeadersMiddleware) else app
        self._state = state
        self._loop = loop
        self._tasks: set[Any] = server.tasks
        self._scope: Scope = {}
        self._calls: AgentCalls | None = None
        self.client: tuple[str, int] | None = None
        self.fresh: RequestCycle | None = None
        self._late: asyncio.TimerHandle | None = None  # begins it without the rest of its body

    def connected(self, line: asyncio.Transport, config: Config) -> None:
        """Take the connection, whose scope those of its requests are copied from."""
        self.client = _host_and_port(line.get_extra_info("peername"))
        self._scope = {
            "type": "http",
            "asgi": {"version": config.asgi_version, "spec_version": "2.3"},
            "server": _host_and_port(line.get_extra_info("sockname")),
            "client": self.client,
            "scheme": "http" if line.get_extra_info("sslcontext") is None else "https",
            "root_path": config.root_path,
            "state": self._state,
        }
        offers = getattr(self.relaying, "agent_calls", None)
        self._calls = None if offers is None else offers(self._scope)

    def begin_soon(self) -> None:
        """Begin the fresh request: now, or when the rest of a body that is waited for is here."""
        fresh = self.fresh
        if fresh is None:
            return
        if fresh.more_body:
            if self._late is not None:
                return
            if self._awaits_body(fresh):
                self._late = self._loop.call_later(_SPLIT_S, self.begin_late)
                return
        if self._late is not None:
            self._late.cancel()
            self._late = None
        self.fresh = None
        self.begin(fresh)

    def begin_late(self) -> None:
        """Begin a request that waits for the rest of its body, without it."""
        fresh, late = self.fresh, self._late
        if fresh is not None and late is not None:
            late.cancel()
            self.fresh = self._late = None
            self.begin(fresh)

    def begin(self, cycle: RequestCycle) -> None:
        """Have a request answered."""
        calls, path = self._calls, cycle.head.raw_path
        if calls is not None and (path.startswith(_ROLLOUTS) or calls.claims(path)):
            calls.take(cycle, self._tasks)
            return
        app, scope = self._app, self._scope.copy()
        scope["state"] = self._state.copy()
        self._loop.create_task(cycle.run(app, scope, self._tasks))

    def _awaits_body(self, cycle: RequestCycle) -> bool:
        calls, head = self._calls, cycle.head
        if calls is None or cycle.expects or not calls.claims(head.raw_path):
            return False
        length = first(head.headers, CONTENT_LENGTH)
        return length is not None and length.isdigit() and int(length) <= _LONGEST


def _host_and_port(address: Any) -> tuple[str, int] | None:
    """Host and port of a socket's address; an IPv6 one has more."""
    return address[:2] if isinstance(address, tuple) else None


# --- the connection ----------------------------------------------------------------------------


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
_NO_WEBSOCKET = Refusal(
    426, "no_websocket", "this service takes no WebSockets: ask the same over HTTP", OVER_HTTP
)
_TLS = b"\x16\x03"  # how a TLS client begins (RFC 8446 §5.1)
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
        self._parser: RequestParser | None = RequestParser(self)
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
            if data.startswith(_TLS):
                self._table.refusals.note("tls_spoken")
            else:
                self._table.refusals.note("invalid_http")
            self._close_with(400, [*_PLAIN, (CONTENT_LENGTH, b"%d" % len(_NO_HTTP))], _NO_HTTP)
        if self._dispatch.fresh is not None:  # it is known what came behind it
            self._dispatch.begin_soon()
        elif (reading := self._reading) is not None:
            reading.hand_on()

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
            self._flow.pause_reading()

    def _take(self, cycle: RequestCycle) -> None:
        self.quiet = 0
        self._reading = cycle
        self._cycles.append(cycle)
        if len(self._cycles) == 1:
            self._dispatch.fresh = cycle
        elif len(self._cycles) > _PIPELINED:
            self._flow.full = True
            self._flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Take a part of a request's body."""
        self.quiet = 0
        cycle = self._reading
        waits = 0 if cycle is None or cycle.complete else cycle.on_body_part(body)
        if waits > HIGH_WATER_LIMIT and cycle is not self._dispatch.fresh:  # it has yet to begin
            self._flow.pause_reading()

    def on_request_end(self) -> None:
        """Take a request's end."""
        if (cycle := self._reading) is not None:
            cycle.on_body_end()

    # one request after the other

    def _answered(self) -> None:
        """Begin the next request's cycle, or rest."""
        del self._cycles[0]
        if self._flow.transport.is_closing():
            return
        if self._flow.held:
            self._flow.full = len(self._cycles) > _PIPELINED
            self._flow.resume_reading()
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
        self._flow.full = False
        self._flow.resume_reading()
        self._flow.transport.write_eof()
        self._lingering = self._loop.call_later(_LINGER_S, self._flow.transport.close)

    def _depart(self) -> None:
        """Count the connection out."""
        self._server.connections.discard(self)
        self._table.leave(self._address, self)

    def _hand_over(self, upgrade_request: bytes) -> None:
        """Let the WebSocket's protocol class have the connection, and the request.

        Without one, the agent is told to ask over HTTP.
        """
        serve = cast(Callable[..., Any] | None, self._config.ws_protocol_class)
        if serve is None:
            self._refuse(_NO_WEBSOCKET)
            return
        self._server.connections.discard(self)
        self._table.hand_over(self)
        end = serve(config=self._config, server_state=self._server, app_state=self._state)
        self._let_go()
        end.connection_made(self._flow.transport)
        end.data_received(upgrade_request)
        self._flow.transport.set_protocol(end)
