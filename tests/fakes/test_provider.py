"""The fake provider does on the wire what its scripts say.

A fake that lied would make every test beside it worthless.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.fakes import caller
from tests.fakes.provider import Answer, Cut, Framing, Hang, Pause, Provider, Wait, closed_port


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


def raw(provider: Provider, request: bytes) -> bytes:
    """Send bytes, return all that comes back until the end."""
    with _connected(provider) as sock:
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def _connected(provider: Provider) -> socket.socket:
    host, _, port = provider.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=300)


@pytest.mark.parametrize("framing", Framing)
def test_every_framing_carries_the_same_body(provider: Provider, framing: Framing) -> None:
    provider.plays(Answer(body=(b"one", b"two"), framing=framing))
    assert caller.get(provider.url).content == b"onetwo"


def test_a_request_is_kept_as_it_was_written(provider: Provider) -> None:
    provider.plays(Answer(framing=Framing.EOF))
    raw(provider, b"POST /a%2Fb?q HTTP/1.1\r\nX-Two: 1\r\nx-two: 2\r\ncontent-length: 2\r\n\r\nhi")
    (request,) = provider.requests
    assert (request.method, request.target, request.body) == ("POST", "/a%2Fb?q", b"hi")
    assert request.headers[:2] == (("X-Two", "1"), ("x-two", "2"))


def test_scripts_are_played_in_turn_and_the_last_one_stays(provider: Provider) -> None:
    provider.plays(Answer(status=429), Answer(status=200))
    assert [caller.get(provider.url).status_code for _ in range(3)] == [429, 200, 200]


def test_one_connection_serves_many_calls(provider: Provider) -> None:
    provider.plays(Answer(body=(b"x",)))
    with caller.Client() as client:
        assert [client.get(provider.url).content for _ in range(3)] == [b"x"] * 3
    assert provider.connections == 1


@pytest.mark.parametrize(
    ("reset", "error"), [(False, httpx.RemoteProtocolError), (True, httpx.ReadError)]
)
def test_a_cut_is_a_fin_or_a_reset(provider: Provider, reset: bool, error: type[Exception]) -> None:
    cut = Answer(body=(b"one", b"two"), framing=Framing.CHUNKED).stopping_after(
        1, Pause(0.05), Cut(reset)
    )
    provider.plays(cut)
    with pytest.raises(error):
        caller.get(provider.url)


def test_a_content_length_can_lie(provider: Provider) -> None:
    provider.plays(Answer(body=(b"short", Cut()), length=50))
    with pytest.raises(httpx.RemoteProtocolError):
        caller.get(provider.url)


def test_a_caller_that_leaves_is_noticed(provider: Provider) -> None:
    provider.plays(Answer(body=(b"one", Hang()), length=10))
    with caller.stream("GET", provider.url) as response:
        assert next(response.iter_raw()) == b"one"
    provider.wait_until_left()


def test_a_wait_lasts_until_the_test_says_so(provider: Provider) -> None:
    go = threading.Event()
    provider.plays(Answer(body=(b"one", Wait(go), b"two"), framing=Framing.CHUNKED))
    with caller.stream("GET", provider.url) as response:
        chunks = response.iter_raw()
        assert next(chunks) == b"one"
        go.set()
        assert b"".join(chunks) == b"two"


def test_a_head_has_a_length_and_no_body(provider: Provider) -> None:
    provider.plays(Answer(body=(b"12345",)))
    answer = raw(provider, b"HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"content-length: 5\r\n\r\n" in answer
    assert b"12345" not in answer


def test_a_continue_comes_before_the_body_and_interim_answers_before_the_answer(
    provider: Provider,
) -> None:
    provider.plays(Answer(interim=((103, (("link", "</a>"),)),), body=(b"x",), framing=Framing.EOF))
    with _connected(provider) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert sock.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hi")
        rest = b"".join(iter(lambda: sock.recv(1024), b""))
    assert rest.startswith(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_an_early_answer_does_not_wait_for_the_body(provider: Provider) -> None:
    provider.plays(Answer(status=413, early=True))
    with _connected(provider) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
        assert sock.recv(1024).startswith(b"HTTP/1.1 413 ")


def test_raw_steps_need_no_http(provider: Provider) -> None:
    provider.plays((b"nonsense", Cut()))
    with pytest.raises(httpx.RemoteProtocolError):
        caller.get(provider.url)


def test_nobody_listens_on_a_closed_port_and_no_other_is_given_it() -> None:
    port = closed_port()
    with pytest.raises(httpx.ConnectError):
        caller.get(f"http://127.0.0.1:{port}")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)):
        socket.create_connection(("127.0.0.1", port)).close()
