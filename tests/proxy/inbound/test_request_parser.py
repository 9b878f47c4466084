"""Requests out of bytes, whole and byte by byte, and what follows a declined upgrade."""

from __future__ import annotations

import httptools
import pytest

from proxy.inbound.parser import RepeatedHead, RequestHead, RequestParser
from proxy.routing.headers import Pairs

POST = b"POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n"
WEBSOCKET = b"GET /r HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
H2C = b"POST /h2 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"


class Requests:
    """What a parser hands on."""

    def __init__(self) -> None:
        self.heads: list[tuple[bytes, bytes, str, bool]] = []
        self.headers: list[Pairs] = []
        self.bodies: list[bytes] = []
        self.ended = 0
        self.repeated = 0

    def on_request(self, head: RequestHead, keep_alive: bool) -> None:
        url = head.raw_path + b"?" * bool(head.query) + head.query
        self.heads.append((head.method.encode(), url, head.version, keep_alive))
        self.headers.append(head.headers)
        self.bodies.append(b"")

    def on_repeated(self, head: RepeatedHead, body: bytes, more_body: bool) -> None:
        self.on_request(head.head, keep_alive=True)
        self.repeated += 1
        if body:
            self.on_body(body)
        if not more_body:
            self.on_request_end()

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body

    def on_request_end(self) -> None:
        self.ended += 1


def parsed(data: bytes, *, step: int | None = None) -> Requests:
    requests = Requests()
    parser = RequestParser(requests)
    for start in range(0, len(data), step or len(data)):
        assert not parser.feed(data[start : start + (step or len(data))])
    parser.close()
    return requests


@pytest.mark.parametrize("step", [None, 1], ids=["whole", "byte by byte"])
def test_requests_on_one_connection_are_read_one_after_the_other(step: int | None) -> None:
    requests = parsed(POST * 3, step=step)
    assert requests.heads == [(b"POST", b"/a?b", "1.1", True)] * 3
    assert requests.headers[0] == [(b"host", b"x"), (b"content-length", b"2")]
    assert requests.bodies == [b"{}"] * 3
    assert requests.ended == 3


def test_http_1_0_is_not_kept_alive() -> None:
    (head,) = parsed(POST.replace(b"1.1", b"1.0")).heads
    assert head == (b"POST", b"/a?b", "1.0", False)


def test_a_trailer_is_dropped() -> None:
    requests = parsed(b"POST / HTTP/1.1\r\n" + CHUNKED)
    assert requests.headers == [[(b"transfer-encoding", b"chunked")]]
    assert requests.bodies == [b"{}"]


@pytest.mark.parametrize(
    "body", [b"Content-Length: 2\r\n\r\n{}", CHUNKED], ids=["length", "chunks"]
)
def test_a_declined_upgrade_is_a_plain_request_with_its_body(body: bytes) -> None:
    requests = parsed(H2C + body + POST + H2C + body)
    assert [url for _, url, _, _ in requests.heads] == [b"/h2", b"/a?b", b"/h2"]
    assert requests.bodies == [b"{}"] * 3
    assert requests.ended == 3


def test_a_websockets_upgrade_request_is_given_back_whole() -> None:
    requests = Requests()
    parser = RequestParser(requests)
    assert parser.feed(WEBSOCKET)
    lines = b"connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\r\n"
    assert parser.upgrade_request() == b"GET /r HTTP/1.1\r\n" + lines
    assert requests.heads == []


def test_the_bytes_of_an_unfinished_head_are_counted() -> None:
    parser = RequestParser(Requests())
    parser.feed(b"GET / HTTP/1.1\r\n")
    parser.feed(b"x-a: b\r\n")
    assert parser.head_bytes == 24
    parser.feed(b"\r\n")
    assert parser.head_bytes is None


def test_the_bytes_of_a_trailer_are_counted_and_those_of_a_body_are_not() -> None:
    parser = RequestParser(Requests())
    parser.feed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n")
    for _ in range(8):
        parser.feed(b"x" * 0x10000)
        assert parser.head_bytes is None
    parser.feed(b"\r\n0\r\n")
    before = parser.head_bytes
    assert before is not None and before < 0  # the read that the body's end came with
    for _ in range(8):
        parser.feed(b"x-t: " + b"y" * 0x10000 + b"\r\n")
    assert parser.head_bytes == before + 8 * (0x10000 + 7)
    parser.feed(b"\r\n")
    assert parser.head_bytes is None


def test_what_is_no_http_is_an_error() -> None:
    with pytest.raises(httptools.HttpParserError):
        RequestParser(Requests()).feed(b"\x00\x01\r\n\r\n")
