"""Read one response as it arrives: its content encoding, its framing, its payloads."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from classifier.logical_calls import is_abort
from classifier.records import Flaw, Kind, ProviderError
from proxy.wire import jobs, libraries, routes
from proxy.wire.dialect import Dialect, Headers, Payload, ResponseFacts, part
from proxy.wire.framing import (
    Decoder,
    EnvelopeFeeder,
    EventStreamFeeder,
    EventStreamMessage,
    JsonArrayFeeder,
    NdjsonFeeder,
    SseEvent,
    SseFeeder,
    Unreadable,
    decoder,
)
from proxy.wire.generic import MEDIA, NATIVE, WINDOW, OutputFinder, beginning, ending, known_shape
from proxy.wire.provider_error import (
    ERROR_EVENTS,
    HOLDERS,
    MARKS,
    abort_reason,
    is_exception,
    marks_failure,
    read_error,
    read_grpc_error,
    read_text_error,
    read_text_failure,
    read_xml_error,
    respelled,
    with_stated_status,
)
from proxy.wire.written_call import TRIGGER, WrittenCall

# --- JSON payloads: usage, output, finish reason and error -------------------------------------


_UNFINISHED = ("error", "ERROR", "TIMEOUT")  # finish reasons that name a failure
_ERROR_TYPES = ("error", "response.failed")
# Where in a payload errors are found; the rest of a successful response is not searched.
_ERROR_KEYS = frozenset(("error", "errors", "detail", "__type")) | HOLDERS
_ERROR_HOLDERS = _ERROR_KEYS | MARKS | {"type", "finish_reason", "response", "delta", "message"}
# A payload with none of these is no known dialect's, though others of its answer were.
_USUAL = frozenset((
    "candidates", "type", "output", "message", "usage", "usageMetadata", "delta", "done",
    "id", "contentBlockIndex", "stopReason", "meta_info",
))  # fmt: skip
# What servers write that is no strict JSON: raw control characters and halves of a character in
# a string (a message cut short), and the numbers that JSON does not have (log-probabilities).
_LOOSE = re.compile(rb"[\x00-\x1f]|\\u[dD][89a-fA-F]|NaN|Infinity")
_LOOSE_BYTES = 262_144  # of such a document
_GLUED = re.compile(rb"\}\s*(?:event: ?[\w.]+\s*)?(?:data: ?)?\{")


class PayloadReader:
    """Apply a dialect to payloads and keep the first error among them.

    ``dialect`` and ``api`` follow the first payload where two dialects share a path.
    ``repeated`` is the newest unparsed event of a cumulative dialect: it only repeats the
    counts. ``newest`` is the newest JSON object that was read, in whatever shape; an empty one
    where a body has several. ``seen`` is false once something was left out, or is no text.
    ``inferred`` is true once output was read by its shape, not by the path's dialect; None if
    none is looked for. ``finder`` looks for output in a format that is not known. ``written`` looks
    for a tool call in the text; None if nobody does. ``refused``: the status says that the call
    failed.
    """

    __slots__ = ("api", "dialect", "error", "finder", "inferred", "newest", "refused",
                 "repeated", "route", "seen", "written")  # fmt: skip

    def __init__(self, route: routes.Route) -> None:
        self.route = route
        self.finder: OutputFinder | None = None
        self.dialect: Dialect = route.dialect
        self.api = route.api
        self.error: ProviderError | None = None
        self.repeated: bytes | None = None
        self.newest: dict[str, object] | None = None
        self.seen = True
        self.inferred = route.inferred
        self.refused = False
        self.written: WrittenCall | None = None

    def is_worth_parsing(self, reading: ResponseFacts, data: bytes) -> bool:
        """Return True if an event can add to the reading. Each can until output was seen."""
        dialect = self.dialect
        if not reading.output or data == dialect.done:
            return True
        relevant = dialect.relevant if reading.content else dialect.relevant_reasoning
        if relevant is None or relevant.search(data) is not None:
            return True
        return self.written is not None and self.written.wants(data)

    def read_event(self, reading: ResponseFacts, event: SseEvent) -> None:
        """Add a server-sent event to the reading."""
        if event.data == self.dialect.done:
            reading.ended = True
            return
        self.read_document(reading, event.data, event.name)

    def read_document(self, reading: ResponseFacts, data: bytes, event: str | None) -> None:
        """Add a JSON document to the reading; ``event`` is its name in the stream."""
        finder = self.finder
        if finder is not None and event not in ERROR_EVENTS and not finder.wants(data):
            return
        self._read_now(reading, data, event)

    def read_kept(self, reading: ResponseFacts) -> None:
        """Add the last documents of a long stream of an unknown format to the reading."""
        if self.finder is not None:
            self.seen = self.seen and self.finder.whole
            for data in self.finder.kept():
                self._read_now(reading, data, None)

    def _read_now(self, reading: ResponseFacts, data: bytes, event: str | None) -> None:
        payload = parse_json(data)
        if isinstance(payload, dict):
            self.read(reading, payload, event)
        elif lines := _lines(data):
            for line in lines:
                self.read_event(reading, SseEvent(event, line))
        elif not data.lstrip().startswith(b"{"):
            text = payload if isinstance(payload, str) else data.decode("utf-8", "replace")
            if event in ERROR_EVENTS:
                self._take_error(read_text_error(text))
            elif not reading.output:
                self.read_text(text)

    def read(self, reading: ResponseFacts, payload: dict[str, object], event: str | None) -> None:
        """Add a parsed payload to the reading."""
        if self.route.shapes and not reading.understood:
            named = routes.by_shape(payload, self.route.shapes)
            self.dialect, self.api = named or (self.dialect, self.api)
        self.dialect.read(reading, payload, event)
        known = reading.understood
        if not known:
            if self.route.by_shape and self._read_by_shape(reading, payload, event):
                return
            # Else it is the first, of no known shape.
            known = self.newest is not None or reading.understood
        if self.written is not None:
            self._look_for_call(self.written, reading, payload, event)
        self.repeated = None
        self.newest = payload
        if self.error is None and (not known or _hints_at_error(payload, event)):
            self._look_for_error(reading, payload, event)

    def _look_for_error(
        self, reading: ResponseFacts, payload: dict[str, object], event: str | None
    ) -> None:
        refused, blamed = self.refused, self.dialect.blamed
        if blamed is not None and not refused:
            payload = dict(blamed(payload))
        marked = self.route.kind is Kind.OTHER and not refused
        self._take_error(
            read_error(
                payload, event=event, refused=refused, answered=reading.output, marked=marked
            )
        )

    def _take_error(self, error: ProviderError | None) -> None:
        if error is not None and self.error is None:
            self.error = error if self.refused else with_stated_status(error)

    def read_text(self, text: str) -> None:
        """Read a text where JSON was expected; in a refusal all of it is the error."""
        start, error = text.lstrip()[:1], None
        if start == "<":
            error = read_xml_error(text)
        elif start in ("{", "["):  # JSON inside a string
            inner = parse_json(text.encode("utf-8", "replace"))
            error = read_error(inner, refused=self.refused, marked=not self.refused)
        if error is None and self.refused:
            error = read_text_error(text)
        elif error is None and start != "<" and self.dialect.known:
            error = read_text_failure(text)
        self._take_error(error)

    def settle(self, reading: ResponseFacts, request: Payload) -> None:
        """Settle at the end, by the request too, whether a text of an unknown format is output."""
        if self.finder is not None and not reading.content:
            self.finder.settle(reading, request)
            if reading.content:
                self.inferred, self.dialect = True, NATIVE

    def kind(self, reading: ResponseFacts, status: int | None) -> Kind:
        """Return what the call was for, as its answer shows."""
        route = self.route
        if status is None or not 200 <= status < 300:
            return route.kind
        if route.infers and self.inferred and reading.content:
            media = self.finder is not None and self.finder.media
            return Kind.ACTIVITY if media else Kind.INFERENCE
        if self.finder is not None and self.finder.vectors and not reading.content:
            return Kind.EMBEDDING if route.kind is Kind.INFERENCE else route.kind
        return route.kind

    def _read_job(self, reading: ResponseFacts, payload: Payload) -> bool:
        """Read a job or a line of results; whether it is one. An answered one excuses errors."""
        is_job, error = jobs.read(reading, payload)
        self.error = None if reading.content else self.error or error
        return is_job

    def take_media(self, reading: ResponseFacts) -> None:
        """Take a picture, a sound or a film for output."""
        reading.output = reading.content = self.inferred = True
        self.finder = self._new_finder()
        self.finder.media = True

    def _new_finder(self) -> OutputFinder:
        route = self.route
        return OutputFinder(
            trusting=not route.infers and not route.dialect.known,
            guarded=route.infers,
            fetching=route.continues is not None,
        )

    def _read_by_shape(self, reading: ResponseFacts, payload: Payload, event: str | None) -> bool:
        """Read what the path's dialect does not understand; whether it is a job that was read."""
        if self.route.jobs:
            return self._read_job(reading, payload)
        route = self.route
        if self.finder is None:
            self.finder = self._new_finder()
        try:
            named = known_shape(payload, event)
            if named is not None:
                self._adopt(named, reading, payload, event)
                return False
            self.finder.take(reading, payload)
            known = route.infers or route.dialect.known
            if not reading.content and (route.continues or not known):
                self.error = self.error or jobs.failure(payload)
        except RecursionError:
            return False
        if reading.content:
            self.inferred = True
            self.dialect = self.dialect if self.dialect.known else NATIVE
        return False

    def _adopt(
        self,
        named: tuple[Dialect, str],
        reading: ResponseFacts,
        payload: Payload,
        event: str | None,
    ) -> None:
        """Read on in the dialect whose shape the answer has; at another's path for its counts."""
        assert self.finder is not None
        dialect, api = named
        self.finder.adopted = True
        self.finder.misshapen = self.route.one_shape and dialect is not self.route.dialect
        if not self.finder.misshapen:
            self.api = api
        self.dialect = dialect
        dialect.read(reading, payload, event)
        self.inferred = self.inferred or (reading.understood and not self.finder.misshapen)

    def written_call(self, reading: ResponseFacts) -> bool | None:
        """Return True if the text ends in a call left unparsed, None if it was not checked."""
        written = self.written
        try:
            return None if written is None else not reading.calls and written.ends_in_call()
        except Exception:  # the rest of the record is made all the same
            return None

    def _look_for_call(
        self,
        written: WrittenCall,
        reading: ResponseFacts,
        payload: dict[str, object],
        event: str | None,
    ) -> None:
        try:
            if reading.calls:
                written.close(verdict=False)
            else:
                written.take(self.dialect.text(payload, event))
        except Exception:  # the rest of the answer is read all the same
            self.written = None

    def take_trailers(self, lines: bytes) -> None:
        """Take the trailers of gRPC: ``grpc-status: 8`` and ``grpc-message``."""
        stated = (line.partition(b":") for line in lines.split(b"\n"))
        self.take_grpc({name.strip().lower(): value.strip() for name, _, value in stated})

    def take_grpc(self, stated: Mapping[bytes, bytes]) -> None:
        """Take the error that gRPC's status states beside an HTTP success, by header or trailer."""
        if not self.refused:
            self._take_error(read_grpc_error(stated))

    def read_exception(self, name: str, body: bytes, message: str) -> None:
        """Take an AWS exception; ``message`` stands in for a body that is no JSON."""
        payload = parse_json(body) or {"message": message}
        error = read_error(payload, event=name)
        if error is not None and error.code is None and error.type is None:
            error = replace(error, type=name)  # it is no exception's: "InternalFailure"
        self.error = self.error or error


