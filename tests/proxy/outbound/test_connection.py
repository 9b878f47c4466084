from __future__ import annotations

import asyncio
import contextlib
import gzip
from dataclasses import dataclass, field

import pytest

from proxy.outbound import errors
from proxy.outbound.connection import FramingTooLong, ResponseHandler, ResponseParser
from proxy.outbound.transport import Http1Transport
from proxy.routing.headers import Pairs
from tests.fakes.asking import read, send
from tests.fakes.sockets import Heard, Reset, Silence, Stay, Step, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    PATIENCE_S,
    UNTIL_CLOSED,
    Parts,
    Received,
    fetch,
    request,
    until_idle,
)
from tests.tables import each

# --------------------------------------------------------------------------------------------------
# Responses as raw bytes, whole and byte by byte: parsed, or refused with the right error

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
_TE: Pairs = [(b"Transfer-Encoding", b"chunked")]
_PACKED = gzip.compress(b"still packed", mtime=0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An answer's bytes, what is read from them, and whether the connection may be used again.

    ``stays``: the client may. ``closes``: the server ends it, which ends the body.
    """

    said: bytes
    body: bytes = b""
    status: int = 200
    headers: Pairs = field(default_factory=list)
    method: str = "GET"
    stays: bool = True
    closes: bool = False

    @property
    def end(self) -> list[Step]:
        return [] if self.closes else [Stay()]


def _length(body: bytes, *lines: bytes) -> bytes:
    more = b"".join(line + b"\r\n" for line in lines)
    return OK + b"Content-Length: %d\r\n%b\r\n%b" % (len(body), more, body)


def _cl(size: int) -> tuple[bytes, bytes]:
    return (b"Content-Length", b"%d" % size)


_CLOSED: Pairs = [(b"Connection", b"close")]  # added to a head that frames its body twice
_TWICE = OK + b"Content-Length: 9999\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
_ONE = [(b"Content-Length", b"5"), *_CLOSED]

CASES = {
    "both framings": Case(said=_TWICE, body=b"hello", headers=[*_TE, *_CLOSED], stays=False),
    "both framings, chunks first": Case(
        said=OK + b"Transfer-Encoding: Chunked\r\ncontent-length: 5\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
        body=b"he", headers=[(b"Transfer-Encoding", b"Chunked"), *_CLOSED], stays=False),
    "both framings behind an interim answer": Case(
        said=b"HTTP/1.1 100 Continue\r\n\r\n" + _TWICE, body=b"hello", headers=[*_TE, *_CLOSED],
        stays=False),
    "both framings in lines that end in LF": Case(
        said=_TWICE.partition(b"5\r\n")[0].replace(b"\r\n", b"\n") + b"5\r\nhello\r\n0\r\n\r\n",
        body=b"hello", headers=[*_TE, *_CLOSED], stays=False),
    "two equal lengths": Case(said=_length(b"hello", b"Content-Length: 5"), body=b"hello",
                              headers=_ONE, stays=False),
    "two equal lengths in one line": Case(said=OK + b"Content-Length: 5, 5\r\n\r\nhello",
                                          body=b"hello", headers=_ONE, stays=False),
    "a length, and no coding": Case(
        said=_length(b"hello", b"Transfer-Encoding: identity"), body=b"hello", headers=_ONE,
        stays=False),
    "content-length": Case(said=_length(b"hello"), body=b"hello", headers=[_cl(5)]),
    "an empty body": Case(said=_length(b""), headers=[_cl(0)]),
    "no reason phrase": Case(
        said=b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", body=b"hi", headers=[_cl(2)]
    ),
    "an odd status": Case(
        said=b"HTTP/1.1 529 Overloaded\r\nContent-Length: 2\r\n\r\n{}",
        status=529, body=b"{}", headers=[_cl(2)],
    ),
    "lines that end in LF alone": Case(
        said=b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", body=b"hi", headers=[_cl(2)]
    ),
    "doubled headers in their order": Case(
        said=_length(b"", b"X-B: 1", b"X-A: 2", b"x-b: 3"),
        headers=[_cl(0), (b"X-B", b"1"), (b"X-A", b"2"), (b"x-b", b"3")],
    ),
    "blanks around a value": Case(
        said=_length(b"", b"X-A:\t b c \t "), headers=[_cl(0), (b"X-A", b"b c")]
    ),
    "an empty value": Case(said=_length(b"", b"X-A:"), headers=[_cl(0), (b"X-A", b"")]),
    "values that are no ASCII": Case(
        said=_length(b"", b"X-A: \xe9", b"X-B: \xc3\xa9"),
        headers=[_cl(0), (b"X-A", b"\xe9"), (b"X-B", b"\xc3\xa9")],
    ),
    "a packed body": Case(
        said=_length(_PACKED, b"Content-Encoding: gzip"),
        body=_PACKED, headers=[_cl(len(_PACKED)), (b"Content-Encoding", b"gzip")],
    ),
    "chunks": Case(said=CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", body=b"abcde", headers=_TE),
    "no chunks": Case(said=CHUNKED + b"0\r\n\r\n", headers=_TE),
    "chunk extensions": Case(
        said=CHUNKED + b'3;a=b;c="d e"\r\nabc\r\n0;z\r\n\r\n', body=b"abc", headers=_TE
    ),
    "blanks after a chunk size": Case(
        said=CHUNKED + b"3  \r\nabc\r\n0\r\n\r\n", body=b"abc", headers=_TE
    ),
    "chunk sizes with leading zeros and capitals": Case(
        said=CHUNKED + b"00A\r\n0123456789\r\n000\r\n\r\n", body=b"0123456789", headers=_TE
    ),
    "trailers": Case(
        said=CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", body=b"abc", headers=_TE
    ),
    "a coding spelled in capitals": Case(
        said=OK + b"TRANSFER-ENCODING: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        body=b"a", headers=[(b"TRANSFER-ENCODING", b"Chunked")],
    ),
    "a body that ends with the connection": Case(
        said=OK + b"X-A: 1\r\n\r\nto the end", body=b"to the end",
        headers=[(b"X-A", b"1")], stays=False, closes=True,
    ),
    "a body of HTTP/1.0": Case(
        said=b"HTTP/1.0 200 OK\r\n\r\nold", body=b"old", stays=False, closes=True
    ),
    "HTTP/1.0 closes": Case(
        said=b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        body=b"hi", headers=[_cl(2)], stays=False,
    ),
    "HTTP/1.0 that stays": Case(
        said=b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        body=b"hi", headers=[(b"Connection", b"keep-alive"), _cl(2)],
    ),
    "connection: close": Case(
        said=_length(b"hi", b"Connection: close"),
        body=b"hi", headers=[_cl(2), (b"Connection", b"close")], stays=False,
    ),
    "204": Case(said=b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", status=204,
                headers=[(b"X-A", b"1")]),
    "204 with a length": Case(
        said=b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", status=204, headers=[_cl(9)]
    ),
    "304 with a length": Case(
        said=b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", status=304,
        headers=[_cl(9)],
    ),
    "304 with a coding": Case(
        said=b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", status=304,
        headers=_TE,
    ),
    "HEAD with a length": Case(
        said=OK + b"Content-Length: 9\r\n\r\n", method="HEAD", headers=[_cl(9)], stays=False
    ),
    "HEAD with a coding": Case(said=CHUNKED, method="HEAD", headers=_TE, stays=False),
    "HEAD with neither": Case(said=OK + b"\r\n", method="HEAD", stays=False),
    "100 before": Case(
        said=b"HTTP/1.1 100 Continue\r\n\r\n" + _length(b"hi"), body=b"hi", headers=[_cl(2)]
    ),
    "hints before": Case(
        said=b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + _length(b"hi"),
        body=b"hi", headers=[_cl(2)],
    ),
    "more than was promised": Case(
        said=_length(b"hi") + b"and more", body=b"hi", headers=[_cl(2)], stays=False
    ),
    "a second answer that nobody asked for": Case(
        said=_length(b"hi") + _length(b"smuggled"), body=b"hi", headers=[_cl(2)], stays=False
    ),
    "the beginning of one": Case(
        said=_length(b"hi") + b"HT", body=b"hi", headers=[_cl(2)], stays=False
    ),
}  # fmt: skip


@each("name", CASES)
async def test_an_answer_is_read_right_byte_by_byte(transport: Http1Transport, name: str) -> None:
    case = CASES[name]
    slowly: list[Step] = []
    for byte in case.said:
        slowly += [bytes([byte]), Silence(0)]
    async with playing([*slowly, *case.end]) as server:
        got = await fetch(transport, server.url(), case.method)
    assert got == Received(case.status, case.headers, case.body)


@each("name", CASES)
async def test_an_answer_is_read_right_and_its_connection_used_again_only_where_it_is_clean(
    transport: Http1Transport, name: str
) -> None:
    case = CASES[name]
    async with playing([case.said, *case.end], [_length(b"next"), Stay()]) as server:
        got = await fetch(transport, server.url(), case.method)
        assert got == Received(case.status, case.headers, case.body)
        assert (await fetch(transport, server.url())).body == b"next"
        assert server.connections == (1 if case.stays else 2)


BROKEN: dict[str, tuple[Step, ...]] = {
    "nothing": (),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "binary": (b"\x15\x03\x01\x00\x02\x02\x50",),
    "HTTP/3.7": (b"HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n",),
    "a status of letters": (b"HTTP/1.1 abc OK\r\n\r\n",),
    "half a head": (OK + b"Content-Le",),
    "a head without its end": (OK + b"Content-Length: 2\r\n",),
    "only hints": (b"HTTP/1.1 103 Early Hints\r\n\r\n",),
    "a negative length": (OK + b"Content-Length: -1\r\n\r\n",),
    "a length of letters": (OK + b"Content-Length: x\r\n\r\n",),
    "two lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",),
    "a length beyond counting": (OK + b"Content-Length: 99999999999999999999\r\n\r\n",),
    "two lengths behind an interim answer": (
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"Content-Length: 1, 2\r\n\r\nab",
    ),
    "two lengths, and a length that is none": (
        OK + b"Content-Length: 1\r\nContent-Length: one\r\n\r\na",
    ),
    "a length that is none, twice": (OK + b"Content-Length: 1x, 1x\r\n\r\na",),
    "a blank in a name": (OK + b"X A: 1\r\n\r\n",),
    "a blank after a name": (OK + b"X-A : 1\r\n\r\n",),
    "no name": (OK + b": 1\r\n\r\n",),
    "a folded line": (OK + b"X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",),
    "NUL in a value": (OK + b"X-A: a\x00b\r\nContent-Length: 0\r\n\r\n",),
    "CR in a value": (OK + b"X-A: a\rb\r\nContent-Length: 0\r\n\r\n",),
    "an endless line": (OK + b"X-A: " + b"a" * 70_000, Stay()),
    "endless headers": (OK + b"X-A: 1\r\n" * 9_000, Stay()),
    "endless hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2_000, Stay()),
    "a head too long, at one stroke": (OK + b"X-A: %b\r\n\r\n" % (b"a" * 70_000), Stay()),
    "101 without an upgrade": (b"HTTP/1.1 101 Switching\r\n\r\nraw",),
}


@each("name", BROKEN)
async def test_a_broken_head_is_a_protocol_error(transport: Http1Transport, name: str) -> None:
    async with playing(BROKEN[name]) as server:
        with pytest.raises(errors.RemoteProtocolError):
            await fetch(transport, server.url())
        assert server.connections == 1


CUT: dict[str, tuple[Step, ...]] = {
    "a body shorter than its length": (OK + b"Content-Length: 10\r\n\r\nabc",),
    "chunks without a last one": (CHUNKED + b"3\r\nabc\r\n",),
    "a chunk cut short": (CHUNKED + b"5\r\nabc",),
    "the last chunk cut short": (CHUNKED + b"3\r\nabc\r\n0\r\n",),
    "chunks that turn to garbage": (CHUNKED + b"3\r\nabc\r\nzz\r\n", Stay()),
    "garbage a moment later": (CHUNKED + b"3\r\nabc\r\n", Silence(), b"zz\r\n", Stay()),
    "a chunk size beyond counting": (CHUNKED + b"3\r\nabc\r\n" + b"f" * 20 + b"\r\n", Stay()),
    "a trailer too long, in one line": (
        CHUNKED + b"3\r\nabc\r\n0\r\nx-t: ",
        b"y" * 1_000_000,
        b"\r\n\r\n",
        Stay(),
    ),
    "a trailer too long, in many lines": (
        CHUNKED + b"3\r\nabc\r\n0\r\n",
        b"x-t: y\r\n" * 100_000,
        b"\r\n",
        Stay(),
    ),
}


@each("name", CUT)
async def test_what_came_of_a_broken_body_is_delivered_before_the_error(
    transport: Http1Transport, name: str
) -> None:
    async with playing(CUT[name]) as server:
        response = await send(transport, request(server.url()))
        got = b""
        with pytest.raises(errors.RemoteProtocolError):
            async for chunk in response.body:
                got += chunk
        assert (response.status, got) == (200, b"abc")


@pytest.mark.parametrize(
    "said", [OK, OK + b"Content-Length: 10\r\n\r\nabc", OK + b"X-A: 1\r\n\r\nabc"]
)
async def test_a_reset_is_a_read_error(transport: Http1Transport, said: bytes) -> None:
    async with playing([said, Silence(0.05), Reset()]) as server:
        with pytest.raises(errors.ReadError):
            await fetch(transport, server.url())


async def test_an_answer_larger_than_a_read_arrives_whole(transport: Http1Transport) -> None:
    body = bytes(range(256)) * 20_000
    async with playing([_length(body), Stay()]) as server:
        assert (await fetch(transport, server.url())).body == body


async def test_parts_that_came_together_are_read_together(transport: Http1Transport) -> None:
    said = CHUNKED + b"1\r\na\r\n1\r\nb\r\n", Silence(0.05), b"1\r\nc\r\n0\r\n\r\n"
    async with playing(said) as server:
        response = await send(transport, request(server.url()))
        assert [part async for part in response.body] == [b"ab", b"c"]


async def test_framing_is_bounded_between_two_parts_of_a_body_not_over_all_of_them() -> None:
    origin = Http1Transport().origin("http://127.0.0.1:1")
    parser = ResponseParser()
    parser.begin(ResponseHandler(origin, asyncio.get_running_loop()))
    parser.feed(CHUNKED)
    extension = b"1;x=" + b"y" * 1_000 + b"\r\n"
    for _ in range(100):  # 100 kB of framing that comes by itself, a byte of the body behind each
        for part in (extension, b"a", b"\r\n"):
            parser.feed(part)
            if not parser.pieces:
                parser.bound_framing()
            parser.pieces.clear()
    parser.feed(b"0\r\n")
    parser.bound_framing()
    with pytest.raises(FramingTooLong):
        for _ in range(66):
            parser.feed(b"x-t: " + b"y" * 1_000 + b"\r\n")


async def test_what_follows_a_101_is_its_body(transport: Http1Transport) -> None:
    said = b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nwelcome"
    async with playing([said, Silence(0.02), b", you", Stay()]) as server:
        headers = [(b"host", b"x"), (b"connection", b"upgrade"), (b"upgrade", b"echo")]
        response = await send(transport, request(server.url(), headers=headers))
        assert response.status == 101
        body = b""
        async for part in response.body:
            body += part
            if len(body) == len(b"welcome, you"):
                break
        assert body == b"welcome, you"
        await response.aclose()


async def test_an_upgraded_connection_ends_cleanly(transport: Http1Transport) -> None:
    said = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbye"
    async with playing([said]) as server:
        response = await send(transport, request(server.url()))
        assert await read(response) == b"bye"


# --- Sending requests over real sockets -----------------------------------------------------------


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"9")]])
async def test_a_body_is_sent_while_it_arrives(
    transport: Http1Transport, headers: list[tuple[bytes, bytes]]
) -> None:
    async with playing([HI, Stay()]) as server:
        parts = Parts(b"abc", b"", b"def", b"ghi", apart_s=0.01)
        await fetch(transport, server.url(), "POST", parts, headers)
        await fetch(transport, server.url())
        assert server.bodies == [b"abcdefghi", b""]
        assert server.connections == 1


@pytest.mark.parametrize("length", [b"2", b"4"])
async def test_a_body_of_another_length_than_its_head_says_poisons_no_connection(
    transport: Http1Transport, length: bytes
) -> None:
    async with playing([HI, Stay()]) as server:
        with pytest.raises(errors.LocalProtocolError):
            await fetch(
                transport, server.url(), "POST", Parts(b"a", b"bc"), [(b"content-length", length)]
            )
        assert (await fetch(transport, server.url())).body == b"hi"
        assert server.connections == 2


async def test_what_follows_a_whole_body_harms_nobody_else(transport: Http1Transport) -> None:
    """The answer is here and the connection serves another call when the body turns out longer."""
    second_heard, first_over = asyncio.Event(), asyncio.Event()
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await hear(reader, Heard())
        writer.write(HI)
        await hear(reader, Heard())
        second_heard.set()
        await first_over.wait()
        writer.write(HI)

    async with serving(handler) as port, asyncio.timeout(PATIENCE_S):
        url = f"http://127.0.0.1:{port}/"
        length = [(b"content-length", b"2")]
        first = await send(transport, request(url, "POST", Parts(b"ab"), length))
        await until_idle(transport)
        second = asyncio.create_task(fetch(transport, url))
        await second_heard.wait()
        first.send_part(b"c", False)
        first_over.set()
        assert (await second).body == await read(first) == b"hi"
        assert connections == 1


async def test_an_early_answer_does_not_wait_for_a_body_in_memory(
    transport: Http1Transport,
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(HI)
        await asyncio.sleep(PATIENCE_S)

    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}/"
        got = await fetch(transport, url, "POST", bytes(8_000_000))
        assert got.body == b"hi"


# --------------------------------------------------------------------------------------------------
# One connection over real sockets: left early, kept


async def test_leaving_early_is_seen_by_the_server(transport: Http1Transport) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader, Heard())
        writer.write(UNTIL_CLOSED + b"some")
        with contextlib.suppress(OSError):
            await reader.read()
        gone.set()

    async with serving(handler) as port:
        response = await send(transport, request(f"http://127.0.0.1:{port}/"))
        await response.aclose()
        await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def test_closing_after_the_end_keeps_the_connection(transport: Http1Transport) -> None:
    async with playing([HI, Stay()]) as server:
        for _ in range(3):
            response = await send(transport, request(server.url()))
            await read(response)
            await response.aclose()
            await response.aclose()
        assert server.connections == 1
