"""Read one response as it arrives: its content encoding, its framing, its payloads."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from classifier.records import Flaw
from proxy.wire import routes
from proxy.wire.body import ReadResult, read_body, truncation
from proxy.wire.dialect import Headers, Reading
from proxy.wire.error_shapes import is_exception
from proxy.wire.framing.encoding import Decoder, decoder
from proxy.wire.framing.eventstream import EventStreamFeeder, EventStreamMessage
from proxy.wire.framing.jsonarray import JsonArrayFeeder
from proxy.wire.framing.ndjson import NdjsonFeeder
from proxy.wire.framing.sse import SseEvent, SseFeeder
from proxy.wire.payloads import PayloadReader
from proxy.wire.unreadable import Unreadable
from proxy.wire.written_call import TRIGGER

Feeder = SseFeeder | NdjsonFeeder | JsonArrayFeeder | EventStreamFeeder

_SSE = b"text/event-stream"
_EVENT_STREAM = b"application/vnd.amazon.eventstream"
_NDJSON = frozenset((b"application/x-ndjson", b"application/ndjson", b"application/jsonl",
                     b"application/json-lines", b"application/stream+json"))  # fmt: skip
_SSE_STARTS = (b"data", b"event", b":", b"id:", b"retry", b"error:", b"\xef\xbb\xbf")
_SNIFFED = 6  # bytes that distinguish a stream from a body
_TYPE_BYTES = 80  # of a content type; a longer one is unknown
# Events that only keep a connection open: docs.claude.com/en/api/messages-streaming (ping),
# ChatGPT's backend (keepalive).
_KEEPALIVES = frozenset(("ping", "keepalive", "heartbeat"))
_KEEPALIVE = re.compile(rb'"type" ?: ?"(?:ping|keepalive|heartbeat)"')
_KEEPALIVE_BYTES = 64  # of their data; a longer event is none
# What parsing an encoded body may cost: its objects and arrays, lines at four times that, numbers
# at a quarter. Of what compresses as no answer does (20 times at most), 50,000 cost 30 ms.
_BODY_WEIGHT, _BOMB_WEIGHT, _BOMB_RATIO = 600_000, 50_000, 50
_NO_STREAM = Reading()  # of a response that is no stream (yet); nobody writes to it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How much of a response is buffered, in bytes; beyond it nothing more is read.

    ``line_bytes`` of one stream event, ``body_bytes`` of a body that is no stream,
    ``inflate_bytes`` of an encoded one.
    """

    line_bytes: int = 16_777_216
    body_bytes: int = 16_777_216
    inflate_bytes: int = 67_108_864


