"""Agents' connections: how long one may be silent, how many there may be, and who makes room."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from proxy.inbound.connections import (
    ConnectionLimits,
    ConnectionTable,
    Waiting,
    table_of,
)
from proxy.routing.errors import Refusal
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.relaying import lifespan, running
from tests.journeys.service import Service

PATIENCE_S = 300
CHAT = "/v1/chat/completions"


class Connection:
    """A connection that waits for what a test says."""

    def __init__(self, waits: Waiting | None = Waiting.HEAD) -> None:
        self.waits = waits
        self.quiet = 0
        self.waiting: Waiting | None = None
        self.ended: list[str | None] = []

    def waits_for(self) -> Waiting | None:
        return None if self.ended else self.waits

    def end(self, refusal: Refusal | None) -> None:
        self.ended.append(None if refusal is None else refusal.code)


class Loop:
    """A loop whose timers a test turns by hand."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_later(self, _: float, callback: Any, *given: Any) -> object:
        self.due.append((callback, given))
        return object()

    def call_soon(self, callback: Any, *given: Any) -> None:
        self.due.append((callback, given))

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback, given in due:
            callback(*given)


def entered(
    table: ConnectionTable, connection: Connection, *, among: int = 1, descriptor: int = 10,
    address: str = "a", loop: Any = None,
) -> str | None:  # fmt: skip
    timers: Any = loop or Loop()
    refusal = table.enter(
        connection, address=address, descriptor=descriptor, among=among, loop=timers
    )
    return None if refusal is None else refusal.code


def table(*, descriptors: int = 1000, **limits: Any) -> ConnectionTable:
    return ConnectionTable(ConnectionLimits(**limits), descriptors=lambda: descriptors)


LIMITS = {Waiting.HEAD: (30, "head_timeout"), Waiting.BODY: (60, "body_timeout"),
          Waiting.IDLE: (75, None)}  # fmt: skip


@pytest.mark.parametrize("waits", Waiting)
def test_a_silent_connection_ends_in_its_time_and_not_before(waits: Waiting) -> None:
    seconds, code = LIMITS[waits]
    connections, connection = table(), Connection(waits)
    entered(connections, connection)
    for _ in range(seconds):  # the first tick only sees what it waits for
        connections.sweep()
    assert connection.ended == []
    connections.sweep()
    assert connection.ended == [code]


def test_a_refused_connection_is_counted_by_its_code() -> None:
    connections = table()
    refusal = Refusal(503, "too_many_connections", "full")
    headers, _ = connections.problem(refusal)
    assert (b"x-truezero-refusal", b"too_many_connections") in headers
    assert connections.refusals.counts == {"too_many_connections": 1}


def test_silence_begins_anew_with_what_is_heard_and_with_what_is_waited_for() -> None:
    connections, connection = table(), Connection(Waiting.IDLE)
    entered(connections, connection)
    for waits in (Waiting.IDLE, Waiting.HEAD, Waiting.BODY, Waiting.IDLE):
        connection.waits = waits
        for _ in range(29):
            connections.sweep()
        assert connection.ended == [], waits
    connection.waits = Waiting.BODY
    for _ in range(10):
        for _ in range(50):
            connections.sweep()
        connection.quiet = 0  # a byte came
    connection.waits = None  # the agent waits
    for _ in range(1000):
        connections.sweep()
    assert connection.ended == []


def test_it_ticks_while_there_are_connections_and_only_then() -> None:
    loop, connection = Loop(), Connection(Waiting.IDLE)
    connections = table(idle_s=2.0)
    entered(connections, connection, loop=loop)
    for _ in range(3):
        loop.turn()
    assert connection.ended == [None]
    connections.leave("a", connection)
    loop.turn()
    assert loop.due == []
    entered(connections, Connection(), loop=loop)
    assert len(loop.due) == 1


def test_of_thousands_a_turn_of_the_loop_looks_at_a_few_hundred() -> None:
    loop, connections = Loop(), table(descriptors=20_000)
    many = [Connection(Waiting.IDLE) for _ in range(1500)]
    for each in many:
        entered(connections, each, loop=loop)
    looked_at = []
    for turn in range(4):
        loop.turn()
        looked_at.append(sum(each.waiting is Waiting.IDLE for each in many))
        connections.leave("a", many[-1 - turn])
    assert looked_at == [500, 1000, 1498, 1498]
    for _ in range(3):  # the next second
        loop.turn()
    assert {each.quiet for each in many[:-4]} == {1}
    assert len(loop.due) == 1


def test_the_oldest_without_a_head_makes_room_then_the_oldest_idle_one() -> None:
    connections = table(total=4)
    waits = (None, Waiting.IDLE, Waiting.HEAD, Waiting.BODY)
    first = [Connection(each) for each in waits]
    for count, each in enumerate(first, 1):
        assert entered(connections, each, among=count) is None
    ended = []
    for _ in range(3):
        newest = Connection(None)
        refused = entered(connections, newest, among=5)
        ended.append((refused, [list(each.ended) for each in first]))
        connections.leave("a", newest)
    full = ["too_many_connections"]
    assert ended == [
        (None, [[], [], full, []]),
        (None, [[], full, full, []]),
        ("too_many_connections", [[], full, full, []]),
    ]


