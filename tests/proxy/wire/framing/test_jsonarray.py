from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import JsonArrayFeeder, Unreadable
from tests.proxy.wire.chunks import cut, places


def elements(pieces: list[bytes], limit: int = 100_000) -> list[object]:
    feeder = JsonArrayFeeder(limit)
    return [json.loads(one) for piece in pieces for one in feeder.feed(piece)]


def test_an_element_comes_out_as_it_closes() -> None:
    feeder = JsonArrayFeeder(1_000)
    assert feeder.feed(b'[{"a":') == []
    assert feeder.feed(b" 1}") == [b'{"a": 1}']
    assert feeder.feed(b',\r\n{"b":2}]') == [b'{"b":2}']


def test_it_is_closed_by_its_own_bracket_only() -> None:
    feeder = JsonArrayFeeder(1_000)
    for piece, closed in ((b" ", False), (b"[", False), (b'{"a": []}', False), (b"\n]", True)):
        feeder.feed(piece)
        assert feeder.closed is closed


def test_brackets_and_quotes_inside_strings_are_text() -> None:
    data = json.dumps([{"t": 'a ]}[{" \\'}, {"t": '\\\\"'}]).encode()
    assert elements([data]) == [{"t": 'a ]}[{" \\'}, {"t": '\\\\"'}]


def test_an_element_over_the_limit_is_refused_but_a_long_array_is_not() -> None:
    with pytest.raises(Unreadable, match="50 bytes"):
        elements([b'[{"a":"' + b"x" * 60], limit=50)
    assert len(elements([b"[", b'{"a":1},' * 1_000, b"{}]"], limit=50)) == 1_001


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(st.dictionaries(st.text(), json_values, max_size=3), max_size=5)


@given(objects, st.sampled_from([None, 2]), st.booleans(), places)
def test_what_was_written_is_read_however_it_is_cut(
    written: list[object], indent: int | None, ascii_: bool, where: list[int]
) -> None:
    data = json.dumps(written, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    feeder = JsonArrayFeeder(100_000)
    found = [one for piece in cut(data, where) for one in feeder.feed(piece)]
    assert [json.loads(one.decode("utf-8", "surrogatepass")) for one in found] == written


@given(st.binary(max_size=300), places)
def test_random_bytes_raise_nothing_and_cutting_changes_nothing(
    data: bytes, where: list[int]
) -> None:
    def found(pieces: list[bytes]) -> list[bytes]:
        feeder = JsonArrayFeeder(100_000)
        return [one for piece in pieces for one in feeder.feed(piece)]

    assert found(cut(data, where)) == found([data])
