"""Requests as bytes: headers unchanged, bodies framed, nothing smuggled."""

from __future__ import annotations

from collections.abc import AsyncIterable

import pytest

from proxy.outbound import errors
from proxy.outbound.request import ArrivingBody, SerializedRequest, compose
from proxy.routing.headers import Pairs
from tests.proxy.outbound.client import Parts, request

URL = "http://h/p?q=%2F"


def composed(
    method: str = "POST",
    body: bytes | AsyncIterable[bytes] = b"",
    headers: Pairs | None = None,
    target: bytes | None = None,
) -> SerializedRequest:
    return compose(request(URL, method, body, headers or [], target=target).request)


def test_headers_keep_their_order_spelling_and_doubles() -> None:
    headers = [(b"Host", b"x"), (b"X-b", b"1"), (b"x-A", b"\xe9"), (b"X-b", b"2")]
    message = composed("GET", headers=headers)
    assert message.head == (
        b"GET /p?q=%2F HTTP/1.1\r\nHost: x\r\nX-b: 1\r\nx-A: \xe9\r\nX-b: 2\r\n\r\n"
    )


def test_the_raw_target_is_sent_as_it_is() -> None:
    assert composed("GET", target=b"//a%2fb/../c?").head.startswith(b"GET //a%2fb/../c? HTTP")


def test_a_body_gets_the_length_its_head_lacks() -> None:
    message = composed(body=b"{}")
    assert message.head.endswith(b"\r\ncontent-length: 2\r\n\r\n")
    assert message.body == b"{}"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_no_body_is_said_where_one_is_expected(method: str) -> None:
    assert b"content-length: 0" in composed(method).head


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_no_body_is_not_mentioned_elsewhere(method: str) -> None:
    assert b"content-length" not in composed(method).head


def test_a_length_that_is_there_is_not_said_twice() -> None:
    head = composed(body=b"{}", headers=[(b"CONTENT-Length", b"2")]).head
    assert head.lower().count(b"content-length") == 1


def test_a_body_in_memory_is_one_chunk_where_its_head_says_so() -> None:
    said = [(b"Transfer-Encoding", b"chunked")]
    assert composed(body=b"abc", headers=said).body == b"3\r\nabc\r\n0\r\n\r\n"
    assert composed(headers=said).body == b"0\r\n\r\n"


def test_a_body_still_arriving_is_chunked_unless_its_length_is_known() -> None:
    unknown = composed(body=Parts(b"abc"))
    assert b"\r\ntransfer-encoding: chunked\r\n" in unknown.head
    known = composed(body=Parts(b"abc"), headers=[(b"content-length", b"3")])
    assert b"transfer-encoding" not in known.head
    assert known.arriving is not None
    assert known.arriving.add(b"abc", True) == b"abc"
    assert known.arriving.complete


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x", b"a\r\nsmuggled: 1")],
        [(b"x", b"a\nsmuggled: 1")],
        [(b"x", b"a\rb")],
        [(b"x\r\nsmuggled", b"1")],
        [(b"content-length", b"3")],
        [(b"content-length", b"2"), (b"content-length", b"2")],
        [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")],
        [(b"content-length", b"+2")],
        [(b"content-length", b"two")],
    ],
)
def test_a_head_that_says_two_things_is_refused(headers: Pairs) -> None:
    with pytest.raises(errors.LocalProtocolError):
        composed(body=b"{}", headers=headers)


@pytest.mark.parametrize("target", [b"/ HTTP/1.1\r\nx: y", b"/a b", b"/a\nb"])
def test_a_target_that_ends_its_line_is_refused(target: bytes) -> None:
    with pytest.raises(errors.LocalProtocolError):
        composed("GET", target=target)


def test_parts_of_unknown_length_are_sent_as_chunks() -> None:
    body = ArrivingBody(None)
    assert [body.add(b"abc", True), body.add(b"", True), body.add(b"de", False)] == [
        b"3\r\nabc\r\n", b"", b"2\r\nde\r\n0\r\n\r\n",
    ]  # fmt: skip
    assert body.complete
    assert body.kept is not None
    assert b"".join(body.kept) == b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@pytest.mark.parametrize("parts", [[b"abcd"], [b"ab", b"cd"], [b"ab"]])
def test_a_body_of_another_length_than_its_head_says_is_refused(parts: list[bytes]) -> None:
    body = ArrivingBody(3)
    with pytest.raises(errors.LocalProtocolError):
        for number, part in enumerate(parts, 1):
            body.add(part, number < len(parts))


def test_what_was_sent_is_kept_up_to_a_bound() -> None:
    body = ArrivingBody(None)
    body.add(b"x" * 4 * 1024 * 1024, True)
    body.sent()
    assert body.kept is not None
    body.add(b"x", True)
    body.sent()
    assert body.kept is None
    assert not SerializedRequest(b"", b"", False, body).repeatable
