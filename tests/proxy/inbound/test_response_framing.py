"""Responses as bytes: a head, then a body by length or in chunks."""

from __future__ import annotations

import pytest

from proxy.inbound.response import ResponseFraming


def framing(*, bodiless: bool = False, keep_alive: bool = True) -> ResponseFraming:
    return ResponseFraming(bodiless=bodiless, keep_alive=keep_alive)


def test_a_body_of_known_length_is_written_as_it_is() -> None:
    response = framing()
    assert response.head(200, [(b"content-length", b"3")]) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    )
    assert [response.part(b"ab", True), response.part(b"c", False)] == [b"ab", b"c"]


def test_a_body_of_unknown_length_is_chunked() -> None:
    response = framing()
    assert response.head(200, []).endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")
    parts = [response.part(b"ab", True), response.part(b"", True), response.part(b"c", False)]
    assert parts == [b"2\r\nab\r\n", b"", b"1\r\nc\r\n0\r\n\r\n"]


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_is_not_chunked(status: int) -> None:
    assert b"transfer-encoding" not in framing().head(status, [])


def test_a_head_request_gets_the_length_and_no_body() -> None:
    response = framing(bodiless=True)
    assert b"content-length: 3" in response.head(200, [(b"content-length", b"3")])
    assert response.part(b"abc", False) == b""


def test_a_connection_that_ends_says_so() -> None:
    assert b"\r\nconnection: close\r\n" in framing(keep_alive=False).head(204, [])
    response = framing()
    response.head(204, [(b"connection", b"Close")])
    assert not response.keep_alive


@pytest.mark.parametrize("body", [b"ab", b"abcd"], ids=["shorter", "longer"])
def test_a_body_that_breaks_its_length_is_not_written(body: bytes) -> None:
    response = framing()
    response.head(200, [(b"content-length", b"3")])
    with pytest.raises(RuntimeError, match="than its content-length"):
        response.part(body, False)


def test_a_line_break_in_a_header_is_not_written() -> None:
    with pytest.raises(RuntimeError, match="line break"):
        framing().head(200, [(b"x-a", b"b\r\nx-smuggled: 1")])