def parse_json(data: bytes) -> object:
    """Parse JSON; None if it is none."""
    try:
        return libraries.loads(data)
    except libraries.JSONDecodeError:
        return _parse_loosely(data)


def _lines(data: bytes) -> list[bytes]:
    """Return the events that stand in the data of one; none where they are no objects.

    GLM and Kimi end some without an empty line (rexxars/eventsource-parser#31), and gateways begin
    one of their own behind an event that is not ended (Wei-Shaw/sub2api#1471).
    """
    if len(data) > _LOOSE_BYTES:
        return []
    glued = _GLUED.sub(b"}\n{", data).split(b"\n")
    if len(glued) > 1 and all(isinstance(parse_json(each), dict) for each in glued):
        return glued
    lines = data.split(b"\n")
    return lines if any(isinstance(parse_json(line), dict) for line in lines) else []


def _parse_loosely(data: bytes) -> object:
    if len(data) > _LOOSE_BYTES or not _LOOSE.search(data):
        return None
    try:
        value: object = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def _hints_at_error(payload: dict[str, object], event: str | None) -> bool:
    """Check cheaply whether a payload may hold an error."""
    if event in ERROR_EVENTS:
        return True
    if not _ERROR_HOLDERS.isdisjoint(payload) and _holds_error(payload):
        return True
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return _USUAL.isdisjoint(payload) or abort_reason(payload) is not None
    for choice in choices:
        if isinstance(choice, dict) and (
            choice.get("error") or choice.get("finish_reason") in _UNFINISHED
        ):
            return True
    return False


