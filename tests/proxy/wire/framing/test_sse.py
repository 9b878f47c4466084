from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import SseEvent, SseFeeder, Unreadable
from tests.proxy.wire.chunks import cut, places
from tests.tables import each

LIMIT = 1_000_000


def events(data: bytes, pieces: list[bytes] | None = None) -> list[SseEvent]:
    feeder = SseFeeder(LIMIT)
    return [e for piece in (pieces or [data]) for e in feeder.feed(piece)] + feeder.remains()


def test_an_event_is_its_name_and_its_data() -> None:
    assert events(b"event: ping\ndata: {}\n\n") == [SseEvent("ping", b"{}")]


def test_data_lines_are_joined_by_lf() -> None:
    assert events(b"data: a\ndata: b\ndata:\ndata:  c\n\n") == [SseEvent(None, b"a\nb\n\n c")]


def test_the_name_may_follow_the_data() -> None:
    assert events(b"data: a\nevent: late\n\n") == [SseEvent("late", b"a")]


def test_comments_ids_and_retries_say_nothing() -> None:
    assert events(b": hi\n\nid: 4\nretry: 10\n:\ndata: a\n\n: bye\n\n") == [SseEvent(None, b"a")]


def test_an_error_field_is_an_event_named_error() -> None:
    assert events(b'error: {"code":500}\n\n') == [SseEvent("error", b'{"code":500}')]


def test_an_event_without_data_is_none_and_its_name_does_not_linger() -> None:
    assert events(b"event: ping\n\ndata: a\n\n") == [SseEvent(None, b"a")]


def test_a_byte_order_mark_is_no_part_of_the_first_line_only() -> None:
    bom = b"\xef\xbb\xbf"
    assert events(bom + b"data: " + bom + b"a\n\n") == [SseEvent(None, bom + b"a")]


@each("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_lf_crlf_or_cr(end: bytes) -> None:
    data = end.join([b"event: a", b"data: 1", b"", b"data: 2", b"", b""])
    whole = [SseEvent("a", b"1"), SseEvent(None, b"2")]
    assert events(data) == whole
    assert events(data, [data[i : i + 1] for i in range(len(data))]) == whole


def test_a_cr_at_a_chunk_s_end_completes_the_event_at_once() -> None:
    feeder = SseFeeder(LIMIT)
    assert feeder.feed(b"data: a\r\r") == [SseEvent(None, b"a")]
    assert feeder.feed(b"\ndata: b\r\n\r\n") == [SseEvent(None, b"b")]


def test_the_last_event_may_lack_its_blank_line() -> None:
    assert events(b"data: [DONE]") == [SseEvent(None, b"[DONE]")]


def test_lines_that_are_no_sse_are_kept_for_the_end() -> None:
    assert events(b'data: a\n\n{\n  "error": 1\n}\n') == [
        SseEvent(None, b"a"),
        SseEvent(None, b'{\n  "error": 1\n}'),
    ]


def test_asking_what_remains_changes_nothing() -> None:
    feeder = SseFeeder(LIMIT)
    feeder.feed(b"data: a\nda")
    assert feeder.remains() == feeder.remains()
    assert feeder.feed(b"ta: b\n\n") == [SseEvent(None, b"a\nb")]


def test_it_is_at_rest_between_events_only() -> None:
    feeder = SseFeeder(LIMIT)
    for chunk, rest in ((b"data: a\n\n", True), (b"data: b\n", False), (b"\n", True),
                        (b"d", False), (b"ata: c\n\n", True), (b"event: x\n", False),
                        (b"\n", True), (b"data: d\r\n\r", False), (b"\n", True)):  # fmt: skip
        feeder.feed(chunk)
        assert feeder.at_rest is rest, chunk


def test_a_line_over_the_limit_is_refused_and_a_line_at_it_is_not() -> None:
    assert len(SseFeeder(100).feed(b"data: " + b"x" * 94 + b"\n\n")) == 1
    with pytest.raises(Unreadable, match="100 bytes"):
        SseFeeder(100).feed(b"data: " + b"x" * 95)


def test_many_short_data_lines_of_one_event_are_refused_too() -> None:
    with pytest.raises(Unreadable):
        SseFeeder(100).feed(b"data: 1234567890\n" * 11)


def test_a_line_of_ten_megabytes_in_small_chunks_takes_no_quadratic_time() -> None:
    feeder = SseFeeder(16_777_216)
    feeder.feed(b"data: ")
    began = time.thread_time()
    for _ in range(2_500):
        feeder.feed(b"x" * 4_000)
    assert [len(e.data) for e in feeder.feed(b"\n\n")] == [10_000_000]
    assert time.thread_time() - began < 1.0


names = st.sampled_from([None, "ping", "error", "response.completed"])
payloads = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)


@given(
    st.lists(st.tuples(names, payloads), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), places
)
def test_what_was_written_is_read_however_it_is_cut(
    written: list[tuple[str | None, str]], end: str, where: list[int]
) -> None:
    data = "".join(
        (f"event: {name}{end}" if name else "") + f"data: {text}{end}{end}"
        for name, text in written
    ).encode()
    assert events(data, cut(data, where)) == [SseEvent(n, t.encode()) for n, t in written]


@given(st.binary(max_size=400), places)
def test_random_bytes_raise_nothing_and_cutting_changes_nothing(
    data: bytes, where: list[int]
) -> None:
    assert events(data, cut(data, where)) == events(data)
