"""A call by hand: its agent's and its provider's transport, and its recorder, are lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from classifier.records import Exchange
from proxy.inbound.http import RequestCycle
from proxy.inbound.parser import RequestHead
from proxy.inbound.response import FlowControl
from proxy.outbound import errors
from proxy.outbound.connection import Connection
from proxy.outbound.transport import Http1Transport
from proxy.relay.context import CallLimits, RelayContext
from proxy.relay.relay import Relay
from tests.fakes.relaying import Book, make_context

PATH = b"/r/r1/openai/v1/chat/completions"
ASKED = b'{"model":"gpt-5","messages":[]}'
STREAMED = b'{"model":"gpt-5","stream":true,"messages":[]}'


class Line(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.aborted = self.closed = self.reading_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent += b"".join(list_of_data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def said(self) -> bytes:
        """What was written since this was called last."""
        sent, self.sent = self.sent, b""
        return sent


@dataclass
class HeldBook(Book):
    """A recorder in memory that says that a write is durable when it is told to."""

    opening: list[Callable[[], None]] = field(default_factory=list)
    commits: list[Callable[[], None]] = field(default_factory=list)
    starts_flushed: bool = False

    def begin(
        self, exchange_id: str, snapshot: Callable[[], Exchange], then: Callable[[], None]
    ) -> None:
        self.opens.append(snapshot())
        self.opening.append(then)

    def record(self, exchange: Exchange, then: Callable[[], None]) -> None:
        self.exchanges.append(exchange)
        self.commits.append(then)

    def flush_starts(self) -> None:
        self.starts_flushed = True

    def commit(self) -> None:
        """Let all that was recorded be durable, one after the other."""
        while self.commits:
            self.commits.pop(0)()

    def opened_now(self) -> None:
        while self.opening:
            self.opening.pop(0)()


class Lines:
    """A transport whose connections are given: idle ones, and what connecting yields.

    ``opens``: the connection that is waited for. ``origin``: what has the connections.
    """

    def __init__(self, *idle: Connection) -> None:
        self.opens: asyncio.Future[Connection] | None = None
        self.transport = Http1Transport()
        self.transport._connector = self  # type: ignore[assignment]  # noqa: SLF001  the transport connects by hand
        self.origin: Any = self.transport.origin("http://provider")
        for each in idle:
            self.add(each)

    def add(self, connection: Connection) -> None:
        """Make a connection idle."""
        self.origin.pool.keep(connection)

    async def open(self, *_: Any) -> Connection:
        """Connect, as a `Connector` does."""
        self.opens = asyncio.get_running_loop().create_future()
        return await self.opens


@dataclass
class CallByHand:
    """One call: what both sides were sent, what is on record, and how each goes on."""

    agent: RequestCycle
    flow: FlowControl
    to_agent: Line
    to_provider: Line
    provider: Connection
    lines: Lines
    book: HeldBook
    context: RelayContext
    tasks: set[Any]
    answered: list[bool]

    def says(self, *parts: bytes) -> None:
        """The provider sends bytes."""
        for part in parts:
            self.provider.data_received(part)

    @property
    def only(self) -> Exchange:
        (exchange,) = self.book.exchanges
        return exchange

    @property
    def over(self) -> bool:
        """Whether nothing of the call is left."""
        return not self.tasks and not self.context.live.any_of("r1")


def connection(*, reused: bool = True) -> tuple[Connection, Line, list[Connection]]:
    """An open connection to a provider, its transport, and where it is pooled."""
    kept: list[Connection] = []
    made, line = Connection(kept.append, lambda _: None), Line()
    made.connection_made(line)
    made.reused = reused
    return made, line, kept


def request_of(
    flow: FlowControl,
    answered: list[bool],
    body: bytes = ASKED,
    *,
    method: str = "POST",
    path: bytes = PATH,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    length: bytes | None = None,
    more: bool = False,
) -> RequestCycle:
    """A request that is all there, or has ``more``; ``length`` states its body's as it is not."""
    raw_path, _, query = path.partition(b"?")
    stated = b"%d" % len(body) if length is None else length
    named = [(b"host", b"x"), *[(b"content-length", stated)] * bool(stated), *headers]
    request = RequestCycle(
        flow,
        RequestHead(method, raw_path.decode(), raw_path, query, "1.1", named),
        ("127.0.0.1", 1),
        lambda: answered.append(True),
        keep_alive=True,
        expects=False,
    )
    if body:
        request.on_body_part(body)
    if not more:
        request.on_body_end()
    return request


def call_by_hand(
    body: bytes = ASKED,
    *,
    method: str = "POST",
    path: bytes = PATH,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    idle: bool = True,
    limits: CallLimits | None = None,
    paused: bool = False,
    length: bytes | None = None,
    more: bool = False,
    **rules: Any,
) -> CallByHand:
    """Begin a call."""
    provider, to_provider, _ = connection()
    lines = Lines(*[provider] * idle)
    book = HeldBook()
    context = make_context(
        "http://provider", book, transport=rules.pop("transport", lines.transport),
        limits=limits or CallLimits(), **rules,
    )  # fmt: skip
    to_agent, answered = Line(), list[bool]()
    flow = FlowControl(to_agent, asyncio.get_running_loop())
    flow.write_paused = paused
    agent = request_of(
        flow, answered, body, method=method, path=path, headers=headers, length=length, more=more
    )
    tasks = set[Any]()
    Relay(context).agent_calls().take(agent, tasks)
    return CallByHand(
        agent, flow, to_agent, to_provider, provider, lines, book, context, tasks, answered
    )


async def ended(call: CallByHand) -> bytes:
    """What the agent of a call was sent, once it is recorded."""
    async with asyncio.timeout(60):
        while not call.book.exchanges:
            await asyncio.sleep(0)
            call.book.opened_now()
    call.book.commit()
    return call.to_agent.said()


GONE = errors.ReadError("ConnectionResetError")
