"""Parse the AWS binary event stream: bytes in, checked messages out, however they are cut."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from proxy.wire.unreadable import Unreadable

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
