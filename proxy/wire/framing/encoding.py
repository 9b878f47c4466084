"""Decode content encodings: gzip, deflate, br, zstd, also chained, within a size limit."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Protocol

import brotli
import zstandard

from proxy.wire.unreadable import Unreadable

CHAIN_LIMIT = 5  # as in httpx2 and curl
RATIO_LIMIT = 1_100  # bytes out for one in: deflate itself cannot do more than 1,032
_RATIO_FLOOR = 4_194_304  # bytes: below this the ratio is not checked
_STEP = 1_048_576  # bytes that a decoder may put out at once
_ZSTD_STEP = 512  # bytes in: a zstd block of 4 bytes may be 128 kB


class _Undo(Protocol):
    def feed(self, data: bytes) -> list[bytes]: ...


class _Zlib:
    """gzip of any number of members, or deflate with or without a zlib header."""

    __slots__ = ("_inner", "_raw_allowed", "_wbits")

    def __init__(self, wbits: int, *, raw_allowed: bool = False) -> None:
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._raw_allowed = raw_allowed

    def feed(self, data: bytes) -> list[bytes]:
        out: list[bytes] = []
        while data:
            if self._inner.eof:
                self._inner = zlib.decompressobj(self._wbits)
            out.append(self._step(data))
            data = self._inner.unconsumed_tail or self._inner.unused_data
        return out

    def _step(self, data: bytes) -> bytes:
        try:
            piece = self._inner.decompress(data, _STEP)
        except zlib.error:
            if not self._raw_allowed:
                raise
            # "deflate" is zlib by RFC 9110 §8.4.1.2, and raw from servers that misread it.
            self._wbits = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._wbits)
            piece = self._inner.decompress(data, _STEP)
        self._raw_allowed = False
        return piece


class _Brotli:
    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes) -> list[bytes]:
        out = [self._inner.process(data, output_buffer_limit=_STEP)]
        # It may have taken all input and still hold output: ask until it gives none.
        while out[-1] and not self._inner.is_finished():
            out.append(self._inner.process(b"", output_buffer_limit=_STEP))
        return out


class _Zstd:
    """Any number of frames, one after another (RFC 8878 §3.1)."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor().decompressobj()

    def feed(self, data: bytes) -> list[bytes]:
        out: list[bytes] = []
        while data:
            if self._inner.eof:
                self._inner = zstandard.ZstdDecompressor().decompressobj()
            out.append(self._inner.decompress(data))
            data = self._inner.unused_data if self._inner.eof else b""
        return out


def _undo(name: bytes) -> _Undo | None:
    match name:
        case b"gzip" | b"x-gzip":
            return _Zlib(16 + zlib.MAX_WBITS)
        case b"deflate":
            return _Zlib(zlib.MAX_WBITS, raw_allowed=True)
        case b"br":
            return _Brotli()
        case b"zstd":
            return _Zstd()
        case _:
            return None


class Decoder:
    """Decode a chain of encodings piece by piece, within a limit in bytes and in ratio."""

    __slots__ = ("_chain", "_in", "_out", "limit")

    def __init__(self, chain: Sequence[_Undo], limit: int) -> None:
        self._chain = chain
        self._in = 0
        self._out = 0
        self.limit = limit

    def feed(self, chunk: bytes) -> bytes:
        """Return the plain bytes of this chunk.

        Raises:
            Unreadable: the bytes are no such encoding, or inflate beyond the bound.
        """
        self._in += len(chunk)
        try:
            return b"".join(self._pieces(chunk))
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise Unreadable("the body is not in its content encoding") from error

    def _pieces(self, chunk: bytes) -> list[bytes]:
        pieces = [chunk]
        for undo in self._chain:
            pieces = self._through(undo, pieces)
        return pieces

    def _through(self, undo: _Undo, pieces: list[bytes]) -> list[bytes]:
        step = _ZSTD_STEP if isinstance(undo, _Zstd) else _STEP
        through: list[bytes] = []
        for piece in pieces:
            for start in range(0, len(piece), step):
                plain = undo.feed(piece[start : start + step])
                self._count(sum(map(len, plain)))
                through += plain
        return through

    def _count(self, size: int) -> None:
        self._out += size
        if self._out > self.limit:
            raise Unreadable(f"an encoded body inflates to over {self.limit} bytes")
        if self._out > _RATIO_FLOOR and self._out > RATIO_LIMIT * self._in * len(self._chain):
            raise Unreadable(f"an encoded body inflates over {RATIO_LIMIT} times")


def decoder(values: Sequence[bytes], limit: int) -> Decoder | None:
    """Make the decoder for ``Content-Encoding`` values; None where nothing is encoded.

    Arguments:
        values: of each such header line, in order.
        limit: most bytes that the body may inflate to.

    Raises:
        Unreadable: an encoding is unknown, or more than five are chained.
    """
    if not values:
        return None
    names = [name.strip().lower() for value in values for name in value.split(b",")]
    names = [name for name in names if name not in (b"", b"identity")]
    if len(names) > CHAIN_LIMIT:
        raise Unreadable(f"more than {CHAIN_LIMIT} content encodings are chained")
    chain = [undo for undo in map(_undo, reversed(names)) if undo is not None]
    if len(chain) < len(names):
        raise Unreadable("the content encoding is unknown")
    return Decoder(chain, limit) if chain else None
