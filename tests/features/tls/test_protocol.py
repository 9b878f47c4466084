"""Agents that speak TLS: calls, how either side ends them, and handshakes that lead nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from classifier.records import Ending
from proxy.features.tls.certificate import Certificate
from proxy.features.tls.protocol import TlsProtocol, TlsTransport
from proxy.inbound.connections import ConnectionLimits, Waiting, table_of
from tests.fakes import answers
from tests.fakes.certificates import Authority
from tests.fakes.provider import Answer, Pause, Provider, Request
from tests.fakes.relaying import Relaying, Tls, relaying

CHAT = "/v1/chat/completions"
HEAD = b"POST /r/%b/openai/v1/chat/completions HTTP/1.1\r\nhost: a\r\n%b\r\n"
LARGE = b"x" * (24 << 20)  # more than the sockets' buffers hold


def play(request: Request) -> Answer:
    """Answer by the path's rollout."""
    if b'"stream"' in request.body:
        return answers.chat_stream().stopping_after(2, Pause(3600))
    if b'"large"' in request.body:
        return Answer(body=(LARGE,), length=len(LARGE))
    return answers.chat()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    file = str(authority.issue("127.0.0.1"))
    trust = ssl.create_default_context(cafile=str(authority.file))
    return Tls(http=partial(TlsProtocol, certificate=Certificate(file, file)), trust=trust)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(play) as provider:
        yield provider


@pytest.fixture
def relay(provider: Provider, tls: Tls) -> Iterator[Relaying]:
    with relaying(provider.url, tls=tls) as relay:
        yield relay


def test_a_call_is_answered_and_recorded_as_without_tls(
    relay: Relaying, provider: Provider, tls: Tls
) -> None:
    ask = {"model": "gpt-5", "messages": [{"role": "user", "content": "x" * 100_000}]}
    with httpx.Client(verify=tls.trust) as agent:
        answers = [agent.post(relay.base() + CHAT, json=ask) for _ in range(3)]
        assert [each.status_code for each in answers] == [200] * 3
    assert [each.body for each in provider.requests[-3:]] == [answers[0].request.content] * 3
    for exchange in relay.book.wait_for(3):
        assert (exchange.ending, exchange.request_bytes) == (
            Ending.COMPLETE, len(answers[0].request.content),
        )  # fmt: skip
        assert exchange.usage is not None


def test_requests_in_one_record_or_in_many_are_answered_in_order(relay: Relaying) -> None:
    request = HEAD % (b"r1", b"content-length: 2\r\n") + b"{}"
    last = HEAD % (b"r1", b"content-length: 2\r\nconnection: close\r\n") + b"{}"
    with relay.connect() as agent:
        agent.sendall(request + request)
        for byte in request:
            agent.send(bytes([byte]))
        agent.sendall(last)
        assert until_closed(agent).count(b"HTTP/1.1 200 ") == 4  # and not cut: see `connect`


def test_an_answer_longer_than_every_buffer_waits_for_its_reader(relay: Relaying) -> None:
    body = b'{"large": 1}'
    with relay.connect() as agent:
        agent.sendall(HEAD % (b"r1", b"connection: close\r\ncontent-length: %d\r\n" % len(body)))
        agent.sendall(body)
        answer = agent.recv(1)
        assert relay.book.exchanges == [], "it is not complete before it is read"
        answer += until_closed(agent)
    assert answer.partition(b"\r\n\r\n")[2] == LARGE
    assert relay.book.only.ending is Ending.COMPLETE


@pytest.mark.parametrize("how", ["close_notify", "FIN", "RST"])
@pytest.mark.parametrize("body", [b'{"stream": true}', b'{"large": 1}'])
def test_an_agent_that_leaves_is_missed_at_once(relay: Relaying, how: str, body: bytes) -> None:
    with relay.connect() as agent:
        agent.sendall(HEAD % (b"r1", b"content-length: %d\r\n" % len(body)) + body)
        assert agent.recv(100).startswith(b"HTTP/1.1 200 ")
        leave(cast(ssl.SSLSocket, agent), how)
        assert relay.book.only.ending is Ending.LEFT_BY_AGENT


def leave(agent: ssl.SSLSocket, how: str) -> None:
    if how == "close_notify":
        agent.settimeout(0)
        with pytest.raises((ssl.SSLWantReadError, ssl.SSLError)):  # it does not wait for ours
            agent.unwrap()
    elif how == "FIN":
        socket.socket.shutdown(agent, socket.SHUT_WR)
    else:
        agent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        agent.close()