def _holds_error(payload: dict[str, object]) -> bool:
    if not _ERROR_KEYS.isdisjoint(payload) or payload.get("type") in _ERROR_TYPES:
        return True
    if payload.get("finish_reason") in _UNFINISHED or payload.get("object") == "error":
        return True
    if not MARKS.isdisjoint(payload) and _is_marked(payload):
        return True
    response, delta = part(payload.get("response")), part(payload.get("delta"))
    if response.get("error") or response.get("status") in ("failed", "error"):
        return True
    if part(response.get("status_details")).get("error"):
        return True
    return bool(delta.get("error")) or delta.get("finish_reason") in _UNFINISHED


def _is_marked(payload: dict[str, object]) -> bool:
    """Return True if the payload or its status is the error (vLLM, Mistral, DashScope)."""
    return isinstance(payload.get("status"), dict) or marks_failure(respelled(payload))


# --- a body that is no stream: JSON, JSON lines, HTML, text, nothing ---------------------------


# What a response said up to its end; whether it is complete, even if the transport broke; and
# its flaw, which counts only where its status and its ending are good.
ReadResult = tuple[ResponseFacts, bool, Flaw | None]

_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a]")  # no text has these control characters
_TEXT_BYTES = 4096  # of a plain-text error


def read_body(body: bytes, payloads: PayloadReader, type_: bytes = b"") -> ReadResult:
    """Read a whole body of a content type; an error in it is left in ``payloads.error``."""
    reading = ResponseFacts()
    if payloads.route.windows and len(body) > 2 * WINDOW and not payloads.refused:
        return _read_windows(reading, body, payloads)
    payload = parse_json(body)
    if isinstance(payload, dict):
        payloads.read(reading, payload, None)
        return reading, True, None if reading.content else _aborted(reading)
    if isinstance(payload, list):
        for item in payload:
            if isinstance(item, dict):
                payloads.read(reading, item, None)
        foreign = payloads.newest is None
        payloads.newest = {}  # together they are the answer
        return reading, True, _foreign(payloads) if foreign else _aborted(reading)
    if payload is None:
        return _read_no_json(reading, body, payloads, type_)
    if isinstance(payload, str):
        payloads.read_text(payload)
    return reading, False, _foreign(payloads)


