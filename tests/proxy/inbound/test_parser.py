"""A head that comes again is known by its bytes, and read as httptools reads it."""
# ruff: noqa: SLF001
# Private: what a parser has counted and remembers.

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.inbound import parser as request_parser
from proxy.inbound.parser import RepeatedHead, RequestParser, repeated_head, request_head
from tests.proxy.inbound.test_request_parser import Requests

HEADERS = [(b"host", b"x"), (b"content-length", b"2"), (b"a", b"1")]
WRITTEN = b"POST /r/a?q HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nA: 1\r\n\r\n"


def known(written: bytes = WRITTEN, headers: list[tuple[bytes, bytes]] = HEADERS) -> RepeatedHead:
    found = repeated_head(request_head(b"POST", b"/r/a?q", "1.1", headers), written)
    assert found is not None
    return found


@pytest.mark.parametrize("body", [b"{}", b"{", b""], ids=["whole", "begun", "none of it"])
def test_a_head_is_known_again_with_what_came_of_its_body(body: bytes) -> None:
    head = known()
    assert head.body_in(WRITTEN + body) == body
    assert (head.length, head.head.headers) == (2, HEADERS)


def test_another_length_is_another_head_that_says_the_same() -> None:
    head = known()
    first = head.head
    assert head.body_in(WRITTEN.replace(b": 2", b": 12") + b"{}") == b"{}"
    assert (head.length, head.head.headers[1]) == (12, (b"content-length", b"12"))
    assert first.headers == HEADERS, "the request before it is still being answered"
    assert head.head[:5] == first[:5]


@pytest.mark.parametrize(
    "data",
    [
        WRITTEN[:-1],
        WRITTEN + b"{}P",
        WRITTEN.replace(b"A: 1", b"A: 2"),
        WRITTEN.replace(b"POST", b"PUT"),
        WRITTEN.replace(b": 2", b": 02"),
        WRITTEN.replace(b": 2", b": +2"),
        WRITTEN.replace(b": 2", b": 2, 2"),
        WRITTEN.replace(b": 2", b": "),
        WRITTEN.replace(b": 2", b": 2\r\nB: 2"),
        WRITTEN.replace(b": 2", b": 2222222222222222"),
        WRITTEN.replace(b"Length: 2", "Length: ²".encode()),
        b"",
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert known().body_in(data) is None


@pytest.mark.parametrize(
    ("written", "headers"),
    [
        (WRITTEN, [*HEADERS, (b"transfer-encoding", b"chunked")]),
        (WRITTEN, [*HEADERS, (b"expect", b"100-continue")]),
        (WRITTEN, [*HEADERS, (b"upgrade", b"h2c")]),
        (WRITTEN, [*HEADERS, (b"content-length", b"2")]),
        (WRITTEN, [(b"host", b"x")]),
        (WRITTEN, [(b"content-length", b"3")]),
        (WRITTEN.replace(b": 2", b": 02"), [(b"content-length", b"02")]),
        (WRITTEN[:-1], HEADERS),
        (b"\r\n\r\n" + WRITTEN, HEADERS),
        (WRITTEN.replace(b"A: 1", b"A: %b" % (b"1" * 10_000)), HEADERS),
    ],
    ids=["chunked", "expects", "upgrades", "two lengths", "none", "not its own", "written oddly",
         "not whole", "behind something", "long"],
)  # fmt: skip
def test_a_head_that_is_not_plain_is_not_remembered(
    written: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    assert repeated_head(request_head(b"POST", b"/r/a?q", "1.1", headers), written) is None


def told(stream: bytes, cuts: list[int], *, remembers: bool) -> Requests:
    """What a parser hands on of bytes that come in these parts."""
    requests = Requests()
    parser = RequestParser(requests)
    if not remembers:
        parser._heads = 1000
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(places):
        if start < end:
            parser.feed(stream[start:end])
    parser.close()
    return requests


BODIES = st.sampled_from([b"", b"{}", b"{}" * 6, b"\r\n\r\n", WRITTEN, b"0\r\n\r\n"])
CHUNKED = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nB: 1\r\n\r\n"
H2C = b"POST /h HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\n{}"


def sized(body: bytes) -> bytes:
    return WRITTEN.replace(b": 2", b": %d" % len(body)) + body


@given(
    st.lists(
        st.one_of(
            BODIES.map(sized),
            st.sampled_from([CHUNKED, H2C, b"\r\n", WRITTEN.replace(b"A: 1", b"A: 2") + b"{}"]),
        ),
        max_size=10,
    ),
    st.lists(st.integers(min_value=0, max_value=10_000), max_size=12),
    st.booleans(),
)
def test_a_parser_that_remembers_hands_on_the_same(
    stream: list[bytes], cuts: list[int], apart: bool
) -> None:
    if apart:  # as agents send: one request, its answer, the next
        ends = [sum(map(len, stream[: at + 1])) for at in range(len(stream))]
        cuts = [*cuts[:2], *ends]
    whole = b"".join(stream)
    judge = told(whole, cuts, remembers=False)
    found = told(whole, cuts, remembers=True)
    assert judge.repeated == 0
    assert (found.heads, found.headers, found.bodies, found.ended) == (
        judge.heads, judge.headers, judge.bodies, judge.ended,
    )  # fmt: skip


def test_heads_are_remembered_from_the_second_request_on() -> None:
    stream = [sized(body) for body in (b"{}", b"{}", b"{ }", b"", b"{}")]
    found = told(b"".join(stream), [sum(map(len, stream[:at])) for at in range(5)], remembers=True)
    assert (found.repeated, found.ended) == (3, 5)


def test_a_client_that_never_repeats_is_soon_no_longer_remembered() -> None:
    stream = [
        WRITTEN.replace(b"A: 1", b"A: %d" % at) + b"{}"
        for at in [*range(request_parser._REMEMBERED_HEADS.stop + 3)] * 2
    ]
    cuts = [sum(map(len, stream[:at])) for at in range(len(stream))]
    found = told(b"".join(stream), cuts, remembers=True)
    assert (found.repeated, found.ended) == (1, len(stream)), "the last that was remembered"
