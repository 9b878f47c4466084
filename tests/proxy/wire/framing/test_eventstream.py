from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import EventStreamFeeder, EventStreamMessage, Unreadable
from tests.proxy.wire.chunks import cut, places
from tests.proxy.wire.samples import frame
from tests.tables import each


def messages(pieces: list[bytes], limit: int = 1_000_000) -> list[EventStreamMessage]:
    feeder = EventStreamFeeder(limit)
    return [message for piece in pieces for message in feeder.feed(piece)]


def raw(headers: bytes, payload: bytes = b"") -> bytes:
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return head + struct.pack(">I", zlib.crc32(head))


def test_a_message_is_its_headers_and_its_payload() -> None:
    assert messages([frame(b"{}", event_type="metadata", message_type="event")]) == [
        EventStreamMessage({":event-type": "metadata", ":message-type": "event"}, b"{}")
    ]


def test_headers_of_every_type_are_stepped_over() -> None:
    others = b"".join(
        b"\x01" + bytes([97 + kind]) + bytes([kind]) + b"\x00" * size
        for kind, size in {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}.items()
    )
    others += b"\x01z\x06\x00\x03abc"
    assert messages([raw(others + b"\x01s\x07\x00\x02ok", b"x")]) == [
        EventStreamMessage({"s": "ok"}, b"x")
    ]


@each("place", [0, 4, 9, 14, 30, -2])
def test_a_flipped_bit_is_noticed(place: int) -> None:
    broken = bytearray(frame(b'{"a":1}', event_type="chunk"))
    broken[place] ^= 1
    with pytest.raises(Unreadable):
        messages([bytes(broken)])


def test_lengths_that_contradict_each_other_are_refused() -> None:
    prelude = struct.pack(">II", 20, 400)
    with pytest.raises(Unreadable, match="contradict"):
        messages([prelude + struct.pack(">I", zlib.crc32(prelude))])


@each("headers", [b"\x01s\x0b", b"\x01s\x07\xff\xffa", b"\x01s", b"\xffs"])
def test_headers_that_make_no_sense_are_refused(headers: bytes) -> None:
    with pytest.raises(Unreadable, match="header"):
        messages([raw(headers)])


def test_a_message_over_the_limit_is_refused_before_it_is_held() -> None:
    with pytest.raises(Unreadable, match="100 bytes"):
        messages([frame(b"x" * 200)[:12]], limit=100)


texts = st.text(max_size=20)


@given(st.lists(st.tuples(texts, st.binary(max_size=60)), max_size=6), places)
def test_what_was_written_is_read_however_it_is_cut(
    written: list[tuple[str, bytes]], where: list[int]
) -> None:
    data = b"".join(
        raw(b"\x02:e\x07" + struct.pack(">H", len(name.encode())) + name.encode(), payload)
        for name, payload in written
    )
    assert messages(cut(data, where)) == [EventStreamMessage({":e": n}, p) for n, p in written]


@given(st.binary(max_size=200))
def test_random_bytes_are_waited_for_or_refused(data: bytes) -> None:
    try:
        assert messages([data]) == []
    except Unreadable as deaf:
        assert str(deaf)
