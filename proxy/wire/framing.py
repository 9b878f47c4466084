"""Content encodings and stream framings: gzip to zstd, SSE, NDJSON, JSON arrays, envelopes.

Each feeder takes bytes, however they are cut, and yields whole pieces. What cannot be read raises
`Unreadable`; its bytes are relayed all the same.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from proxy.wire import libraries


class Unreadable(Exception):
    """A framing or an encoding cannot be read; the text is a reason without content."""


# --- content encodings: gzip, deflate, br, zstd, also chained ----------------------------------
# However much a piece inflates to, it is decoded a turn at a time, so that others have theirs.


CHAIN_LIMIT = 5  # as in httpx2 and curl
RATIO_LIMIT = 1_100  # bytes out for one in: deflate itself cannot do more than 1,032
_RATIO_FLOOR = 4_194_304  # bytes: below this the ratio is not checked
TURN_BYTES = 16_384  # that a turn puts out, give or take one step
_LEAST = 1024  # bytes that a step counts as, however little it puts out
_STEP = 16_384  # bytes that a decoder may put out at once
_ZSTD_STEP = 128  # bytes in: a zstd block of 4 bytes may be 128 kB


class _Undo(Protocol):
    @property
    def whole(self) -> bool: ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    """gzip of any number of members, or deflate with or without a zlib header."""

    __slots__ = ("_inner", "_raw_allowed", "_wbits")

    def __init__(self, wbits: int, *, raw_allowed: bool = False) -> None:
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._raw_allowed = raw_allowed

    @property
    def whole(self) -> bool:
        return self._inner.eof

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

    def __init__(self, decompressor: Callable[[], Any]) -> None:
        self._inner = decompressor()

    @property
    def whole(self) -> bool:
        try:
            return bool(self._inner.is_finished())
        except libraries.BrotliError:  # after bytes that are no brotli it does not even say
            return False

    def feed(self, data: bytes) -> Iterator[bytes]:
        out = self._inner.process(data, output_buffer_limit=_STEP)
        yield out
        # It may have taken all input and still hold output: ask until it gives none.
        while out and not self._inner.is_finished():
            out = self._inner.process(b"", output_buffer_limit=_STEP)
            yield out


class _Zstd:
    """Any number of frames, one after another (RFC 8878 §3.1)."""

    __slots__ = ("_decompressor", "_inner")

    def __init__(self, decompressor: Callable[[], Any]) -> None:
        self._decompressor = decompressor
        self._inner = decompressor().decompressobj()

    @property
    def whole(self) -> bool:
        return bool(self._inner.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                self._inner = self._decompressor().decompressobj()
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
        case b"br" if libraries.brotli_decompressor is not None:
            return _Brotli(libraries.brotli_decompressor)
        case b"zstd" if libraries.zstd_decompressor is not None:
            return _Zstd(libraries.zstd_decompressor)
        case _:
            return None


# How plain answers begin: JSON, markup, a stream of events; or any text of some length. What is
# encoded hardly does. And what may go on like that; a semicolon alone is nothing in brotli.
_MARKED = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:[{\[]\s*[{\[\"}\]]|<[!?A-Za-z]|(?:data|event|id|retry|error)?:)"
)
_MAY_BE_MARKED = re.compile(rb"(?:\xef(?:\xbb(?:\xbf)?)?)?\s*(?:[{\[<]\s*|[a-z]{0,5})")
_PRINTED = re.compile(rb"[\t\n\r -~]{12}")
_MAY_BE_PRINTED = re.compile(rb"(?!;)[\t\n\r -~]{0,11}")
_NO_CODING = frozenset((b"utf-8", b"utf8", b"aws-chunked", b"chunked", b"none", b"binary", b"8bit"))
# RFC 1952 §2.3, RFC 8878 §3.1.1.
_MAGIC = {b"\x1f\x8b\x08": b"gzip", b"\x28\xb5\x2f\xfd": b"zstd"}


class _Plain:
    """A body without an encoding."""

    __slots__ = ()
    whole = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _AsItBegins:
    """An encoding that may be stated falsely, so that the first bytes decide.

    Gateways state one where there is none (``UTF-8``: encode/httpx#195; ``aws-chunked``; ``gzip``
    of a plain error: tombii/better-ccflare#243), or twice.
    """

    __slots__ = ("_inner", "_start", "_stated")

    def __init__(self, stated: bytes) -> None:
        self._stated = stated
        self._start = b""
        self._inner: _Undo | None = None

    @property
    def whole(self) -> bool:
        return self._inner is not None and self._inner.whole

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._start += data
            self._inner = self._told()
            if self._inner is None:
                return
            data, self._start = self._start, b""
        step = _ZSTD_STEP if isinstance(self._inner, _Zstd) else _STEP
        for at in range(0, len(data), step):
            yield from self._inner.feed(data[at : at + step])

    def _told(self) -> _Undo | None:
        """Return what the first bytes show; None where more of them are needed."""
        start = self._start
        for magic, name in _MAGIC.items():
            if start.startswith(magic):
                return _undo(name)
        if any(magic.startswith(start) for magic in _MAGIC):
            return None
        if self._stated in _NO_CODING or _MARKED.match(start):
            return _Plain()
        if _MAY_BE_MARKED.fullmatch(start):
            return None
        stated = _undo(self._stated)
        if stated is None:
            raise Unreadable("the content encoding is unknown")
        if _PRINTED.match(start):
            return _Plain()
        return None if _MAY_BE_PRINTED.fullmatch(start) else stated


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
        """True if bytes wait for another turn."""
        return bool(self._waiting)

    @property
    def cut(self) -> bool:
        """True if bytes came and what they encode did not end."""
        return self._in > 0 and not self._chain[0].whole

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
            plain.append(self.decode_more())
        return b"".join(plain)

    def start(self, chunk: bytes) -> bytes:
        """Return the plain bytes of a chunk that fit in one turn; `decode_more` has the others.

        Raises:
            Unreadable: as `feed`.
        """
        self._in += len(chunk)
        self._waiting.append(self._pieces(chunk))
        return self.decode_more()

    def decode_more(self) -> bytes:
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
        except (zlib.error, libraries.BrotliError, libraries.ZstdError) as error:
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


def decoder(values: Sequence[bytes], limit: int, *, trusting: bool = True) -> Decoder | None:
    """Make the decoder for ``Content-Encoding`` values; None if nothing is encoded.

    Arguments:
        values: of each such header line, in order.
        limit: most bytes that the body may inflate to.
        trusting: the body is encoded as they say; if False, as it begins.

    Raises:
        Unreadable: an encoding is unknown to one who trusts, or more than five are chained.
    """
    if not values:
        return None
    names = [name.strip().lower() for value in values for name in value.split(b",")]
    names = [name for name in names if name not in (b"", b"identity")]
    if len(names) > CHAIN_LIMIT:
        raise Unreadable(f"more than {CHAIN_LIMIT} content encodings are chained")
    undoing: Callable[[bytes], _Undo | None] = _undo if trusting else _AsItBegins
    chain = [undo for undo in map(undoing, reversed(names)) if undo is not None]
    if len(chain) < len(names):
        raise Unreadable("the content encoding is unknown")
    return Decoder(chain, limit) if chain else None


# --- AWS binary event stream -------------------------------------------------------------------


# botocore/eventstream.py: prelude (total length, headers length, its CRC), headers,
# payload, CRC of all before it; big-endian, CRC-32.
_PRELUDE = struct.Struct(">III")
_CRC = 4
_SMALLEST = _PRELUDE.size + _CRC
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # header type → bytes of value
_BYTES, _STRING = 6, 7


class EventStreamMessage(NamedTuple):
    """One message: its string headers by name (``:event-type``…), and its payload."""

    headers: dict[str, str]
    payload: bytes


class EventStreamFeeder:
    """Split a stream into messages and check both checksums of each."""

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[EventStreamMessage]:
        """Return the messages that this chunk completes.

        Raises:
            Unreadable: a checksum or a length is wrong, or a message is over the limit in bytes.
        """
        self._buffer += chunk
        messages = []
        while (total := self._total()) is not None and len(self._buffer) >= total:
            messages.append(_message(bytes(self._buffer[:total])))
            del self._buffer[:total]
        return messages

    def remains(self) -> list[EventStreamMessage]:
        """Return nothing: an unfinished message cannot be checked."""
        return []

    def _total(self) -> int | None:
        if len(self._buffer) < _PRELUDE.size:
            return None
        total, headers, crc = _PRELUDE.unpack_from(self._buffer)
        if zlib.crc32(self._buffer[:8]) != crc:
            raise Unreadable("an event stream prelude does not match its checksum")
        if total < _SMALLEST + headers:
            raise Unreadable("an event stream message has contradictory lengths")
        if total > self.limit:
            raise Unreadable(f"an event stream message is over {self.limit} bytes")
        return int(total)


def _message(raw: bytes) -> EventStreamMessage:
    if zlib.crc32(raw[:-_CRC]) != int.from_bytes(raw[-_CRC:], "big"):
        raise Unreadable("an event stream message does not match its checksum")
    start = _PRELUDE.size
    end = start + int.from_bytes(raw[4:8], "big")
    return EventStreamMessage(_headers(raw[start:end]), raw[end:-_CRC])


def _headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    while at < len(raw):
        name, at = _sized(raw, at, 1)
        kind = raw[at] if at < len(raw) else -1
        at += 1
        if kind in _FIXED:
            at += _FIXED[kind]
        elif kind in (_BYTES, _STRING):
            value, at = _sized(raw, at, 2)
            if kind == _STRING:
                headers[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        else:
            raise Unreadable("an event stream header has an unknown type")
    return headers


def _sized(raw: bytes, at: int, width: int) -> tuple[bytes, int]:
    start = at + width
    end = start + int.from_bytes(raw[at:start], "big")
    if end > len(raw):
        raise Unreadable("an event stream header exceeds its message")
    return raw[start:end], end


# --- streamed JSON array -----------------------------------------------------------------------


_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class JsonArrayFeeder:
    """Split an array of objects (or arrays) into its elements; scalars in it are left out.

    Gemini streams this way without ``alt=sse``.
    """

    __slots__ = ("_depth", "_escaped", "_inside", "_opened", "_pieces", "_size", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._depth = 0
        self._opened = False
        self._inside = False  # a string
        self._escaped = False
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the elements that this chunk completes.

        Raises:
            Unreadable: an element is longer than the limit in bytes.
        """
        elements: list[bytes] = []
        start = 0 if self._depth > 1 else len(chunk)
        at = 0
        while (at := self._next(chunk, at)) < len(chunk):
            mark = chunk[at]
            at += 1
            if mark == 0x22:
                self._inside = not self._inside
            elif mark in b"{[":
                self._depth += 1
                self._opened = True
                if self._depth == 2:
                    start = at - 1
            else:
                self._depth -= 1
                if self._depth == 1:
                    elements.append(b"".join((*self._pieces, chunk[start:at])))
                    self._pieces, self._size, start = [], 0, len(chunk)
        self._keep(chunk[start:])
        return elements

    @property
    def closed(self) -> bool:
        """True if the array's own closing bracket came."""
        return self._opened and self._depth == 0

    def remains(self) -> list[bytes]:
        """Return nothing: an unfinished element is no JSON."""
        return []

    def _next(self, chunk: bytes, at: int) -> int:
        """Return where the next bracket or quote is, outside of strings."""
        if self._escaped and at < len(chunk):
            self._escaped = False
            at += 1
        while match := (_INSIDE if self._inside else _OUTSIDE).search(chunk, at):
            if chunk[match.start()] != 0x5C:
                return match.start()
            at = match.start() + 2
        self._escaped = at > len(chunk)
        return len(chunk)

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            raise Unreadable(f"an element of a JSON array is over {self.limit} bytes")


# --- envelopes of gRPC-web and Connect ---------------------------------------------------------


_ENVELOPE = struct.Struct(">BI")
_COMPRESSED, _END, _TRAILERS = 0x01, 0x02, 0x80


class Envelope(NamedTuple):
    """One message, or the end of a stream: of gRPC-web lines of trailers, of Connect JSON."""

    payload: bytes
    trailers: bool
    end: bool


class EnvelopeFeeder:
    """Split a stream into envelopes: flags, a length of four bytes, a payload.

    github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md; connectrpc.com/docs/protocol.

    Arguments:
        text: the stream is base64 (``grpc-web-text``), whose pieces are padded each.
    """

    __slots__ = ("_buffer", "_text", "_undecoded", "limit")

    def __init__(self, limit: int, *, text: bool = False) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._text = text
        self._undecoded = b""

    def feed(self, chunk: bytes) -> list[Envelope]:
        """Return the envelopes that this chunk completes.

        Raises:
            Unreadable: one is over the limit in bytes, or cannot be decoded.
        """
        self._buffer += self._decoded(chunk) if self._text else chunk
        envelopes: list[Envelope] = []
        while len(self._buffer) >= _ENVELOPE.size:
            flags, size = _ENVELOPE.unpack_from(self._buffer)
            if size > self.limit:
                raise Unreadable(f"an envelope is over {self.limit} bytes")
            if len(self._buffer) < _ENVELOPE.size + size:
                break
            payload = bytes(self._buffer[_ENVELOPE.size : _ENVELOPE.size + size])
            del self._buffer[: _ENVELOPE.size + size]
            if flags & _COMPRESSED:
                payload = self._inflated(payload)
            envelopes.append(Envelope(payload, bool(flags & _TRAILERS), bool(flags & _END)))
        return envelopes

    def remains(self) -> list[bytes]:
        """Return nothing: an unfinished envelope is no message."""
        return []

    def _decoded(self, chunk: bytes) -> bytes:
        text = self._undecoded + b"".join(chunk.split())
        whole = len(text) // 4 * 4
        self._undecoded = text[whole:]
        try:
            return b"".join(
                [b64decode(text[at : at + 4], validate=True) for at in range(0, whole, 4)]
            )
        except ValueError as error:
            raise Unreadable("the body is not in its encoding") from error

    def _inflated(self, payload: bytes) -> bytes:
        undo = decoder([b"gzip"], self.limit, trusting=False)
        return payload if undo is None else undo.feed(payload)


# --- newline-delimited JSON --------------------------------------------------------------------


class NdjsonFeeder:
    """Split a stream into its non-blank lines, stripped of CR and blanks."""

    __slots__ = ("_line", "_pieces", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._line = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes.

        Raises:
            Unreadable: a line is longer than the limit in bytes.
        """
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces = []
            self._line = 0
        self._keep(lines.pop())
        return [line for line in map(bytes.strip, lines) if line]

    def remains(self) -> list[bytes]:
        """Return the last line where it has no line break yet; more may be fed."""
        line = b"".join(self._pieces).strip()
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._line += len(piece)
        if self._line > self.limit:
            raise Unreadable(f"a line of JSON is over {self.limit} bytes")


# --- server-sent events ------------------------------------------------------------------------


_BOM = b"\xef\xbb\xbf"
_STRAY_LIMIT = 65_536  # bytes of lines that are no SSE, kept because an error may be in them


class SseEvent(NamedTuple):
    """One event: its name where the stream gives one, its data lines joined by LF."""

    name: str | None
    data: bytes


_STATE = ("_data", "_held", "_line", "_name", "_pieces", "_skip_lf", "_started", "_stray",
          "_stray_size", "at_rest", "limit")  # fmt: skip


class SseFeeder:
    """Split a stream into events (WHATWG HTML standard §9.2.6).

    Beyond the standard, as servers do: an ``error:`` field is an event named error (llama.cpp),
    and lines with no known field are kept, since some providers write a bare JSON error
    into the stream. ``at_rest`` is true between events, with nothing held back.
    """

    __slots__ = _STATE

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.at_rest = True
        self._pieces: list[bytes] = []  # of the line that has no end yet
        self._line = 0
        self._data: list[bytes] = []
        self._held = 0
        self._name: str | None = None
        self._stray: list[bytes] = []
        self._stray_size = 0
        self._skip_lf = False
        self._started = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that this chunk completes.

        Raises:
            Unreadable: a line or an event is longer than the limit in bytes.
        """
        if not chunk:
            return []
        chunk = self._plain(chunk)
        lines = chunk.split(b"\n")
        if self._pieces and len(lines) > 1:
            lines[0] = self._whole(lines[0])
        self._keep(lines.pop())
        events = self._events(lines)
        self.at_rest = not (self._pieces or self._data or self._name or self._skip_lf)
        return events

    def remains(self) -> list[SseEvent]:
        """Return the last event where its blank line is missing, and stray JSON.

        More bytes may be fed after this.
        """
        if self.at_rest and not self._stray:
            return []
        last = _copy(self)
        events = last._events([last._whole(b""), b""])
        if last._stray:
            events.append(SseEvent(None, b"\n".join(last._stray)))
        return events

    def _plain(self, chunk: bytes) -> bytes:
        if self._skip_lf and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._skip_lf = False
        if b"\r" in chunk:
            self._skip_lf = chunk[-1:] == b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._line += len(piece)
        if self._line + self._held > self.limit:
            raise Unreadable(f"an SSE event is over {self.limit} bytes")

    def _whole(self, end: bytes) -> bytes:
        line = b"".join((*self._pieces, end))
        self._pieces = []
        self._line = 0
        return line

    def _events(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for line in lines:
            if not self._started:
                self._started = True
                line = line.removeprefix(_BOM)  # noqa: PLW2901 - only the first line has one
            if line:
                self._field(line)
            elif self._data:
                events.append(self._event())
            else:
                self._name = None
        return events

    def _event(self) -> SseEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = SseEvent(self._name, data)
        self._data = []
        self._held = 0
        self._name = None
        return event

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"error":
            self._name = "error"
            self._add(value)
        elif name not in (b"", b"id", b"retry"):
            self._keep_stray(line)

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._held += len(value)
        if self._held > self.limit:
            raise Unreadable(f"an SSE event is over {self.limit} bytes")

    def _keep_stray(self, line: bytes) -> None:
        self._stray_size += len(line)
        if self._stray_size <= _STRAY_LIMIT:
            self._stray.append(line)


def _copy(feeder: SseFeeder) -> SseFeeder:
    twin = SseFeeder(feeder.limit)
    for slot in _STATE:
        value = getattr(feeder, slot)
        setattr(twin, slot, list(value) if isinstance(value, list) else value)
    return twin