def _foreign(payloads: PayloadReader) -> Flaw | None:
    """Return the flaw of an answer without an object, where all clients look for one."""
    return Flaw.FOREIGN_BODY if payloads.route.one_shape else None


def _read_windows(reading: ResponseFacts, body: bytes, payloads: PayloadReader) -> ReadResult:
    """Read the beginning and the end of a long body of an unknown format."""
    payloads.seen = False
    start = body[:WINDOW]
    lines = _documents(start[: start.rfind(b"\n") + 1])
    if len(lines) > 1:
        ends = body[-WINDOW:]
        lines += _documents(ends[ends.find(b"\n") + 1 :])
    else:
        begun = beginning(body)
        first = begun if isinstance(begun, list) else [begun]
        lines = [one for one in (*first, *ending(body)) if isinstance(one, dict)]
    for document in lines:
        payloads.read(reading, document, None)
    payloads.newest, reading.text = {}, None  # nobody knows what is between
    return reading, True, None


def _read_no_json(
    reading: ResponseFacts, body: bytes, payloads: PayloadReader, type_: bytes
) -> ReadResult:
    """Read what is no JSON value: nothing, a page, JSON lines, half a document, a text."""
    if not body.strip():
        return reading, False, Flaw.EMPTY_BODY
    if _HTML.match(body):
        return reading, False, Flaw.HTML_BODY
    if payloads.route.media and not payloads.refused:
        reading.output = reading.content = True
        return reading, True, None
    if payloads.route.continues and type_.startswith(_MEDIA) and not payloads.refused:
        payloads.take_media(reading)
        return reading, True, None
    documents = _documents(body)
    if len(documents) > 1:
        for document in documents:
            payloads.read(reading, document, None)
        payloads.newest = {}
        return reading, reading.ended, truncation(reading, payloads)
    if body.lstrip().startswith((b"{", b"[")):
        return reading, False, Flaw.TRUNCATED
    payloads.seen = _is_text(body)
    if payloads.seen:
        payloads.read_text(body[: _TEXT_BYTES + 1].decode("utf-8", "replace"))
    return reading, False, _foreign(payloads)


def _is_text(body: bytes) -> bool:
    """Return True if a body begins as UTF-8 text does."""
    start = body[:_TEXT_BYTES]
    if _BINARY.search(start):
        return False
    # A character that the cut divides is no fault.
    return "\ufffd" not in start.decode("utf-8", "replace")[:-1]