@pytest.mark.parametrize(
    ("descriptor", "idle", "refused"),
    [(949, True, None), (950, True, None), (949, False, None),
     (950, False, "too_many_connections")],
)  # fmt: skip
def test_descriptors_stay_for_providers_and_the_database(
    descriptor: int, idle: bool, refused: str | None
) -> None:
    connections, first = table(), Connection(Waiting.IDLE if idle else None)
    entered(connections, first)
    assert entered(connections, Connection(), descriptor=descriptor) == refused
    assert bool(first.ended) == (idle and descriptor >= 950)


def test_each_connection_leaves_a_descriptor_for_its_provider() -> None:
    connections = table(descriptors=256)  # 243 below 95 %, of which 32 are its own
    assert [entered(connections, Connection(None), among=n) for n in (105, 106)] == [
        None, "too_many_connections",
    ]  # fmt: skip


@pytest.mark.parametrize(("descriptor", "waits_s"), [(799, 30), (800, 5)])
def test_heads_are_waited_for_less_long_while_descriptors_are_scarce(
    descriptor: int, waits_s: int
) -> None:
    connections, silent, idle = table(), Connection(), Connection(Waiting.IDLE)
    entered(connections, idle)
    entered(connections, silent, descriptor=descriptor)
    for _ in range(waits_s):
        connections.sweep()
    assert silent.ended == []
    connections.sweep()
    assert (silent.ended, idle.ended) == (["head_timeout"], [])


def test_who_is_refused_for_want_of_room_has_rollouts_share_it() -> None:
    shared: list[int] = []
    limits = ConnectionLimits(total=2)
    connections = ConnectionTable(limits, descriptors=lambda: 1000, on_full=shared.append)
    for among in (1, 2):
        assert entered(connections, Connection(None), among=among) is None
    assert shared == []
    assert entered(connections, Connection(None), among=3) == "too_many_connections"
    assert shared == [2]


def test_an_address_has_no_more_than_its_share_where_there_is_one() -> None:
    connections = table(per_address=2)
    many = [Connection(None) for _ in range(3)]
    assert [entered(connections, each) for each in many] == [None, None, "too_many_connections"]
    assert entered(connections, Connection(None), address="b") is None
    for each in many:
        connections.leave("a", each)
    assert entered(connections, Connection(None)) is None
    connections.leave("never seen")
    unlimited = table()
    assert {entered(unlimited, Connection(None)) for _ in range(200)} == {None}


def test_one_table_is_kept_for_each_server() -> None:
    server, app = SimpleNamespace(), SimpleNamespace(connection_limits=ConnectionLimits(total=1))
    assert table_of(server, app) is table_of(server, None)
    assert table_of(SimpleNamespace(), None) is not table_of(server, None)


@contextlib.contextmanager
def said(port: int, text: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as agent:
        agent.sendall(text)
        yield agent


def heard(agent: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := agent.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.slow
def test_connections_are_ended_by_what_they_wait_for_and_never_while_the_agent_waits() -> None:
    let_go = threading.Event()

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        if scope["path"] == "/slow":
            while not let_go.is_set():
                await asyncio.sleep(0.01)
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    app.connection_limits = ConnectionLimits(head_s=2, body_s=2, idle_s=2)  # type: ignore[attr-defined]
    whole = b"GET /%b HTTP/1.1\r\nhost: a\r\n\r\n"
    with running(app) as port, contextlib.ExitStack() as agents:
        slow, silent, half, withheld, idle = (
            agents.enter_context(said(port, text))
            for text in (
                whole % b"slow",
                b"",
                b"GET / HTTP/1.1\r\nhost:",
                b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{",
                whole % b"",
            )
        )
        assert heard(silent) == b""
        assert heard(half).startswith(b"HTTP/1.1 408 ")
        told = heard(withheld)
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"x-truezero-refusal: body_timeout" in told
        assert heard(idle).count(b"HTTP/1.1 200 ") == 1
        let_go.set()
        assert heard(slow).count(b"HTTP/1.1 200 ") == 1


@pytest.mark.slow
def test_silent_connections_take_nobody_elses_calls_away(tmp_path: Path) -> None:
    """One agent holds as many connections as the service may have files open."""
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, HEAD_TIMEOUT_S="3600") as service,
        contextlib.ExitStack() as silent,
    ):
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (256, 256))
        port = int(service.url.rpartition(":")[2])
        for _ in range(256):
            silent.enter_context(said(port, b""))
        for _ in range(10):
            with httpx.Client(timeout=PATIENCE_S) as agent:  # a connection of its own
                url = service.base("honest", "openai") + CHAT
                ask = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
                assert agent.post(url, json=ask).status_code == 200
        verdict = service.verdict("honest")
        assert (verdict["health"], verdict["failed_requests"]) == ("healthy", 0)
        assert verdict["total_requests"] == 10
