"""Requests that two parsers might read differently, at the real server before a strict provider.

Whatever an agent writes, the provider must read one request for each call, framed once and
call_by_hand, at the path of that call, and nothing that the agent hid inside another request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pytest

from tests.proxy.api.test_routes import Service, serving
from tests.tables import each

PATIENCE_S = 300
CALL = b"/r/a/openai/v1/chat/completions"
HIDDEN = b"POST /r/smuggled/openai/v1/hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
# As it would stand at the provider, if it came through inside a body that was cut short.
BEHIND = b"POST /v1/hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


# --- the provider ----------------------------------------------------------------------------

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110 §5.6.2
_START = re.compile(rb"[A-Z]+ (/[\x21-\x7e]*) HTTP/1\.1\Z")
_FIELD = re.compile(rb"(%b):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)\Z" % _TOKEN)
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")


@dataclass(frozen=True)
class Heard:
    """One request as a provider reads it that forgives nothing."""

    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def all(self, name: bytes) -> list[bytes]:
        return [value for header, value in self.headers if header == name]


class Misread(AssertionError):
    """Bytes that another parser might read otherwise."""


def read(wire: bytes) -> tuple[Heard, bytes] | None:
    """The first request, and what follows it; None while it is not all there."""
    head, end, rest = wire.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.split(b"\r\n")
    start = _START.match(first)
    fields = [_FIELD.match(line) for line in lines]
    if start is None or None in fields:
        raise Misread(head)
    headers = tuple((one[1].lower(), one[2]) for one in fields if one is not None)
    heard = Heard(start[1], headers, b"")
    if len(heard.all(b"host")) != 1:
        raise Misread(head)
    body = _body(heard, rest)
    return None if body is None else (Heard(start[1], headers, body[0]), body[1])


def _body(heard: Heard, rest: bytes) -> tuple[bytes, bytes] | None:
    lengths, codings = heard.all(b"content-length"), heard.all(b"transfer-encoding")
    if len(lengths) + len(codings) > 1 or codings not in ([], [b"chunked"]):
        raise Misread(heard)
    if codings:
        return _chunks(rest)
    length = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
    if lengths != ([] if not lengths else [lengths[0]]) or (lengths and not lengths[0].isdigit()):
        raise Misread(heard)
    return None if len(rest) < length else (rest[:length], rest[length:])


def _chunks(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while found := _CHUNK.match(rest):
        size, rest = int(found[1], 16), rest[found.end() :]
        if len(rest) < size + 2:
            return None
        if rest[size : size + 2] != b"\r\n":
            raise Misread(rest)
        body, rest = body + rest[:size], rest[size + 2 :]
        if not size:
            return body, rest
    if b"\r\n" in rest:
        raise Misread(rest)
    return None


_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
_LAST = b"GET /last HTTP/1.1\r\nhost: x\r\n\r\n"


class _Conversation(asyncio.Protocol):
    def __init__(self, wire: list[bytearray]) -> None:
        self._wire = wire
        self._log = bytearray()
        self._left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._wire.append(self._log)

    def data_received(self, data: bytes) -> None:
        if data == _LAST:
            self._transport.write(_ANSWER)
            return
        self._log += data
        self._left += data
        try:
            while (found := read(self._left)) is not None:
                self._left = found[1]
                self._transport.write(_ANSWER)
        except Misread:
            self._transport.close()


class StrictProvider:
    """A provider that keeps every byte it is sent, by connection.

    One thread takes connections and bytes in the order in which they come.
    """

    def __init__(self) -> None:
        self._wire: list[bytearray] = []
        self._read: dict[int, int] = {}  # how many bytes of each connection
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._place = self._listener.getsockname()
        self.url = f"http://127.0.0.1:{self._place[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        loop = self._loop
        serving = loop.create_server(lambda: _Conversation(self._wire), sock=self._listener)
        server = loop.run_until_complete(serving)
        loop.run_forever()
        server.close()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _catch_up(self) -> None:
        """Return once all is read that was sent before: a call that was cut is sent, too."""
        with socket.create_connection(self._place, PATIENCE_S) as last:
            last.sendall(_LAST)
            assert last.recv(len(_ANSWER)), "the provider has gone"

    def heard(self) -> list[Heard]:
        """Every request since it was last asked.

        Raises:
            Misread: the bytes are not requests and nothing else.
        """
        self._catch_up()
        requests = []
        for number, log in enumerate(self._wire):
            left = bytes(log[self._read.get(number, 0) :])
            # What is not all there is a call that was cut: no other follows on its connection.
            while left and (found := read(left)) is not None:
                self._read[number] = self._read.get(number, 0) + len(left) - len(found[1])
                requests.append(found[0])
                left = found[1]
        return requests


# --- the agent -------------------------------------------------------------------------------


def post(*lines: bytes, body: bytes = b"", target: bytes = CALL, host: bytes = b"Host: x") -> bytes:
    """A request as an agent may write it."""
    head = (b"POST %b HTTP/1.1" % target, *([host] if host else []), *lines, b"", b"")
    return b"\r\n".join(head) + body


def chunked(*lines: bytes, body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", b"Connection: close", *lines, body=body)


def sized(*lines: bytes, body: bytes = b"{}", target: bytes = CALL) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return post(length, b"Connection: close", *lines, body=body, target=target)


CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
PRI = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

HOP_BY_HOP = {b"connection", b"upgrade", b"te", b"http2-settings", b"keep-alive"}

# What is written → how many calls the provider must read. None: 0 or 1, as the server likes.
# fmt: off
CASES: dict[str, tuple[bytes, int | None]] = {
    # how long it is, said twice
    "CL.TE": (post(b"Content-Length: %d" % (5 + len(HIDDEN)), b"Transfer-Encoding: chunked",
                   body=b"0\r\n\r\n" + HIDDEN), 0),
    "TE.CL": (post(b"Transfer-Encoding: chunked", b"Content-Length: 4",
                   body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)), 0),
    "TE.CL, both true": (post(b"Transfer-Encoding: chunked", b"Content-Length: 12",
                              body=CHUNKS), 0),
    "two lengths that differ": (post(b"Content-Length: 2", b"Content-Length: %d" % len(HIDDEN),
                                     body=b"{}" + HIDDEN), 0),
    "two lengths that agree": (post(b"Content-Length: 2", b"Content-Length: 2", body=b"{}"), 0),
    "a list of lengths": (post(b"Content-Length: 2, 2", body=b"{}" + HIDDEN), 0),
    "codings twice": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                           body=CHUNKS), None),
    "codings twice, once hidden": (post(b"Transfer-Encoding: chunked",
                                        b"Transfer-Encoding: identity", body=CHUNKS), 0),

    # how long it is, in odd words
    **{f"length {value!r}": (post(b"Content-Length: " + value, body=b"{}" + HIDDEN), 0)
       for value in (b"+2", b"-2", b"0x2", b"2 2", b"2;", b"2.0", b"\xd9\xa2", b"2_0", b"",
                     b"18446744073709551618", b"99999999999999999999999")},
    "length 002": (sized(b"X: y").replace(b"Length: 2", b"Length: 002"), None),
    **{f"coding {value!r}": (post(b"Transfer-Encoding:" + value, body=CHUNKS + HIDDEN), 0)
       for value in (b" xchunked", b" chunkedx", b" chunked, identity", b" chunked;q=1", b" cow",
                     b' "chunked"', b" identity", b" chun ked", b"\x0bchunked", b" \x00chunked",
                     b" gzip", b" chunked,", b" ,", b"")},
    "a coding behind a blank": (post(b"Transfer-Encoding : chunked", body=CHUNKS), 0),
    "a coding in a folded line": (post(b"Transfer-Encoding:", b" chunked", body=CHUNKS), 0),
    "a coding behind a folded line": (post(b"X: y", b" Transfer-Encoding: chunked",
                                           b"Content-Length: 2", body=b"{}"), None),
    "a length behind a blank": (post(b"Content-Length : 2", body=b"{}"), 0),
    "a coding with an underscore": (sized(b"Transfer_Encoding: chunked"), 1),
    "a coding in odd case": (chunked(body=CHUNKS).replace(b"chunked", b"ChUnKeD"), 1),

    # chunks
    "chunks": (chunked(body=CHUNKS), 1),
    "chunks with extensions": (chunked(body=b"2;a=b;c=\"d\"\r\n{}\r\n0;e\r\n\r\n"), 1),
    "chunks with a trailer": (chunked(b"Trailer: x-t",
                                      body=b"2\r\n{}\r\n0\r\nx-t: 1\r\n\r\n"), 1),
    "a trailer that frames": (chunked(body=b"2\r\n{}\r\n0\r\nContent-Length: 50\r\n"
                                           b"Transfer-Encoding: x\r\nHost: y\r\n\r\n"), None),
    "an extension with a line feed": (chunked(body=b"2;a\nb\r\n{}\r\n0\r\n\r\n" + HIDDEN), None),
    **{f"chunk size {value!r}": (chunked(body=value + b"\r\n{}\r\n0\r\n\r\n" + HIDDEN), None)
       for value in (b"0x2", b"+2", b"-2", b" 2", b"2 ", b"02", b"2g", b"", b"\x002",
                     b"10000000000000002", b"ffffffffffffffff2")},
    "chunks that end in line feeds": (chunked(body=b"2\n{}\n0\n\n" + HIDDEN), None),
    "a chunk that is longer than it says": (chunked(body=b"2\r\n{}x\r\n0\r\n\r\n" + HIDDEN), None),
    "a request inside a chunk": (chunked(body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(BEHIND), BEHIND)), 1),
    "a request behind the last chunk": (chunked(body=CHUNKS + HIDDEN), 1),

    # where a line ends
    "line feeds alone": (sized().replace(b"\r\n", b"\n"), None),
    "a line feed in a header": (post(b"X: y\nTransfer-Encoding: chunked", b"Content-Length: 2",
                                     body=b"{}" + HIDDEN), 0),
    "a carriage return in a header": (post(b"X: y\rTransfer-Encoding: chunked",
                                           b"Content-Length: 2", body=b"{}" + HIDDEN), 0),
    "a NUL in a header": (post(b"X: y\x00z", b"Content-Length: 2", body=b"{}"), 0),
    "a NUL in a name": (post(b"X\x00: y", b"Content-Length: 2", body=b"{}"), 0),
    "a name without a colon": (post(b"Content-Length", b"Content-Length: 2", body=b"{}"), 0),
    "no name": (post(b": y", b"Content-Length: 2", body=b"{}"), None),
    "a blank line first": (b"\r\n\r\n" + sized(), None),
    "blanks before the first header": (post(b"Content-Length: 2", body=b"{}",
                                            host=b" Host: x"), None),

    # the first line
    "a line break in the path": (sized(target=CALL + b"\r\nX-A:b"), None),
    "a carriage return in the path": (sized(target=CALL + b"\rX-A:b"), 0),
    "a blank in the path": (sized(target=CALL + b" HTTP/1.1\r\nX-A:"), None),
    "a tab in the path": (sized(target=CALL + b"\tx"), 0),
    "a NUL in the path": (sized(target=CALL + b"\x00"), 0),
    "bytes over 127 in the path": (sized(target=CALL + b"\xff\xfe"), 0),
    "an encoded line break in the path": (sized(target=CALL + b"%0d%0aX-A:%20b"), 1),
    "an encoded line break in the query": (sized(target=CALL + b"?a=%0d%0aX-A:%20b"), 1),
    "an encoded line break in a rollout": (
        sized(target=b"/r/a%0d%0aX:y/openai/v1/chat/completions"), 0),
    "an encoded line break in an upstream": (
        sized(target=b"/r/a/openai%0d%0aX:y/v1/chat/completions"), 0),
    "a fragment": (sized(target=CALL + b"#@elsewhere"), None),
    "HTTP/0.9": (b"GET " + CALL + b"\r\n", 0),
    "HTTP/1.0 with chunks": (chunked(body=CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"), None),
    "HTTP/1.9": (sized().replace(b"HTTP/1.1", b"HTTP/1.9"), None),
    "HTTP/2.0": (sized().replace(b"HTTP/1.1", b"HTTP/2.0"), None),
    "http/1.1": (sized().replace(b"HTTP/1.1", b"http/1.1"), 0),
    "HTTP/2's preface": (PRI + HIDDEN, 0),
    "a method with a blank": (sized().replace(b"POST ", b"POST  "), None),
    "CONNECT": (sized(target=b"elsewhere.example:443").replace(b"POST", b"CONNECT"), 0),
    "OPTIONS *": (sized(target=b"*").replace(b"POST", b"OPTIONS"), 0),

    # headers that speak of other headers
    "Connection names the length": (post(b"Connection: close, content-length",
                                         b"Content-Length: %d" % len(BEHIND), body=BEHIND), 1),
    "Connection names the coding": (post(b"Connection: close, transfer-encoding",
                                         b"Transfer-Encoding: chunked",
                                         body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(BEHIND), BEHIND)), 1),
    "Connection names the host": (sized(b"Connection: host"), 1),
    "an upgrade to HTTP/2": (sized(b"Connection: upgrade, http2-settings", b"Upgrade: h2c",
                                   b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), 1),
    "an upgrade to anything": (post(b"Connection: upgrade, close", b"Upgrade: tcp",
                                    b"Content-Length: 2", body=b"{}"), 1),
    "an upgrade with chunks": (chunked(b"Connection: upgrade", b"Upgrade: h2c", body=CHUNKS), 1),
    "an upgrade with a request inside": (post(b"Connection: upgrade, close", b"Upgrade: h2c",
                                              b"Content-Length: %d" % len(HIDDEN),
                                              body=HIDDEN), 1),
    "pipelined behind an upgrade": (post(b"Connection: upgrade", b"Upgrade: h2c",
                                         b"Content-Length: 2", body=b"{}") + sized(), 2),
    "an upgrade behind an upgrade": (post(b"Connection: upgrade", b"Upgrade: h2c",
                                          b"Content-Length: 2", body=b"{}") * 2 + sized(), 3),
    "an upgrade without a body": (post(b"Connection: upgrade", b"Upgrade: h2c").replace(
        b"POST", b"GET") + sized(), 2),
    "Expect, and the body at once": (sized(b"Expect: 100-continue"), 1),
    "Expect something else": (sized(b"Expect: nonsense"), None),
    "TE: trailers": (sized(b"TE: trailers, chunked"), 1),
    "two hosts": (sized(b"Host: elsewhere.example"), 1),
    "no host": (post(b"Content-Length: 2", b"Connection: close", body=b"{}", host=b""), None),
    "an absolute form": (sized(target=b"http://elsewhere.example" + CALL), 1),

    # bodies where one expects none
    "GET with a body": (sized(body=BEHIND).replace(b"POST", b"GET", 1), 1),
    "HEAD with a body": (sized(body=BEHIND).replace(b"POST", b"HEAD", 1), 1),
    "DELETE with chunks": (chunked(body=CHUNKS).replace(b"POST", b"DELETE", 1), 1),
    "a body behind none": (post(b"Content-Length: 0", b"Connection: close", body=BEHIND), 1),
    "a body without a frame": (post(b"Connection: close", body=BEHIND), 1),
    "a body shorter than its length": (post(b"Content-Length: 50", body=b"{}"), 0),
    "a body longer than its length": (post(b"Content-Length: 2", b"Connection: close",
                                           body=b"{}" + BEHIND), 1),

    # one behind the other, as they may be
    "pipelined": (sized().replace(b"Connection: close\r\n", b"") + sized(), 2),
    "pipelined behind chunks": (chunked(body=CHUNKS).replace(b"Connection: close\r\n", b"")
                                + sized(), 2),
    "pipelined behind a refusal": (post(b"Content-Length: 2", body=b"{}",
                                        target=b"/r/a/nobody/v1/x") + sized(), 1),
}
# fmt: on
# One of each kind.
KNOWN = (
    "CL.TE",
    "TE.CL",
    "two lengths that differ",
    "coding b' xchunked'",
    "a request inside a chunk",
    "an extension with a line feed",
    "a line feed in a header",
    "a carriage return in the path",
    "Connection names the length",
    "an upgrade with a request inside",
    "a body without a frame",
    "pipelined behind a refusal",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    service: Service
    provider: StrictProvider

    def write(self, *parts: bytes) -> bytes:
        """Write bytes, a moment apart; what comes back until the server closes."""
        with self._writing(*parts) as connection:
            return _rest(connection)

    def tempt(self, *parts: bytes) -> None:
        """Write bytes to which no end may come; return when nothing more becomes of them.

        Whatever the server makes of them it has begun before it answers the call behind them.
        """
        with self._writing(*parts) as connection:
            self.goes_on()
            with contextlib.suppress(OSError):  # it has closed before
                connection.shutdown(socket.SHUT_WR)
            _rest(connection)

    def goes_on(self) -> None:
        """Have a call served as if nothing had been."""
        assert self.write(sized()).startswith(b"HTTP/1.1 200 ")

    @contextlib.contextmanager
    def _writing(self, *parts: bytes) -> Iterator[socket.socket]:
        url = self.service.http.base_url
        with socket.create_connection((url.host, url.port or 80), PATIENCE_S) as connection:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.005 if len(parts) > 1 else 0)
            yield connection


def _rest(connection: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65536):
            got += chunk
    return got


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("smuggling")
    with (
        StrictProvider() as provider,
        serving(home, UPSTREAM_OPENAI=provider.url) as service,
    ):
        yield Stage(service, provider)


def in_two(wire: bytes) -> tuple[bytes, ...]:
    """Head and body as two segments."""
    head, end, body = wire.partition(b"\r\n\r\n")
    return (head + end, body) if body else (wire,)


@pytest.mark.slow
@each("case, whole", itertools.product(CASES, [True, False]))
def test_the_provider_reads_the_agents_calls_and_no_others(
    stage: Stage, case: str, whole: bool
) -> None:
    _only_its_calls_are_read(stage, case, whole)


@each("case", KNOWN)
def test_what_is_known_to_smuggle_smuggles_nothing(stage: Stage, case: str) -> None:
    _only_its_calls_are_read(stage, case, whole=True)


def _only_its_calls_are_read(stage: Stage, case: str, whole: bool) -> None:
    wire, calls = CASES[case]
    parts = (wire,) if whole else in_two(wire)
    stage.provider.heard()
    if calls:
        stage.write(*parts)
        expected = [calls]
    else:
        stage.tempt(*parts)
        expected = [1, 2] if calls is None else [1]  # with the one behind it
    heard = stage.provider.heard()
    assert len(heard) in expected, heard
    for one in heard:
        assert one.target.startswith(b"/v1/chat/completions"), "not what was hidden"
        assert one.all(b"host") == [stage.provider.url.removeprefix("http://").encode()]
        assert not HOP_BY_HOP & {name for name, _ in one.headers}
    stage.goes_on()
    assert stage.provider.heard()[-1].body == b"{}"
    assert stage.service.http.get("/rollouts/smuggled/verdict").status_code == 404


def test_what_the_strict_provider_must_not_be_told_is_noticed() -> None:
    """The judge of these tests, judged."""
    for wire in (
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nx: y\nz: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nx : y\r\n\r\n",
        b"POST /a b HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST http://x/ HTTP/1.1\r\nhost: x\r\n\r\n",
    ):
        with pytest.raises(Misread):
            read(wire)
    whole = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}GET"
    assert read(whole) == (Heard(b"/", ((b"host", b"x"), (b"content-length", b"2")), b"{}"), b"GET")
    assert read(whole[:-4]) is None
