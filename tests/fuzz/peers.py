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
from proxy.outbound.errors import UpstreamError
from proxy.outbound.transport import Http1Transport
from tests.fakes.relaying import Relaying, relaying
from tests.fuzz.pure import cut, places
from tests.proxy.outbound.client import fetch

PATIENCE_S: Final = 60.0

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


class Strict:
    """A provider that reads by the book (h11), and notes what is not HTTP."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.wrong: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(
                    target=self._converse, args=(self._listener.accept()[0],), daemon=True
                ).start()

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
def server() -> Iterator[Callable[..., None]]:
    """A relay before a provider that reads by the book."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of each
    provider = Strict()
    with contextlib.closing(provider), relaying(provider.url) as relay:

        def holds(pieces: Bytes, at: Sequence[int]) -> None:
            """The server survives any request, and the provider is asked for no other one."""
            ended_before = len(relay.book.exchanges)
            before, asked = len(provider.targets), len(relay.book.opens)
            send(relay, cut(b"".join(pieces), at))
            fine = httpx.get(relay.base() + "/fine", timeout=PATIENCE_S)
            assert (fine.status_code, fine.text) == (200, "ok")
            assert provider.wrong == []
            ended = relay.book.exchanges[ended_before:]
            assert Ending.LOST not in {each.ending for each in ended}
            new = provider.targets[before:]
            assert len(new) <= len(relay.book.opens) - asked, (new, b"".join(pieces))

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


SIDES: Final[dict[str, tuple[Any, dict[str, st.SearchStrategy[Any]]]]] = {
    "client": (client, {
        "method": st.sampled_from(("GET", "HEAD", "POST")), "pieces": answer, "at": places}),
    "server": (server, {"pieces": request, "at": places}),
}  # fmt: skip