def _documents(body: bytes) -> list[dict[str, object]]:
    """Return the objects of JSON lines; none where any line is something else."""
    documents = []
    for line in body.split(b"\n"):
        document = parse_json(line) if line.strip() else {}
        if not isinstance(document, dict):
            return []
        if line.strip():
            documents.append(document)
    return documents


def truncation(reading: ResponseFacts, payloads: PayloadReader) -> Flaw | None:
    """Return the flaw of events without an end, or aborted before a word; None if an error came."""
    if reading.finish_reason is not None:
        return _aborted(reading)
    if payloads.error is not None:
        return None
    if reading.ended:
        return _foreign(payloads) if payloads.newest is None and not reading.understood else None
    # Payloads of a shape that the dialect does not know may well be complete.
    foreign = payloads.newest is not None and not reading.understood
    # What was read by its shape may have an ending of its own.
    return None if foreign or payloads.inferred or not payloads.dialect.known else Flaw.TRUNCATED


def _aborted(reading: ResponseFacts) -> Flaw | None:
    """Return the flaw of an answer without a word that an engine says it ended by itself."""
    return None if reading.content or not is_abort(reading.finish_reason) else Flaw.ABORTED


# --- the response ------------------------------------------------------------------------------


Feeder = SseFeeder | NdjsonFeeder | JsonArrayFeeder | EventStreamFeeder | EnvelopeFeeder

_SSE = b"text/event-stream"
_EVENT_STREAM = b"application/vnd.amazon.eventstream"
_NDJSON = frozenset((b"application/x-ndjson", b"application/ndjson", b"application/jsonl",
                     b"application/json-lines", b"application/stream+json"))  # fmt: skip
