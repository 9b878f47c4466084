"""What holds on real sockets, whatever the other side sends: the client's side and the server's.

Each round opens its own servers on loopback, and closes them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import h11
import httpx
from hypothesis import strategies as st

from classifier.records import Ending
from proxy.capture.usage_injection import with_usage
from proxy.outbound.errors import UpstreamError
from proxy.outbound.transport import Http1Transport
from tests.fakes.relaying import Relaying, relaying
from tests.fuzz.pure import cut, places
from tests.proxy.outbound.client import fetch

PATIENCE_S: Final = 300.0

_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_ANSWERS: Final = (
    _ANSWER, b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 304 No\r\n", b"HTTP/2 200\r\n",
    b"HTTP/1.1 999999999999 X\r\n", b"HTTP/1.1 000 X\r\n", b"content-length: 5\r\n",
    b"content-length: 5, 5\r\n", b"content-length: -1\r\n",
    b"content-length: 99999999999999999999999\r\n", b"Content-Length: +2\r\n",
    b"content-length:\r\n", b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n", b"transfer-encoding: chunked, gzip\r\n",
    b"Transfer-Encoding : chunked\r\n", b"connection: close\r\n", b"connection: keep-alive\r\n",
    b" folded\r\n", b"a: b\r\n", b"a:\x00\r\n", b": nameless\r\n", b"nocolon\r\n", b"\r\n", b"\n",
    b"\r", b"2\r\nok\r\n", b"0\r\n\r\n", b"0\r\n", b"ffffffffffffffffff\r\n",
    b"2;ext=1\r\nok\r\n", b"-1\r\n", b"trailer: x\r\n", b"x: " + b"y" * 70_000,
)  # fmt: skip
_LINES: Final = (
    b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\n", b"GET /r/r2/openai/x HTTP/1.1\r\n",
    b"GET /r/r1/openai/smuggled HTTP/1.1\r\nhost: h\r\n\r\n", b"POST /r/r3/openai/y HTTP/1.0\r\n",
    b"OPTIONS * HTTP/1.1\r\n", b"CONNECT h:1 HTTP/1.1\r\n", b"GET http://evil/ HTTP/1.1\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /r/r1/openai/\xff HTTP/1.1\r\n", b"host: h\r\n",
    b"host: h\r\nhost: i\r\n", b"content-length: 2\r\n", b"content-length: 4\r\n",
    b"content-length: 2\r\ncontent-length: 4\r\n", b"content-length: 2, 2\r\n",
    b"Content-Length : 2\r\n", b"content-length: 0x2\r\n", b"content-length: +2\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: identity\r\n", b"te: trailers\r\n",
    b"Transfer-Encoding: xchunked\r\n", b"transfer-encoding: chunked, identity\r\n",
    b"transfer-encoding:\x0bchunked\r\n", b"transfer-encoding\t: chunked\r\n",
    b"expect: 100-continue\r\n", b"connection: close\r\n", b"connection: content-length\r\n",
    b"upgrade: websocket\r\nconnection: upgrade\r\n", b"x: a\rb\r\n", b"x: a\nb: c\r\n",
    b" x\r\n", b"\r\n", b"\n", b"\n\n", b"\r", b"{}", b"2\r\n{}\r\n", b"2;\n{}\r\n", b"0\r\n\r\n",
    b"0\r\nx: y\r\n\r\n", b"02\r\n{}\r\n", b"g\r\n", b"ffffffffffffffff1\r\n", b"2 \r\n{}\r\n",
)  # fmt: skip

Bytes = list[bytes]


def _mostly(pieces: Sequence[bytes]) -> st.SearchStrategy[Bytes]:
    """Pieces in any order, or a first line, headers and a body that may hold more of the same."""
    any_piece = st.sampled_from(pieces) | st.binary(max_size=12)
    first = [piece for piece in pieces if b" HTTP/1" in piece or piece.startswith(b"HTTP/1")]
    fields = [piece for piece in pieces if re.fullmatch(rb"[A-Za-z-]+\s*:[^\n]*\r\n", piece)]
    message = st.tuples(
        st.sampled_from(first),
        st.lists(st.sampled_from(fields), max_size=3).map(b"".join),
        st.just(b"\r\n"),
        st.lists(any_piece, max_size=5).map(b"".join),
    ).map(list)
    two = st.tuples(message, message).map(lambda both: [*both[0], *both[1]])
    return message | two | st.lists(any_piece, max_size=12)


answer: Final = _mostly(_ANSWERS)
request: Final = _mostly(_LINES)


# -- the client's side ----------------------------------------------------------------------


class Babbler:
    """A provider that sends what it is told, in those pieces, on its first connections."""

    def __init__(self) -> None:
        self.says: list[Bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        says = self.says.pop(0) if self.says else [_ANSWER]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in says:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()


@asynccontextmanager
async def babbling() -> AsyncIterator[Babbler]:
    babbler = Babbler()
    server = await asyncio.start_server(babbler.serve, "127.0.0.1", 0)
    async with server:
        babbler.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield babbler


async def heard(transport: Http1Transport, babbler: Babbler, method: str, says: Bytes) -> None:
    """Whatever comes, it is an answer or an UpstreamError, soon; and the next call is its own."""
    babbler.says = [says]
    with contextlib.suppress(UpstreamError):
        await asyncio.wait_for(fetch(transport, babbler.url, method), PATIENCE_S)
    babbler.says = []
    got = await asyncio.wait_for(fetch(transport, babbler.url), PATIENCE_S)
    assert (got.status, got.body) == (200, b"ok")


@contextmanager
def client() -> Iterator[Callable[..., None]]:
    """A client and its babbling provider."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def enter() -> tuple[Http1Transport, Babbler]:
            babbler = await stack.enter_async_context(babbling())
            return await stack.enter_async_context(Http1Transport()), babbler

        transport, babbler = runner.run(enter())

        def holds(method: str, pieces: Bytes, at: Sequence[int]) -> None:
            """The client survives any answer."""
            says = cut(b"".join(pieces), at)
            runner.run(heard(transport, babbler, method, says))

        yield holds
        runner.run(stack.aclose())


