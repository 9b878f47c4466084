"""Parse server-sent events: bytes in, whole events out, however the bytes are cut."""

from __future__ import annotations

from typing import NamedTuple

from proxy.wire.unreadable import Unreadable

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
