"""The server's side of an agent's connection: HTTP/1.1 to ASGI, with little done for each call.

It decides nothing and changes no byte. It refuses a head that has no end, keeps the body of a
request that asks for a protocol which is not spoken here, and lets calls learn at once that their
agent is gone.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from proxy.inbound.asgi import Application, Message, Pairs, Scope
from proxy.inbound.request_cycle import (
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    RequestCycle,
    wait_for_wake,
    wake_all,
)
from proxy.routing.errors import Refusal, problem
from proxy.routing.target import CACHED_BYTES

HEAD_LIMIT = 64 * 1024  # bytes of one request's head, give or take one read
# So many may be asked before the answer to the first is whole; behind them nothing is read, not
# even that the agent is gone.
_PIPELINED = 8

_FRAMING = frozenset({CONTENT_LENGTH, TRANSFER_ENCODING})
_ROLLOUTS = b"/r/"
_GONE: Message = {"type": "http.disconnect"}
_DROPPED: deque[tuple[bytes, bytes]] = deque(maxlen=0)  # trailers (RFC 9110 §6.5.1)


class HttpProtocol(asyncio.Protocol):
    """An agent's connection, as uvicorn's server makes them.

    Each request's ``scope["state"]["transport"]`` is its connection: a drill takes it, to
    reset it. An agent's call does not pass what tells the control plane its own address
    behind a proxy (``x-forwarded-*``), since a relay goes by the raw path.

    The parser ends where another protocol would begin, before the body. Java's client offers
    HTTP/2 with every first request (RFC 7540 §3.2), which is then a plain one (RFC 9110 §7.8): its
    body must neither be lost nor be read as a request of its own.
    """

    __slots__ = (
        "_app", "_calls", "_config", "_head_bytes", "_headers", "_held", "_idle_since", "_parser",
        "_reading", "_relaying", "_scope", "_server", "_state", "_timer", "_upgrades", "_url",
        "_writing", "loop", "tasks", "transport", "write_paused",
    )  # fmt: skip

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        app: Any = config.loaded_app
        self._config, self._server, self._state = config, server_state, app_state
        self.tasks: set[asyncio.Task[Any]] = server_state.tasks
        self._app: Application = app
        behind: Any = app.app if isinstance(app, ProxyHeadersMiddleware) else app
        self._relaying: Application = behind
        self.loop = _loop or asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        # Requests that follow one which asked to close do not harm its answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._url = b""
        self._headers: Pairs | deque[tuple[bytes, bytes]] = _DROPPED
        self._head_bytes: int | None = None  # of a head that has no end yet
        self._upgrades = False
        self._calls: list[RequestCycle] = []  # the first is under way, the others wait for it
        self._reading: RequestCycle | None = None  # whose request's body comes
        self._held = False  # the agent is not read from
        self.write_paused = False
        self._writing: list[asyncio.Future[None]] = []  # who waits for room
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self.transport = line = cast(asyncio.Transport, transport)
        self._server.connections.add(self)  # type: ignore[arg-type]  # its own kinds only
        self._state = {**self._state, "transport": line}
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": self._config.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": _place(line.get_extra_info("sockname")),
            "client": _place(line.get_extra_info("peername")),
            "scheme": "http" if line.get_extra_info("sslcontext") is None else "https",
            "root_path": self._config.root_path,
            "state": self._state,
            "method": "", "path": "", "raw_path": b"", "query_string": b"", "headers": (),
        }  # fmt: skip

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head is held until its end, so that it must have one."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            text = b"Invalid HTTP request received."
            kind = (b"content-type", b"text/plain; charset=utf-8")
            self._refuse(400, [kind, (CONTENT_LENGTH, b"%d" % len(text))], text)
        except httptools.HttpParserUpgrade as upgrade:
            if self._wants_socket():
                self._become_socket()
            else:
                self._read_on(data[upgrade.args[0] :])
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                said = f"a request's head has at most {HEAD_LIMIT} bytes"
                refusal = Refusal(431, "head_too_large", said)
                self._refuse(refusal.status, *problem(refusal))

    def eof_received(self) -> None:
        """Take the agent's leaving; its connection closes on our return."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        self._server.connections.discard(self)
        self._leave()
        self.resume_writing()
        self._let_go()

    def shutdown(self) -> None:
        """End the connection, after the answers that are asked for already."""
        if self._calls:
            self._calls[-1].keep_alive = False
        else:
            self.transport.close()

    # the parser's

    def on_message_begin(self) -> None:
        """The parser's: a request begins."""
        self._url = b""
        self._headers = []
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """The parser's: a part of the target is here."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's: a header, or after the body a trailer."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The parser's: a request's head is here."""
        self._head_bytes = None
        parser, headers = self._parser, self._headers
        self._upgrades = parser.should_upgrade()
        if not self._upgrades:
            self._headers = _DROPPED
        elif self._wants_socket():
            return
        version = parser.get_http_version()
        parts = split_target if len(self._url) < CACHED_BYTES else split_target.__wrapped__
        path, raw_path, query = parts(self._url)
        scope = self._scope.copy()
        scope["method"] = method = parser.get_method().decode("ascii")
        scope["path"] = path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"] = headers
        if version != "1.1":
            scope["http_version"] = version
        app = self._relaying
        if not raw_path.startswith(_ROLLOUTS):
            app, scope["state"] = self._app, self._state.copy()
        call = scope["answering"] = RequestCycle(self, app, scope)
        call.bodiless = method == "HEAD"
        call.keep_alive = version != "1.0" and parser.should_keep_alive()
        call.expects = dict(headers).get(b"expect", b"").lower() == b"100-continue"
        self._reading = call
        self._calls.append(call)
        if len(self._calls) == 1:
            self.loop.create_task(call.run())
        elif len(self._calls) > _PIPELINED:
            self.hold()

    def on_body(self, body: bytes) -> None:
        """The parser's: a part of a request's body is here."""
        call = cast(RequestCycle, self._reading)
        if not call.complete and call.on_body_part(body) > HIGH_WATER_LIMIT:
            self.hold()

    def on_message_complete(self) -> None:
        """The parser's: a request's end is here, unless its body is still to be read."""
        if not self._upgrades:
            call = cast(RequestCycle, self._reading)
            call.more_body = False
            call.tell()

    # what the connection takes

    def hold(self) -> None:
        """Read nothing more for now."""
        if not self._held:
            self._held = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._held:
            self._held = False
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The transport's: its buffer is full."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """The transport's: there is room again."""
        self.write_paused = False
        wake_all(self._writing)

    async def drain(self) -> None:
        """Wait until there is room, or nobody who would read."""
        await wait_for_wake(self._writing, self.loop)

    # one call after the other

    def answered(self) -> None:
        """The call under way is: begin the next one, or rest."""
        del self._calls[0]
        if self.transport.is_closing():
            return
        self.go_on()
        if self._calls:
            self.loop.create_task(self._calls[0].run())
            return
        self._idle_since = self.loop.time()
        if self._timer is None:
            self._rest()

    def _rest(self) -> None:
        """Close the connection once it has been at rest for long; until then look again."""
        self._timer = None
        if self._calls or self._head_bytes is not None:
            return
        due = self._idle_since + self._config.timeout_keep_alive
        if self.loop.time() < due:
            self._timer = self.loop.call_at(due, self._rest)
        else:
            self.transport.close()

    def _leave(self) -> None:
        """Tell every call at once that its agent is gone."""
        for call in self._calls:
            call.leave()

    def _let_go(self) -> None:
        """Of what knows us, or would wake us."""
        self._parser = self._reading = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, headers: Pairs, body: bytes) -> None:
        """Answer what is no request, but not in the middle of another answer."""
        answering = any(call.begun for call in self._calls)
        self._leave()
        self._head_bytes = None
        if not answering:
            lines = [*map(b": ".join, headers), b"connection: close", b"", body]
            self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines))
        self.transport.close()

    # other protocols

    def _wants_socket(self) -> bool:
        named = dict(self._headers)
        tokens = [token.strip().lower() for token in named.get(CONNECTION, b"").split(b",")]
        wanted = named[b"upgrade"].lower() if b"upgrade" in tokens and b"upgrade" in named else b""
        return wanted == b"websocket" and self._config.ws_protocol_class is not None

    def _become_socket(self) -> None:
        self._server.connections.discard(self)
        first = b"%b %b HTTP/1.1" % (self._parser.get_method(), self._url)
        lines = [first, *map(b": ".join, self._headers), b"", b""]
        serve = cast(Callable[..., Any], self._config.ws_protocol_class)
        end = serve(config=self._config, server_state=self._server, app_state=self._state)
        self._let_go()
        end.connection_made(self.transport)
        end.data_received(b"\r\n".join(lines))
        self.transport.set_protocol(end)

    def _read_on(self, data: bytes) -> None:
        framing = [b": ".join(pair) for pair in self._headers if pair[0] in _FRAMING]
        self._upgrades = False
        self._parser = httptools.HttpRequestParser(_SkipFirstHead(self))
        self.data_received(b"\r\n".join((b"POST / HTTP/1.1", *framing, b"", b"")) + data)


class _SkipFirstHead:
    """Hands on what a parser finds, but for the first head, which was handed on before."""

    def __init__(self, protocol: HttpProtocol) -> None:
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


def _place(address: Any) -> tuple[str, int] | None:
    """Host and port of a socket's address; an IPv6 one has more."""
    return address[:2] if isinstance(address, tuple) else None


@lru_cache(maxsize=1024)
def split_target(url: bytes) -> tuple[str, bytes, bytes]:
    """Path, decoded and raw, and query of a request's target."""
    parts: Any = httptools.parse_url(url)  # its types know no URL without a query
    path = parts.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, parts.path, parts.query or b""
