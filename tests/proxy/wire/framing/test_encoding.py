from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import TURN_BYTES, Unreadable, decoder
from tests.proxy.wire.chunks import cut, places
from tests.tables import each

LIMIT = 64_000_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(data)


PACK: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress, b"deflate": zlib.compress, b"br": brotli.compress, b"zstd": zstd,
}  # fmt: skip


def plain(values: list[bytes], pieces: list[bytes], limit: int = LIMIT) -> bytes:
    undo = decoder(values, limit)
    assert undo is not None
    return b"".join(undo.feed(piece) for piece in pieces)


@each("values", [[], [b""], [b"identity"], [b"identity, identity"]])
def test_nothing_to_undo_is_no_decoder(values: list[bytes]) -> None:
    assert decoder(values, LIMIT) is None


@each("name", PACK)
def test_each_encoding_is_undone_byte_by_byte(name: bytes) -> None:
    said = b"What is said, said, said. " * 40
    packed = PACK[name](said)
    assert plain([name], [packed]) == said
    assert plain([name], [packed[i : i + 1] for i in range(len(packed))]) == said


def test_x_gzip_is_gzip_and_case_and_blanks_do_not_matter() -> None:
    assert plain([b" X-GZIP "], [gzip.compress(b"a")]) == b"a"


def test_deflate_may_lack_its_zlib_head() -> None:
    assert plain([b"deflate"], [raw_deflate(b"abc" * 50)]) == b"abc" * 50


@each("name", [b"gzip", b"zstd"])
def test_members_and_frames_follow_one_another(name: bytes) -> None:
    packed = PACK[name](b"one ") + PACK[name](b"two")
    assert plain([name], [packed]) == b"one two"
    assert plain([name], [packed[:7], packed[7:]]) == b"one two"


def test_encodings_are_undone_in_reverse_order_on_one_line_or_several() -> None:
    packed = brotli.compress(gzip.compress(b"hello"))
    assert plain([b"gzip, br"], [packed]) == b"hello"
    assert plain([b"gzip", b"br"], [packed]) == b"hello"


def test_five_may_be_chained_and_six_not() -> None:
    packed = b"deep"
    for _ in range(5):
        packed = gzip.compress(packed)
    assert plain([b"gzip"] * 5, [packed]) == b"deep"
    with pytest.raises(Unreadable, match="5 content encodings"):
        decoder([b"gzip"] * 6, LIMIT)


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(Unreadable, match="unknown"):
        decoder([b"gzip, lz4"], LIMIT)


@each("name", PACK)
def test_bytes_that_are_no_such_encoding_are_refused(name: bytes) -> None:
    with pytest.raises(Unreadable, match="not in its content encoding"):
        plain([name], [b'{"plain": "json"} that nobody has packed at all'])


# --- encodings that are stated falsely -----------------------------------------------------


def as_it_begins(values: list[bytes], pieces: list[bytes]) -> bytes:
    undo = decoder(values, LIMIT, trusting=False)
    assert undo is not None
    return b"".join(undo.feed(piece) for piece in pieces)


PLAIN = (
    b'{"choices": []}', b"[{}]", b"{}", b"\xef\xbb\xbf{}", b'\r\n\r\n{"error": 1}',
    b"<!doctype html>",
    b'data: {"a": 1}\n\n', b": keep\n\n", b"event: ping\n\n", b"upstream is not there",
    '{"错误": "余额不足"}'.encode(),
)  # fmt: skip


@pytest.mark.parametrize("name", [*PACK, b"UTF-8", b"aws-chunked", b"none", b"gzip, gzip"])
@pytest.mark.parametrize("body", PLAIN)
def test_what_begins_as_text_is_plain_whatever_is_stated(name: bytes, body: bytes) -> None:
    assert as_it_begins([name], [body]) == body
    assert as_it_begins([name], [body[i : i + 1] for i in range(len(body))]) == body