def test_whoever_speaks_no_tls_is_told_so_and_logged_in_one_line(
    relay: Relaying, caplog: pytest.LogCaptureFixture
) -> None:
    plain = Relaying("", relay.port, relay.book)
    caplog.set_level(logging.WARNING)
    answer = plain.raw(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "tls_required"
    for words in (b"\0\1\2", b"\x16\3\1\0\5hello", b"\x16\3\1\xff\xff" + b"\1" * 70_000):
        assert b"HTTP" not in answered(plain, words)
    assert {record.getMessage().partition(" (")[0] for record in caplog.records} == {
        "refused an agent's request: tls_required", "refused an agent's request: tls_handshake",
    }  # fmt: skip
    assert not any(record.exc_info for record in caplog.records)
    assert relay.book.exchanges == []


def answered(plain: Relaying, words: bytes) -> bytes:
    try:
        return plain.raw(words)
    except ConnectionError:  # it closes with bytes unread
        return b""


# handshakes, by hand


class Line(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.aborted = False
        self.unsent = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    close = abort

    def is_closing(self) -> bool:
        return self.aborted

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.9", 1) if name == "peername" else default


class Loop:
    def call_later(self, *_: Any) -> Any:
        return None


def held(tls: Tls, **limits: Any) -> tuple[SimpleNamespace, Any]:
    """A server's state and its Config, as uvicorn hands them to each connection."""
    app = SimpleNamespace(connection_limits=ConnectionLimits(**limits))
    state = SimpleNamespace(connections=set(), tasks=set())
    return state, SimpleNamespace(loaded_app=app, http_protocol_class=tls.http)


def arriving(state: SimpleNamespace, config: Any) -> tuple[TlsProtocol, Line]:
    line = Line()
    connection: TlsProtocol = config.http_protocol_class(config, state, {}, Loop())
    connection.connection_made(line)
    return connection, line


async def test_a_handshake_ends_as_a_head_does(tls: Tls) -> None:
    state, config = held(tls, head_s=3)
    silent, begun = arriving(state, config), arriving(state, config)
    begun[0].data_received(b"\x16\3\1")
    table = table_of(state, None)
    for _ in range(3):
        assert [each.waits_for() for each, _ in (silent, begun)] == [Waiting.HEAD] * 2
        table.sweep()
    assert not (silent[1].aborted or begun[1].aborted)
    table.sweep()
    assert silent[1].aborted
    assert begun[1].aborted
    assert table.refusals.counts == {"head_timeout": 1}  # who asked nothing was refused nothing
    for connection, _ in (silent, begun):
        connection.connection_lost(None)
    assert state.connections == set()


async def test_unfinished_handshakes_make_room_and_are_limited(tls: Tls) -> None:
    state, config = held(tls, total=2)
    lines = [arriving(state, config)[1] for _ in range(3)]
    assert [line.aborted for line in lines] == [True, False, False], "the oldest makes room"
    state, config = held(tls, per_address=1)
    lines = [arriving(state, config)[1] for _ in range(2)]
    assert [line.aborted for line in lines] == [False, True]
    assert lines[1].written == b"", "no handshake is begun for it"
    assert table_of(state, None).refusals.counts == {"too_many_connections": 1}


async def test_a_server_that_stops_waits_for_no_handshake(tls: Tls) -> None:
    state, config = held(tls)
    connection, line = arriving(state, config)
    connection.shutdown()
    assert line.aborted
    connection.connection_lost(None)
    assert state.connections == set()


def test_nothing_is_written_behind_the_end(tls: Tls) -> None:
    serving = tls.http.keywords["certificate"].context()
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    line = Line()
    service = serving.wrap_bio(received, sent, server_side=True)
    agent = tls.trust.wrap_bio(sent, received, server_hostname="127.0.0.1")
    for end in (agent, service, agent, service):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    transport = TlsTransport(line, service, received, sent)
    sent.read()
    transport.write(b"y" * 100_000)
    transport.close()
    assert transport.is_closing()
    written = len(line.written)
    transport.write(b"late")
    transport.close()
    assert len(line.written) == written > 100_000
    assert line.aborted


def test_who_asks_for_new_keys_and_reads_nothing_is_left() -> None:
    """Each KeyUpdate that asks for one is answered (RFC 8446 §4.6.3), whoever reads that."""
    for unsent, left in ((0, False), (1 << 20, False), (2 << 20, True)):
        line, sent = Line(), ssl.MemoryBIO()
        line.unsent = unsent
        transport = TlsTransport(line, cast(Any, Rekeyed(sent)), ssl.MemoryBIO(), sent)
        transport.take(b"a KeyUpdate")
        assert (line.aborted, bool(line.written)) == (left, not left), unsent


class Rekeyed:
    """OpenSSL's object as it takes a KeyUpdate: Python cannot send one."""

    def __init__(self, sent: ssl.MemoryBIO) -> None:
        self._sent = sent

    def pending(self) -> int:
        return 0

    def read(self, _size: int) -> bytes:
        self._sent.write(b"another")
        raise ssl.SSLWantReadError


def until_closed(agent: socket.socket) -> bytes:
    got = []
    while part := agent.recv(65536):
        got.append(part)
    return b"".join(got)
