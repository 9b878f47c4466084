"""Decode content encodings: gzip, deflate, br, zstd, also chained, within a size limit.

However much a piece inflates to, it is decoded a turn at a time, so that others have theirs.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

import brotli
import zstandard

from proxy.wire.unreadable import Unreadable

CHAIN_LIMIT = 5  # as in httpx2 and curl
RATIO_LIMIT = 1_100  # bytes out for one in: deflate itself cannot do more than 1,032
_RATIO_FLOOR = 4_194_304  # bytes: below this the ratio is not checked
TURN_BYTES = 16_384  # that a turn puts out, give or take one step
_LEAST = 1024  # bytes that a step counts as, however little it puts out
_STEP = 16_384  # bytes that a decoder may put out at once
_ZSTD_STEP = 128  # bytes in: a zstd block of 4 bytes may be 128 kB


class _Undo(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    """gzip of any number of members, or deflate with or without a zlib header."""

    __slots__ = ("_inner", "_raw_allowed", "_wbits")

    def __init__(self, wbits: int, *, raw_allowed: bool = False) -> None:
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._raw_allowed = raw_allowed

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                self._inner = zlib.decompressobj(self._wbits)
            yield self._step(data)
            data = self._inner.unconsumed_tail or self._inner.unused_data

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

    def feed(self, data: bytes) -> Iterator[bytes]:
        out = self._inner.process(data, output_buffer_limit=_STEP)
        yield out
        # It may have taken all input and still hold output: ask until it gives none.
        while out and not self._inner.is_finished():
            out = self._inner.process(b"", output_buffer_limit=_STEP)
            yield out


class _Zstd:
    """Any number of frames, one after another (RFC 8878 §3.1)."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor().decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                self._inner = zstandard.ZstdDecompressor().decompressobj()
            plain = self._inner.decompress(data)
            for start in range(0, len(plain) or 1, _STEP):
                yield plain[start : start + _STEP]
            data = self._inner.unused_data if self._inner.eof else b""


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

    __slots__ = ("_chain", "_in", "_out", "_waiting", "limit")

    def __init__(self, chain: Sequence[_Undo], limit: int) -> None:
        self._chain = chain
        self._in = 0
        self._out = 0
        self._waiting: deque[Iterator[bytes]] = deque()  # what was not decoded yet, in its order
        self.limit = limit

    @property
    def behind(self) -> bool:
        """Whether bytes wait for another turn."""
        return bool(self._waiting)

    @property
    def ratio(self) -> float:
        """Bytes out for one in, so far."""
        return self._out / max(1, self._in)

    def feed(self, chunk: bytes) -> bytes:
        """Return all plain bytes of this chunk, in however many turns.

        Raises:
            Unreadable: the bytes are no such encoding, or inflate beyond the bound.
        """
        plain = [self.start(chunk)]
        while self._waiting:
            plain.append(self.go_on())
        return b"".join(plain)

    def start(self, chunk: bytes) -> bytes:
        """Return the plain bytes of a chunk that fit in one turn; `go_on` has the others.

        Raises:
            Unreadable: as `feed`.
        """
        self._in += len(chunk)
        self._waiting.append(self._pieces(chunk))
        return self.go_on()

    def go_on(self) -> bytes:
        """Return what another turn decodes.

        Raises:
            Unreadable: as `feed`.
        """
        waiting, plain, left = self._waiting, [], TURN_BYTES
        try:
            while waiting and left > 0:
                piece = next(waiting[0], None)
                if piece is None:
                    waiting.popleft()
                else:
                    plain.append(piece)
                    left -= max(len(piece), _LEAST)
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise Unreadable("the body is not in its content encoding") from error
        return b"".join(plain)

    def close(self) -> None:
        """Decode nothing more."""
        self._waiting.clear()

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        pieces: Iterator[bytes] = iter((chunk,))
        for undo in self._chain:
            pieces = self._through(undo, pieces)
        return pieces

    def _through(self, undo: _Undo, pieces: Iterator[bytes]) -> Iterator[bytes]:
        step = _ZSTD_STEP if isinstance(undo, _Zstd) else _STEP
        for piece in pieces:
            if not piece:  # a step of the encoding below, which counts here too
                yield piece
            for start in range(0, len(piece), step):
                for plain in undo.feed(piece[start : start + step]):
                    self._count(len(plain))
                    yield plain

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