@pytest.mark.parametrize("stated", [b"gzip", b"br", b"zstd", b"deflate", b"UTF-8", b"gzip, gzip"])
@pytest.mark.parametrize("packed", [b"gzip", b"zstd"])
def test_what_begins_as_another_encoding_is_in_that(stated: bytes, packed: bytes) -> None:
    body = PACK[packed](b'{"model": "m"}' * 99)
    assert as_it_begins([stated], [body]) == b'{"model": "m"}' * 99
    assert as_it_begins([stated], [body[i : i + 1] for i in range(len(body))]) == (
        b'{"model": "m"}' * 99
    )


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("said", [b"", b"{}", b"What is said. " * 400])
def test_what_is_stated_rightly_is_undone_as_ever(name: bytes, said: bytes) -> None:
    packed = PACK[name](said)
    assert as_it_begins([name], [packed]) == said
    assert as_it_begins([b"UTF-8, ", name], [packed[:1], packed[1:]]) == said


def test_an_unknown_encoding_that_is_no_text_cannot_be_read() -> None:
    with pytest.raises(Unreadable, match="unknown"):
        as_it_begins([b"compress"], [b"\x1f\x9d\x90\x7b"])


@each("name", [b"gzip", b"UTF-8"])
def test_a_bomb_is_one_whatever_it_is_called(name: bytes) -> None:
    undo = decoder([name], 1_000_000, trusting=False)
    assert undo is not None
    with pytest.raises(Unreadable, match="1000000 bytes"):
        undo.feed(zstd(bytes(3_000_000)))


@each("name", PACK)
def test_a_bomb_is_refused_at_the_bound(name: bytes) -> None:
    bomb = PACK[name](bytes(3_000_000))
    with pytest.raises(Unreadable, match="1000000 bytes"):
        plain([name], [bomb], limit=1_000_000)


def test_a_bomb_below_the_bound_is_refused_by_its_ratio() -> None:
    with pytest.raises(Unreadable, match="times"):
        plain([b"zstd"], [zstd(bytes(40_000_000))])


@each("name", PACK)
def test_what_compresses_well_is_no_bomb(name: bytes) -> None:
    said = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 60_000
    assert len(plain([name], [PACK[name](said)])) == len(said)


@given(
    st.binary(max_size=500), st.lists(st.sampled_from(sorted(PACK)), min_size=1, max_size=3), places
)
def test_what_was_packed_is_read_however_it_is_cut(
    said: bytes, names: list[bytes], where: list[int]
) -> None:
    packed = said
    for name in names:
        packed = PACK[name](packed)
    assert plain([b", ".join(names)], cut(packed, where)) == said


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(name: bytes, data: bytes) -> None:
    undo = decoder([name], LIMIT)
    assert undo is not None
    try:
        assert isinstance(undo.feed(data), bytes)
    except Unreadable as deaf:
        assert str(deaf)


# --- turns ---------------------------------------------------------------------------------


def turns(values: list[bytes], packed: bytes) -> list[bytes]:
    """What each turn puts out of one chunk."""
    undo = decoder(values, LIMIT)
    assert undo is not None
    plain = [undo.start(packed)]
    while undo.behind:
        plain.append(undo.decode_more())
    return plain


@each("name", PACK)
def test_a_chunk_is_decoded_a_turn_at_a_time(name: bytes) -> None:
    said = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 60_000
    plain = turns([name], PACK[name](said))
    assert b"".join(plain) == said
    assert max(map(len, plain)) < 2 * TURN_BYTES
    assert len(plain) > len(said) / TURN_BYTES / 2


@each("below", [[], [b"gzip"]])
def test_steps_that_put_nothing_out_are_counted_too(below: list[bytes]) -> None:
    packed = gzip.compress(b"") * 5000
    for _ in below:
        packed = gzip.compress(packed)
    plain = turns([b"gzip", *below], packed)
    assert b"".join(plain) == b""
    assert len(plain) >= 5000 * 1024 // TURN_BYTES


def test_a_decoder_that_was_closed_is_not_behind() -> None:
    undo = decoder([b"gzip"], LIMIT)
    assert undo is not None
    undo.start(gzip.compress(bytes(1_000_000)))
    assert undo.behind
    undo.close()
    assert not undo.behind