class ResponseReader:
    """Read one response.

    ``payloads`` has its dialect, API and error. ``reading`` is what a stream said so far,
    ``framed`` whether the response is a stream. ``progressed`` is set by a content event; who
    asks clears it. ``skim`` is set while whole SSE events in which
    it finds nothing need not be fed: between events, once output was seen.
    """

    __slots__ = ("_decoder", "_feeder", "_limits", "_pending", "_pending_size", "_silent",
                 "_status", "_streams", "_take", "_type", "_weight", "framed", "payloads",
                 "progressed", "reading", "skim")  # fmt: skip

    def __init__(self, route: routes.Route, limits: ReadLimits) -> None:
        self._limits = limits
        self._streams = route.streams
        self.payloads = PayloadReader(route)
        self.reading = _NO_STREAM
        self.framed = False
        self.progressed = False
        self.skim: Callable[[bytes], object] | None = None
        self._status = 0
        self._type = b""
        self._decoder: Decoder | None = None
        self._feeder: Feeder | None = None
        # Unbound, since an object that holds its own method waits for the garbage collector.
        self._take: Callable[[ResponseReader, bytes], None] = ResponseReader._sniff
        self._pending: list[bytes] = []  # of a body, or of a stream whose framing is not known
        self._pending_size = 0
        self._weight = 0  # of an encoded body: what parsing it will cost
        self._silent = False  # a stream of which nothing but blanks came

    def head(self, status: int, headers: Headers, by_name: Mapping[bytes, bytes]) -> None:
        """Take the status and the headers, as pairs and by name; names in lower case.

        Raises:
            Unreadable: the content encoding is unknown.
        """
        self._status = status
        self._type = _media_type(by_name.get(b"content-type", b"")[:_TYPE_BYTES])
        if self._type == _EVENT_STREAM:
            self._begin(EventStreamFeeder(self._limits.line_bytes), ResponseReader._take_messages)
        elif self._type in _NDJSON:
            self._begin(NdjsonFeeder(self._limits.line_bytes), ResponseReader._take_documents)
        self._silent = self.framed
        if b"content-encoding" in by_name:
            encodings = [value for name, value in headers if name == b"content-encoding"]
            self._decoder = decoder(encodings, self._limits.inflate_bytes)

    def feed(self, chunk: bytes) -> bool:
        """Take a piece of the body as it came; True where `go_on` is to decode the rest of it.

        Raises:
            Unreadable: it cannot be read; nothing may be fed after that.
        """
        decoder = self._decoder
        if decoder is not None:
            self._take_decoded(decoder, decoder.start(chunk))
            return decoder.behind
        self._take(self, chunk)
        return False

    def go_on(self) -> bool:
        """Decode for another turn; True where that is not all.

        Raises:
            Unreadable: as `feed`.
        """
        decoder = self._decoder
        if decoder is None:
            return False
        self._take_decoded(decoder, decoder.go_on())
        return decoder.behind

    def _take_decoded(self, decoder: Decoder, plain: bytes) -> None:
        """Take a turn's bytes; a body that is parsed at its end may hold so many values only."""
        self._take(self, plain)
        if self.framed:
            return
        self._weight += plain.count(b"{") + plain.count(b"[") + 4 * plain.count(b"\n")
        self._weight += plain.count(b",") // 4
        most = _BOMB_WEIGHT if decoder.ratio > _BOMB_RATIO else _BODY_WEIGHT
        if self._weight > most:
            raise Unreadable(f"an encoded body of {decoder.ratio:.0f} times its size holds "
                             f"over {most} values")  # fmt: skip

    def forget(self) -> None:
        """Free the buffers of a response that cannot be read."""
        self._pending = []
        self._feeder = None
        if self._decoder is not None:
            self._decoder.close()
        self.payloads.repeated = None
        self.skim = None

    def end(self) -> ReadResult:
        """Return what was read so far; more may be fed, and this called again."""
        if self.framed:
            reading = self._last_events()
            closed = isinstance(self._feeder, JsonArrayFeeder) and self._feeder.closed
            return reading, reading.ended or closed, self._stream_flaw(reading)
        payloads = self.payloads
        if payloads.written is not None:
            payloads.written.begin()  # it is read whole each time
        return read_body(b"".join(self._pending), payloads, self._status)

    # -- framing -----------------------------------------------------------------------

    def _begin(self, feeder: Feeder, take: Callable[[ResponseReader, bytes], None]) -> None:
        self.framed = True
        self.reading = Reading()
        self._feeder = feeder
        self._take = take

    def _sniff(self, chunk: bytes) -> None:
        """Tell a stream from a body by its first bytes: content types are often wrong."""
        if self._pending:
            chunk = b"".join((*self._pending, chunk))
            self._pending, self._pending_size = [], 0
        start = chunk.lstrip()[:8]
        if len(start) < _SNIFFED:
            self._keep(chunk)
            return
        self._take = ResponseReader._keep
        if start[:1] != b"{":  # as most bodies begin, and no stream that bytes tell
            self._frame(start)
        self._take(self, chunk)

    def _frame(self, start: bytes) -> None:
        if start[:1] == b"[" and self._streams:
            self._begin(JsonArrayFeeder(self._limits.line_bytes), ResponseReader._take_documents)
        elif self._is_sse(start):
            self._begin(SseFeeder(self._limits.line_bytes), ResponseReader._take_events)

    def _is_sse(self, start: bytes) -> bool:
        if self._type == _SSE:
            return start[:1] not in (b"[", b"<")
        return self._status == 200 and start.startswith(_SSE_STARTS)

    def _keep(self, chunk: bytes) -> None:
        self._pending.append(chunk)
        self._pending_size += len(chunk)
        if self._pending_size > self._limits.body_bytes:
            raise Unreadable(f"a body is over {self._limits.body_bytes} bytes")

    def _skimming(self) -> Callable[[bytes], object] | None:
        dialect, feeder, reading = self.payloads.dialect, self._feeder, self.reading
        relevant = dialect.relevant if reading.content else dialect.relevant_reasoning
        if relevant is None or dialect.cumulative or not reading.output:
            return None
        if self._decoder is not None or not isinstance(feeder, SseFeeder) or not feeder.at_rest:
            return None
        written = self.payloads.written
        if written is None:
            return relevant.search
        return None if written.holds else _with_trigger(relevant).search

    # -- payloads ----------------------------------------------------------------------

    def _take_events(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, SseFeeder)
        payloads, reading = self.payloads, self.reading
        events = self._feeder.feed(chunk)
        for event in events:
            if event.name == "error" or payloads.is_worth_parsing(reading, event.data):
                payloads.read_event(reading, event)
            elif payloads.dialect.cumulative:
                payloads.repeated = event.data
        # Of a stream that is not understood nobody knows which event is its first content.
        if events and (reading.output or not reading.understood) and not reading.ended:
            longer = len(events[-1].data) > _KEEPALIVE_BYTES
            self.progressed = longer or not all(map(_is_keepalive, events))
        self.skim = self._skimming()

    def _take_documents(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, NdjsonFeeder | JsonArrayFeeder)
        payloads, reading = self.payloads, self.reading
        self._silent = self._silent and not chunk.strip()
        for line in self._feeder.feed(chunk):
            if payloads.is_worth_parsing(reading, line):
                payloads.read_document(reading, line, None)
            elif payloads.dialect.cumulative:
                payloads.repeated = line
            if reading.output or not reading.understood:
                self.progressed = True

    def _take_messages(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, EventStreamFeeder)
        self._silent = self._silent and not chunk.strip()
        for message in self._feeder.feed(chunk):
            self._take_message(message)

    def _take_message(self, message: EventStreamMessage) -> None:
        headers, payloads = message.headers, self.payloads
        event = headers.get(":event-type")
        failure = headers.get(":exception-type") or headers.get(":error-code")
        if failure is None and is_exception(event):
            failure = event
        if failure is None:
            payloads.read_document(self.reading, message.payload, event)
        else:
            payloads.read_exception(failure, message.payload, headers.get(":error-message", ""))
        if self.reading.output or not self.reading.understood:
            self.progressed = True

    # -- the end -----------------------------------------------------------------------

    def _last_events(self) -> Reading:
        """Return a copy of the reading with the unfinished end; ``reading`` is not changed."""
        remains = self._feeder.remains() if self._feeder is not None else []
        payloads = self.payloads
        if not remains and payloads.repeated is None:
            return self.reading
        reading = copy.copy(self.reading)
        reading.calls = set(reading.calls)
        written, payloads.written = payloads.written, None  # more may come behind it
        if payloads.repeated is not None:
            payloads.read_document(reading, payloads.repeated, None)
        for rest in remains:
            if isinstance(rest, SseEvent):
                payloads.read_event(reading, rest)
            elif isinstance(rest, bytes):
                payloads.read_document(reading, rest, None)
        payloads.written = written
        return reading

    def _stream_flaw(self, reading: Reading) -> Flaw | None:
        return Flaw.EMPTY_BODY if self._silent else truncation(reading, self.payloads)


def _is_keepalive(event: SseEvent) -> bool:
    if len(event.data) > _KEEPALIVE_BYTES:
        return False
    return event.name in _KEEPALIVES or _KEEPALIVE.search(event.data) is not None


@lru_cache(maxsize=64)
def _with_trigger(relevant: re.Pattern[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that finds the beginning of a written call too."""
    return re.compile(relevant.pattern + b"|" + TRIGGER)


@lru_cache(maxsize=256)
def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()