# -- the server's side ------------------------------------------------------------------------


class Listening:
    """A provider that converses in a thread for each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._converse, args=(peer,), daemon=True).start()

    def _converse(self, peer: socket.socket) -> None:
        raise NotImplementedError


class Strict(Listening):
    """A provider that reads by the book (h11), and notes what is not HTTP."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.wrong: list[str] = []
        super().__init__()

    def _converse(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            reader = h11.Connection(h11.SERVER)
            over = False
            while not over:
                data = peer.recv(65536)
                over = not data
                if not self._read(reader, peer, data):
                    return

    def _read(self, reader: h11.Connection, peer: socket.socket, data: bytes) -> bool:
        try:
            reader.receive_data(data)
            while (event := reader.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Request):
                    self.targets.append(event.target)
                elif isinstance(event, h11.EndOfMessage):
                    peer.sendall(_ANSWER)
                    reader.send(h11.Response(status_code=200, headers=[("content-length", "2")]))
                    reader.send(h11.Data(data=b"ok"))
                    reader.send(h11.EndOfMessage())
                    reader.start_next_cycle()
                elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                    return False
        except h11.RemoteProtocolError as error:
            if data:  # an agent that leaves in the middle is cut off, and so is its call
                self.wrong.append(f"{error}: {data[:200]!r}")
            return False
        except h11.LocalProtocolError:
            return False
        return True


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Log errors only, as long as the block is open: other tests of a process expect warnings."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def server() -> Iterator[Callable[..., None]]:
    """A relay before a provider that reads by the book."""
    provider = Strict()
    with (
        quiet("uvicorn.error"),  # it warns of each
        contextlib.closing(provider),
        relaying(provider.url) as relay,
    ):
        late = 0  # requests of the example before, whose agent had left, that may come yet

        def holds(pieces: Bytes, at: Sequence[int]) -> None:
            """The server survives any request, and the provider is asked for no other one."""
            nonlocal late
            ended_before = len(relay.book.exchanges)
            before, asked = len(provider.targets), len(relay.book.opens)
            send(relay, cut(b"".join(pieces), at))
            fine = httpx.get(relay.base() + "/fine", timeout=PATIENCE_S)
            assert (fine.status_code, fine.text) == (200, "ok")
            assert provider.wrong == []
            ended = relay.book.exchanges[ended_before:]
            assert Ending.LOST not in {each.ending for each in ended}
            new, calls = provider.targets[before:], len(relay.book.opens) - asked
            assert len(new) <= calls + late, (new, b"".join(pieces))
            late = max(0, calls - len(new))

        yield holds


def send(relay: Relaying, pieces: Sequence[bytes]) -> None:
    """Send bytes, and wait until the relay has had enough of them."""
    with socket.create_connection(("127.0.0.1", relay.port), PATIENCE_S) as agent:
        agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            for piece in pieces:
                agent.sendall(piece)
            agent.shutdown(socket.SHUT_WR)
            while agent.recv(65536):
                pass


# -- both sides -------------------------------------------------------------------------------


class Exact(Listening):
    """A provider that keeps a request's body, and answers what it is told, when it is told.

    ``early_at``: after so many bytes of the body. ``stale``: a connection that has served before is
    closed behind the request instead. ``says``: the response, in pieces.
    """

    def __init__(self) -> None:
        self.early_at: int | None = None
        self.stale = False
        self.says: Sequence[bytes] = ()
        self.bodies: list[bytes] = []
        super().__init__()

    def _converse(self, peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer, contextlib.suppress(OSError, h11.RemoteProtocolError):
            reader, reused = h11.Connection(h11.SERVER), False
            while True:
                body, answered = self._read(reader, peer)
                if body is None:
                    return
                stale, self.stale = self.stale and reused, False
                if stale:
                    return
                if not answered:
                    self.bodies.append(body)
                    self._answer(peer)
                for event in (
                    h11.Response(status_code=200, headers=[("content-length", "0")]),
                    h11.EndOfMessage(),
                ):
                    reader.send(event)
                reader.start_next_cycle()
                reused = True

    def _read(self, reader: h11.Connection, peer: socket.socket) -> tuple[bytes | None, bool]:
        """Read a request's body, None where it ends early; and whether it is answered already."""
        body, answered = b"", False
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
                if not answered and self.early_at is not None and len(body) >= self.early_at:
                    answered = True
                    self._answer(peer)
            elif isinstance(event, h11.ConnectionClosed):
                return None, answered
            elif event is h11.NEED_DATA:
                reader.receive_data(peer.recv(65536))
        return body, answered

    def _answer(self, peer: socket.socket) -> None:
        for piece in self.says:
            peer.sendall(piece)


def _framed(body: bytes, at: Sequence[int], *, chunked: bool) -> tuple[bytes, Bytes]:
    """The header that frames a body, and the body cut at places, each a chunk where it has them."""
    pieces = [piece for piece in cut(body, at) if piece]
    if not chunked:
        return b"content-length: %d\r\n" % len(body), pieces
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"transfer-encoding: chunked\r\n", [*chunks, b"0\r\n\r\n"]


_OK: Final = b"HTTP/1.1 200 OK\r\n"
_CALL: Final = b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nhost: a\r\n"


@contextmanager
def bodies() -> Iterator[Callable[..., None]]:
    """A relay between an agent and a provider that agree on every byte."""
    provider = Exact()
    usage = {"openai": {"include_usage": True}}
    with (
        quiet("truezero"),
        contextlib.closing(provider),
        relaying(provider.url, upstreams=usage) as relay,
    ):

        def holds(
            asks: tuple[bytes, int, bool, Sequence[int]],
            says: tuple[bytes, int, bool, Sequence[int]],
            early_at: int | None,
            stale: bool,
            anywhere: Sequence[int],
        ) -> None:
            """Both bodies come as they were sent, however they are cut, and are recorded whole."""
            asked, said = asks[0] * asks[1], says[0] * says[1]
            framing, pieces = _framed(asked, asks[3], chunked=asks[2])
            head, answer = _framed(said, says[3], chunked=says[2])
            early = early_at is not None and asked != b""
            provider.early_at = min(early_at, len(asked)) if early and early_at else None
            early, provider.stale = provider.early_at is not None, stale and not early
            provider.says = cut(_OK + head + b"\r\n" + b"".join(answer), anywhere)
            before, heard = len(relay.book.exchanges), len(provider.bodies)
            with relay.connect(PATIENCE_S) as agent:
                agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                agent.sendall(_CALL + framing + b"\r\n")
                for piece in pieces:
                    agent.sendall(piece)
                status, got = _read_answer(agent.makefile("rb"))
            assert (status + b"\r\n", got) == (_OK, said)
            if not early:
                sent = (None if asks[2] else with_usage(asked)) or asked
                assert provider.bodies[heard:] == [sent]
            exchanges = relay.book.wait_for(before + 1)[before:]
            assert {each.ending for each in exchanges} == {Ending.COMPLETE}
            assert exchanges[-1].response_bytes == len(said)
            assert early or exchanges[-1].request_bytes == len(asked)

        yield holds


def _read_answer(answered: Any) -> tuple[bytes, bytes]:
    """Read one response: its first line, and its body."""
    lines: Bytes = []
    while (line := answered.readline().rstrip(b"\r\n")) or not lines:
        assert line, "the connection was closed"
        lines.append(line)
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
    if b"content-length" in fields:
        return lines[0], answered.read(int(fields[b"content-length"]))
    body = b""
    while size := int(answered.readline(), 16):
        body += answered.read(size)
        answered.readline()
    answered.readline()
    return lines[0], body


_body: Final = st.tuples(
    st.binary(max_size=40) | st.just(b'{"stream":true,"messages":[]}') | st.just(b"data: {}\n\n"),
    st.integers(0, 3) | st.integers(0, 20_000),
    st.booleans(),
    places,
)

SIDES: Final[dict[str, tuple[Any, dict[str, st.SearchStrategy[Any]]]]] = {
    "client": (client, {
        "method": st.sampled_from(("GET", "HEAD", "POST")), "pieces": answer, "at": places}),
    "server": (server, {"pieces": request, "at": places}),
    "bodies": (bodies, {
        "asks": _body, "says": _body, "early_at": st.none() | st.integers(1, 500_000),
        "stale": st.booleans(), "anywhere": places}),
}  # fmt: skip
