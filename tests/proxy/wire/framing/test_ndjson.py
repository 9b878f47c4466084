from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import NdjsonFeeder, Unreadable
from tests.proxy.wire.chunks import cut, places


def lines(pieces: list[bytes], limit: int = 10_000) -> list[bytes]:
    feeder = NdjsonFeeder(limit)
    return [line for piece in pieces for line in feeder.feed(piece)] + feeder.remains()


def test_each_line_is_a_document_and_blank_ones_are_none() -> None:
    assert lines([b'{"a":1}\n\n  \r\n{"b":2}\r\n']) == [b'{"a":1}', b'{"b":2}']


def test_the_last_line_may_lack_its_end() -> None:
    feeder = NdjsonFeeder(100)
    assert feeder.feed(b"1\n2") == [b"1"]
    assert feeder.remains() == feeder.remains() == [b"2"]
    assert feeder.feed(b"3\n") == [b"23"]


def test_a_line_over_the_limit_is_refused() -> None:
    assert lines([b"x" * 10], limit=10) == [b"x" * 10]
    with pytest.raises(Unreadable, match="10 bytes"):
        lines([b"x" * 6, b"x" * 5], limit=10)


def test_lines_are_counted_one_by_one() -> None:
    assert lines([b"x" * 9, b"\n" + b"y" * 9, b"\n"], limit=10) == [b"x" * 9, b"y" * 9]


@given(st.binary(max_size=300), places)
def test_cutting_changes_nothing(data: bytes, where: list[int]) -> None:
    expected = [line.strip() for line in data.split(b"\n") if line.strip()]
    assert lines(cut(data, where)) == expected
