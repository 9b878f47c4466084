"""A relay on a real socket without a store: what it hands to the recorder is kept in a list."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from classifier.records import Exchange
from proxy.feature import only_module
from proxy.inbound.asgi import Receive, Scope, Send
from proxy.inbound.connections import ConnectionLimits
from proxy.inbound.http import AgentCalls, HttpProtocol
from proxy.outbound.transport import Http1Transport
from proxy.relay.context import CallLimits, RefusedRequests, RelayContext
from proxy.relay.relay import Relay
from proxy.routing.keys import Keyring, OperatorKeys
from proxy.routing.target import Addresses
from proxy.routing.upstreams import allow_list

KEYRING = Keyring(b"k" * 32)
SOCKETS = only_module("sockets")  # who takes agents' WebSockets, if a feature does


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The classes that serve HTTP and WebSockets, as uvicorn's Config takes them."""

    http: Any
    ws: Any = None  # the service's own


OURS = Protocol(http=HttpProtocol)
HTTPTOOLS = Protocol(http="httptools", ws="websockets-sansio")
H11 = Protocol(http="h11", ws="websockets-sansio")

PROTOCOL = OURS  # what a relay is served by, unless it is given another


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Who serves connections in TLS with a certificate for 127.0.0.1, and who trusts it."""

    http: Any
    trust: ssl.SSLContext


@dataclass
class Book:
    """A recorder in memory; with ``hold`` set, nothing becomes durable until it is cleared."""

    opens: list[Exchange] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def begin_durably(
        self, exchange_id: str, snapshot: Callable[[], Exchange]
    ) -> asyncio.Future[None]:
        self.opens.append(snapshot())
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def flush_starts(self) -> None:
        pass  # what is opened is durable at once

    def record_durably(self, exchange: Exchange) -> asyncio.Future[None]:
        with self.changed:
            self.exchanges.append(exchange)
            self.changed.notify_all()
        return asyncio.ensure_future(self._durable())

    def begin(
        self, exchange_id: str, snapshot: Callable[[], Exchange], then: Callable[[], None]
    ) -> None:
        self.begin_durably(exchange_id, snapshot).add_done_callback(lambda _: then())

    def record(self, exchange: Exchange, then: Callable[[], None]) -> None:
        self.record_durably(exchange).add_done_callback(lambda _: then())

    async def _durable(self) -> None:
        while self.hold.is_set():
            await asyncio.sleep(0.005)

    def wait_for(self, count: int = 1, timeout_s: float = 300) -> list[Exchange]:
        with self.changed:
            came = self.changed.wait_for(lambda: len(self.exchanges) >= count, timeout_s)
        assert came, f"{len(self.exchanges)} exchanges were recorded, not {count}"
        return self.exchanges

    @property
    def only(self) -> Exchange:
        (exchange,) = self.wait_for(1)
        return exchange


@dataclass
class Relaying:
    """A running relay: its address and what it recorded."""

    url: str
    port: int
    book: Book
    trust: ssl.SSLContext | None = None  # where it speaks TLS
    app: _Until | None = None

    def end_rollout(self, rollout_id: str = "r1") -> None:
        """End a rollout's calls at once, as its outcome does."""
        assert self.app is not None
        live = self.app.context.live
        asyncio.run_coroutine_threadsafe(live.close(rollout_id, 0.0), self.app.loop).result(60)

    def stop_calls(self) -> None:
        """Cancel what is under way, as a server does whose grace is over."""
        assert self.app is not None
        tasks, done = self.app.tasks, threading.Event()

        def cancel() -> None:
            for each in tuple(tasks):
                each.cancel(msg="the grace is over")
            done.set()

        self.app.loop.call_soon_threadsafe(cancel)
        assert done.wait(60)

    def connect(self, timeout_s: float = 300) -> socket.socket:
        """Open a connection as an agent does."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout_s)
        if self.trust is None:
            return connection
        return self.trust.wrap_socket(
            connection, server_hostname="127.0.0.1", suppress_ragged_eofs=False
        )

    def base(self, rollout: str = "r1", upstream: str = "openai") -> str:
        return f"{self.url}/r/{rollout}/{upstream}"

    def until_silent(self, path: str, body: object) -> bytes:
        """Ask for a stream; what comes of it until nothing has for a second after its first event.

        The agent leaves then.

        Raises:
            AssertionError: it ended.
        """
        asked = httpx.Request("POST", self.base() + path, json=body)
        length = len(asked.content)
        head = f"POST {asked.url.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        got = b""
        with self.connect() as agent, contextlib.suppress(TimeoutError):
            agent.sendall(head.encode() + asked.content)
            while chunk := agent.recv(65_536):
                got += chunk
                if b"data: " in got:
                    agent.settimeout(1)
            raise AssertionError(got)
        return got

    def raw(self, request: bytes, *, timeout_s: float = 300) -> bytes:
        """Send bytes as they are, read until the relay closes the connection."""
        with self.connect(timeout_s) as connection:
            connection.sendall(request)
            got = b""
            while chunk := connection.recv(65536):
                got += chunk
        return got


@contextmanager
def relaying(
    provider: str,
    *,
    transport: Http1Transport | None = None,
    protocol: Protocol | None = None,
    tls: Tls | None = None,
    **rules: Any,
) -> Iterator[Relaying]:
    """Run a relay whose upstreams are one provider, on ``PROTOCOL`` unless another is given.

    ``upstreams``: changes to single ones. Usage is asked for only where they say so.
    """
    book = Book()
    context = make_context(provider, book, transport=transport, **rules)
    protocol = protocol or PROTOCOL
    app = _Until(context)
    if tls is None:
        with running(app, context.limits.body_bytes, protocol=protocol) as port:
            yield Relaying(f"http://127.0.0.1:{port}", port, book, app=app)
        return
    with running(app, context.limits.body_bytes, protocol=Protocol(http=tls.http)) as port:
        yield Relaying(f"https://127.0.0.1:{port}", port, book, tls.trust)


def make_context(
    provider: str, book: Book, *, transport: Http1Transport | None = None, **rules: Any
) -> RelayContext:
    """What a relay is given; see `relaying`."""
    own = {"url": provider, "include_usage": False}
    changes = dict.fromkeys(("openai", "anthropic", "gemini", "bedrock", "vertex"), own)
    changes |= {name: {**own, **change} for name, change in rules.pop("upstreams", {}).items()}
    ids = itertools.count(1)
    keys = OperatorKeys(
        static=rules.pop("real_keys", {}),
        signed=frozenset(rules.get("signers", ())),
        replace=rules.pop("replace_keys", False),
        any_path=rules.pop("any_path", False),
        guards_keyless=rules.pop("guards_keyless", False),
    )
    upstreams, refused = allow_list(changes), rules.pop("refused", RefusedRequests())
    nameless = refused.unattributed
    addresses = Addresses(
        upstreams,
        KEYRING,
        operator_keys=keys,
        proof_required=rules.pop("proof_required", False),
        unattributed=None if nameless is None else nameless.admit,
    )
    return RelayContext(
        upstreams=upstreams,
        addresses=addresses,
        refused=refused,
        transport=transport or Http1Transport(),
        recorder=book,
        salt=b"salt",
        new_id=lambda: f"x{next(ids)}",
        wall=time.time,
        clock=time.monotonic,
        limits=rules.pop("limits", CallLimits()),
        operator_keys=keys,
        **rules,
    )


class _Until:
    """Both relays of a context, and its transport's end when the server stops."""

    connection_limits = ConnectionLimits()

    def __init__(self, context: RelayContext) -> None:
        self.context = context
        self._sockets = None if SOCKETS is None else SOCKETS.relay(context)
        self._relay = Relay(context)
        self.tasks: set[Any] = set()  # the server's
        self.connections: set[Any] = set()

    def agent_calls(self, _scope: Scope) -> AgentCalls:
        return self._relay.agent_calls()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self._sockets is not None:
            await self._sockets(scope, receive, send)
            return
        if scope["type"] == "http":  # no agent's call: the control plane's, which knows none here
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        self.loop = asyncio.get_running_loop()
        for done in ("startup", "shutdown"):
            await receive()
            if done == "shutdown":
                await self.context.transport.aclose()
            await send({"type": f"lifespan.{done}.complete"})


async def lifespan(receive: Receive, send: Send) -> None:
    """Start and stop, as an application does that has nothing to prepare."""
    for done in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{done}.complete"})


class _Server(uvicorn.Server):
    """A server that ends at once: uvicorn's looks only every 0.1 s whether it should."""

    async def main_loop(self) -> None:
        ticks = itertools.count()
        while not await self.on_tick(next(ticks)):
            await asyncio.sleep(0.005)


@contextmanager
def running(app: Any, body_bytes: int = 1 << 20, *, protocol: Protocol = OURS) -> Iterator[int]:
    """An ASGI application on a loopback port, in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    sockets = {"ws": "none"} if SOCKETS is None else SOCKETS.server_options(body_bytes)
    config = uvicorn.Config(
        app, http=protocol.http, lifespan="on", access_log=False, server_header=False,
        date_header=False, log_config=None, loop="uvloop",
        **(sockets | ({} if protocol.ws is None else {"ws": protocol.ws})),
    )  # fmt: skip
    server = _Server(config)
    if isinstance(app, _Until):
        app.tasks = server.server_state.tasks
        app.connections = server.server_state.connections
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