# gRPC-web and Connect's streams, with messages in JSON or in bytes.
_ENVELOPES = re.compile(rb"application/(?:grpc-web(-text)?(?:\+\w+)?|connect\+\w+)")
_FRAMED = _NDJSON | {_EVENT_STREAM} | {
    b"application/" + name
    for name in (b"grpc-web", b"grpc-web+proto", b"grpc-web+json", b"grpc-web-text",
                 b"grpc-web-text+proto", b"connect+proto", b"connect+json")
}  # fmt: skip
_SSE_STARTS = (b"data", b"event", b":", b"id:", b"retry", b"error:", b"\xef\xbb\xbf")
_ACCEPTED = 202
_MEDIA = tuple(map(str.encode, MEDIA))
_SNIFFED = 6  # bytes that distinguish a stream from a body
_TYPE_BYTES = 80  # of a content type; a longer one is unknown
# Events that only keep a connection open: docs.claude.com/en/api/messages-streaming (ping),
# ChatGPT's backend (keepalive).
_KEEPALIVES = frozenset(("ping", "keepalive", "heartbeat"))
_KEEPALIVE = re.compile(rb'"type" ?: ?"(?:ping|keepalive|heartbeat)"')
_SHORT_STREAM = 16_384  # bytes of a stream whose events are held until it ends
_KEEPALIVE_BYTES = 64  # of their data; a longer event is none
# What parsing an encoded body may cost: its objects and arrays, lines at four times that, numbers
# at a quarter. Of what compresses as no answer does (20 times at most), 50,000 cost 30 ms.
_BODY_WEIGHT, _BOMB_WEIGHT, _BOMB_RATIO = 600_000, 50_000, 50
_NO_STREAM = ResponseFacts()  # of a response that is no stream (yet); nobody writes to it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The number of bytes of a response that are buffered; the rest goes unread.

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

    __slots__ = ("_decoder", "_events", "_fed", "_feeder", "_limits", "_pending", "_pending_size",
                 "_silent", "_status", "_take", "_type", "_weight", "framed",
                 "payloads", "progressed", "reading", "skim")  # fmt: skip

    def __init__(self, route: routes.Route, limits: ReadLimits) -> None:
        self._limits = limits
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
            Unreadable: too many content encodings are chained.
        """
        self._status = status
        if status >= 400:
            self.payloads.refused = True
        self._type = _media_type(by_name.get(b"content-type", b"")[:_TYPE_BYTES])
        if self._type in _FRAMED:
            self._begin_framed()
        self._silent = self.framed
        if b"content-encoding" in by_name:
            encodings = [value for name, value in headers if name == b"content-encoding"]
            self._decoder = decoder(encodings, self._limits.inflate_bytes, trusting=False)

    def feed(self, chunk: bytes) -> bool:
        """Take a piece of the body; return True if `decode_more` is to decode the rest of it.

        Raises:
            Unreadable: it cannot be read; nothing may be fed after that.
        """
        decoder = self._decoder
        if decoder is not None:
            self._take_decoded(decoder, decoder.start(chunk))
            return decoder.behind
        self._take(self, chunk)
        return False

    def decode_more(self) -> bool:
        """Decode for another turn; return True if that is not all.

        Raises:
            Unreadable: as `feed`.
        """
        decoder = self._decoder
        if decoder is None:
            return False
        self._take_decoded(decoder, decoder.decode_more())
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
        reading, whole, flaw = read_body(b"".join(self._pending), payloads, self._type)
        if flaw is not Flaw.EMPTY_BODY:
            return reading, whole, flaw
        route = payloads.route
        if self._status == _ACCEPTED and (route.jobs or route.continues):
            reading.pending = True  # docs.x.ai (deferred completions): not there yet
            return reading, True, None
        return reading, whole, self._nothing()

    def _nothing(self) -> Flaw:
        """Name what is wrong with a response of which nothing could be read."""
        cut = self._decoder is not None and self._decoder.cut
        return Flaw.TRUNCATED if cut else Flaw.EMPTY_BODY

    # -- framing -----------------------------------------------------------------------

    def _begin(self, feeder: Feeder, take: Callable[[ResponseReader, bytes], None]) -> None:
        self.framed = True
        self.reading = ResponseFacts()
        self._events: list[list[SseEvent]] | None = []  # of a short stream
        self._fed = 0  # bytes of it that were read, and not skimmed
        self._feeder = feeder
        self._take = take

    def _begin_framed(self) -> None:
        limit, envelopes = self._limits.line_bytes, _ENVELOPES.fullmatch(self._type)
        if self._type == _EVENT_STREAM:
            self._begin(EventStreamFeeder(limit), ResponseReader._take_messages)
        elif envelopes is None:
            self._begin(NdjsonFeeder(limit), ResponseReader._take_documents)
        else:
            text = envelopes[1] is not None
            self._begin(EnvelopeFeeder(limit, text=text), ResponseReader._take_envelopes)

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
        if not start.startswith(b"{"):  # as most bodies begin, and no stream that bytes tell
            self._frame(start)
        self._take(self, chunk)

    def _frame(self, start: bytes) -> None:
        if start[:1] == b"[" and self.payloads.route.streams:
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
        held = self._events
        if held is not None:
            held.append(events)
            self._fed += len(chunk)
            if self._fed > _SHORT_STREAM:
                self._events = None
        for event in events:
            if event.name in ERROR_EVENTS or payloads.is_worth_parsing(reading, event.data):
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

    def _take_envelopes(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, EnvelopeFeeder)
        payloads, reading = self.payloads, self.reading
        for payload, trailers, end in self._feeder.feed(chunk):
            reading.ended = reading.ended or trailers or end
            if trailers:
                payloads.take_trailers(payload)
            elif payload.lstrip()[:1] in (b"{", b"["):
                payloads.read_document(reading, payload, None)
            elif payload:
                payloads.seen = False  # a message in protobuf
            self.progressed = True

    # -- the end -----------------------------------------------------------------------

    def whole_payloads(self, size: int) -> list[tuple[Payload, str | None]]:
        """Return what the whole answer says, payloads with the names of events; else nothing.

        Arguments:
            size: bytes of the body, of which some of a stream were skimmed and are unknown.
        """
        newest = self.payloads.newest or {}
        if not self.framed:
            return [(newest, None)]
        if self.payloads.api == "openai.responses" and isinstance(newest.get("response"), dict):
            return [(part(newest["response"]), None)]
        if self._events is None or (self._fed != size and self._decoder is None):
            return []
        payloads: list[tuple[Payload, str | None]] = []
        for event in [event for events in self._events for event in events]:
            payload = parse_json(event.data)
            if isinstance(payload, dict):
                payloads.append((payload, event.name))
        return payloads

    def _last_events(self) -> ResponseFacts:
        """Return a copy of the reading with the unfinished end; ``reading`` is not changed."""
        remains = self._feeder.remains() if self._feeder is not None else []
        payloads = self.payloads
        if not remains and payloads.repeated is None and payloads.finder is None:
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
        payloads.read_kept(reading)
        payloads.written = written
        return reading

    def _stream_flaw(self, reading: ResponseFacts) -> Flaw | None:
        return self._nothing() if self._silent else truncation(reading, self.payloads)


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
