"""Reads one answer as it arrives: its encoding, its framing, its dialect, its error.

It knows no time and no rollout, keeps no text, and says when it cannot follow.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from classifier.records import Flaw, ProviderError
from proxy.wire import routes
from proxy.wire.dialect import Dialect, Reading, part, parts
from proxy.wire.framing.encoding import Decoder, decoder
from proxy.wire.framing.eventstream import EventStreamFeeder, EventStreamMessage
from proxy.wire.framing.jsonarray import JsonArrayFeeder
from proxy.wire.framing.ndjson import NdjsonFeeder
from proxy.wire.framing.sse import SseEvent, SseFeeder
from proxy.wire.provider_error import read_error, read_text_error
from proxy.wire.unreadable import Unreadable

Headers = Sequence[tuple[bytes, bytes]]
Feeder = SseFeeder | NdjsonFeeder | JsonArrayFeeder | EventStreamFeeder

_SSE = b"text/event-stream"
_EVENT_STREAM = b"application/vnd.amazon.eventstream"
_NDJSON = frozenset((b"application/x-ndjson", b"application/ndjson", b"application/jsonl",
                     b"application/json-lines", b"application/stream+json"))  # fmt: skip
_SSE_STARTS = (b"data", b"event", b":", b"id:", b"retry", b"error:", b"\xef\xbb\xbf")
_SNIFFED = 6  # bytes that tell a stream from a body
_TYPE_BYTES = 80  # of a content type; one that is longer is none we know
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)

# Where in a payload errors are found; the rest of a successful answer is not searched.
_ERROR_KEYS = frozenset(("error", "errors", "base_resp", "detail"))
_ERROR_TYPES = ("error", "response.failed")
_UNFINISHED = ("error", "ERROR", "TIMEOUT")  # finish reasons that name a failure
_ERROR_HOLDERS = _ERROR_KEYS | {"type", "finish_reason", "response", "delta"}
_UNHEARD = Reading()  # of an answer that is no stream (yet); nobody writes to it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """How much of an answer is held, in bytes; beyond it nothing more is understood.

    ``line_bytes`` of one stream event, ``body_bytes`` of a body that is no stream,
    ``inflate_bytes`` of an encoded one.
    """

    line_bytes: int = 16_777_216
    body_bytes: int = 16_777_216
    inflate_bytes: int = 67_108_864


# What an answer said up to its end; whether that was all there was, whatever became of the
# transport; and what is wrong with it, had its status and its end been fine.
ReadResult = tuple[Reading, bool, Flaw | None]


class ResponseReader:
    """Reads one answer.

    ``reading`` is what is understood so far, of a stream. ``framed`` tells that the answer
    is a stream. ``skim`` is set while whole SSE events in which it finds nothing may be
    kept from ``feed``: between events, when output has been seen.
    """

    __slots__ = ("_decoder", "_feeder", "_held", "_limits", "_pending", "_pending_size", "_route",
                 "_silent", "_spoke", "_status", "_take", "_type", "api", "dialect", "error",
                 "framed", "reading", "skim")  # fmt: skip

    def __init__(self, route: routes.Route, limits: ReadLimits) -> None:
        self._route = route
        self._limits = limits
        self.dialect: Dialect = route.dialect
        self.api = route.api
        self.reading = _UNHEARD
        self.error: ProviderError | None = None
        self.framed = False
        self.skim: Callable[[bytes], object] | None = None
        self._status = 0
        self._type = b""
        self._decoder: Decoder | None = None
        self._feeder: Feeder | None = None
        # Unbound, since an object that holds its own method waits for the garbage collector.
        self._take: Callable[[ResponseReader, bytes], None] = ResponseReader._sniff
        self._pending: list[bytes] = []  # of a body, or of a stream whose framing is not known
        self._pending_size = 0
        self._held: bytes | None = None  # the newest event that only repeats the counts
        self._silent = False  # a stream of which no byte but blanks came
        self._spoke = False  # a JSON object came, in whatever shape

    def head(self, status: int, headers: Headers, said: Mapping[bytes, bytes]) -> None:
        """Take the answer's head, its headers as pairs and by name; names in lower case.

        Raises:
            Deaf: its content encoding is unknown.
        """
        self._status = status
        self._type = _media_type(said.get(b"content-type", b"")[:_TYPE_BYTES])
        if self._type == _EVENT_STREAM:
            self._begin(EventStreamFeeder(self._limits.line_bytes), ResponseReader._take_messages)
        elif self._type in _NDJSON:
            self._begin(NdjsonFeeder(self._limits.line_bytes), ResponseReader._take_documents)
        self._silent = self.framed
        if b"content-encoding" in said:
            encodings = [value for name, value in headers if name == b"content-encoding"]
            self._decoder = decoder(encodings, self._limits.inflate_bytes)

    def feed(self, chunk: bytes) -> None:
        """Take a piece of the body as it came.

        Raises:
            Deaf: it cannot be followed; nothing may be fed after that.
        """
        if self._decoder is not None:
            chunk = self._decoder.feed(chunk)
        self._take(self, chunk)

    def forget(self) -> None:
        """Let go of what is held, of an answer that cannot be followed."""
        self._pending = []
        self._feeder = None
        self._held = None
        self.skim = None

    def end(self) -> ReadResult:
        """What was said up to here; more may be fed, and the end asked for again."""
        if self.framed:
            reading = self._last_events()
            closed = isinstance(self._feeder, JsonArrayFeeder) and self._feeder.closed
            return reading, reading.ended or closed, self._stream_flaw(reading)
        return self._body(b"".join(self._pending))

    # -- which framing -----------------------------------------------------------------

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
        if start[:1] == b"[" and self._route.streams:
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
        dialect, feeder = self.dialect, self._feeder
        if dialect.telling is None or dialect.cumulative or not self.reading.output:
            return None
        if self._decoder is not None or not isinstance(feeder, SseFeeder) or not feeder.at_rest:
            return None
        return dialect.telling.search

    # -- what it says --------------------------------------------------------------------

    def _take_events(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, SseFeeder)
        for event in self._feeder.feed(chunk):
            if event.name == "error" or self._tells(event.data):
                self._event(self.reading, event)
            elif self.dialect.cumulative:
                self._held = event.data
        self.skim = self._skimming()

    def _take_documents(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, NdjsonFeeder | JsonArrayFeeder)
        self._silent = self._silent and not chunk.strip()
        for line in self._feeder.feed(chunk):
            if self._tells(line):
                self._document(self.reading, line, None)
            elif self.dialect.cumulative:
                self._held = line

    def _take_messages(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, EventStreamFeeder)
        self._silent = self._silent and not chunk.strip()
        for message in self._feeder.feed(chunk):
            self._message(message)

    def _tells(self, data: bytes) -> bool:
        """Whether an event is worth parsing: all are until output was seen."""
        dialect = self.dialect
        if dialect.telling is None or not self.reading.output or data == dialect.done:
            return True
        return dialect.telling.search(data) is not None

    def _event(self, reading: Reading, event: SseEvent) -> None:
        if event.data == self.dialect.done:
            reading.ended = True
            return
        self._document(reading, event.data, event.name)

    def _message(self, message: EventStreamMessage) -> None:
        headers = message.headers
        failure = headers.get(":exception-type") or headers.get(":error-code")
        if failure is None:
            self._document(self.reading, message.payload, headers.get(":event-type"))
            return
        payload = _json(message.payload) or {"message": headers.get(":error-message", "")}
        self.error = self.error or read_error(payload, event=failure)

    def _document(self, reading: Reading, data: bytes, event: str | None) -> None:
        payload = _json(data)
        if isinstance(payload, dict):
            self._payload(reading, payload, event)
        elif event == "error" and self.error is None:
            text = payload if isinstance(payload, str) else data.decode("utf-8", "replace")
            self.error = read_text_error(text)

    def _payload(self, reading: Reading, payload: dict[str, object], event: str | None) -> None:
        if self._route.by_shape and not reading.understood:
            self.dialect, self.api = routes.by_shape(payload) or (self.dialect, self.api)
        self.dialect.read(reading, payload, event)
        self._held = None
        known = self._spoke or reading.understood  # else what it said first is strange
        self._spoke = True
        if self.error is None and (not known or _hints_at_error(payload, event)):
            self.error = read_error(payload, event=event)

    # -- the end -------------------------------------------------------------------------

    def _last_events(self) -> Reading:
        """The reading with what an unfinished end still says; the own one stays as it is."""
        remains = self._feeder.remains() if self._feeder is not None else []
        if not remains and self._held is None:
            return self.reading
        reading = copy.copy(self.reading)
        reading.calls = set(reading.calls)
        if self._held is not None:
            self._document(reading, self._held, None)
        for rest in remains:
            if isinstance(rest, SseEvent):
                self._event(reading, rest)
            elif isinstance(rest, bytes):
                self._document(reading, rest, None)
        return reading

    def _stream_flaw(self, reading: Reading) -> Flaw | None:
        if self._silent:
            return Flaw.EMPTY_BODY
        if reading.ended or reading.finish_reason is not None or self.error is not None:
            return None
        # Said in a shape that the dialect does not know, it may well have been all.
        foreign = self._spoke and not reading.understood
        return None if foreign or not self.dialect.known else Flaw.TRUNCATED

    def _body(self, body: bytes) -> ReadResult:
        """A body that is no stream."""
        reading = Reading()
        payload = _json(body)
        if isinstance(payload, dict):
            self._payload(reading, payload, None)
            return reading, True, None
        if isinstance(payload, list):
            for one in payload:
                if isinstance(one, dict):
                    self._payload(reading, one, None)
            return reading, True, None
        if payload is None:
            return self._no_json(reading, body)
        if isinstance(payload, str) and self._status >= 400:
            self.error = read_text_error(payload)
        return reading, False, None

    def _no_json(self, reading: Reading, body: bytes) -> ReadResult:
        """A body that is no JSON: nothing, a page, documents line by line, half of one, a text."""
        if not body.strip():
            return reading, False, Flaw.EMPTY_BODY
        if _HTML.match(body):
            return reading, False, Flaw.HTML_BODY
        lines = [_json(line) for line in body.split(b"\n") if line.strip()]
        documents = [line for line in lines if isinstance(line, dict)]
        if len(documents) == len(lines) > 1:
            for line in documents:
                self._payload(reading, line, None)
            return reading, reading.ended, self._stream_flaw(reading)
        if body.lstrip().startswith((b"{", b"[")):
            return reading, False, Flaw.TRUNCATED
        if self._status >= 400:
            self.error = read_text_error(body[:4096].decode("utf-8", "replace"))
        return reading, False, None


@lru_cache(maxsize=256)
def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


def _json(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _hints_at_error(payload: dict[str, object], event: str | None) -> bool:
    """Whether a payload may hold an error, cheaply."""
    if event == "error":
        return True
    if not _ERROR_HOLDERS.isdisjoint(payload) and _holds_error(payload):
        return True
    for choice in parts(payload.get("choices")):
        if choice.get("error") or choice.get("finish_reason") in _UNFINISHED:
            return True
    return False


def _holds_error(payload: dict[str, object]) -> bool:
    if not _ERROR_KEYS.isdisjoint(payload) or payload.get("type") in _ERROR_TYPES:
        return True
    if payload.get("finish_reason") in _UNFINISHED:
        return True
    response, delta = part(payload.get("response")), part(payload.get("delta"))
    if response.get("error") or part(response.get("status_details")).get("error"):
        return True
    return bool(delta.get("error")) or delta.get("finish_reason") in _UNFINISHED
