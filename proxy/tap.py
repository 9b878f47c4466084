"""Hears one exchange: request, head and chunks go in, what came of it comes out.

It never changes, holds back or keeps a byte that is relayed, and never raises.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson

from classifier.causes import classify
from classifier.records import (
    Answer,
    Attribution,
    Cause,
    Ending,
    Exchange,
    Flaw,
    Kind,
    ProviderError,
    Timing,
    Usage,
    UsageSource,
)
from proxy.wire import table
from proxy.wire.asked import Asked, asked
from proxy.wire.deaf import Deaf
from proxy.wire.dialect import Dialect, Reading, count, part, parts
from proxy.wire.encoding import Decoder, decoder
from proxy.wire.errors import read_error, read_text_error, retry_after, stated_type
from proxy.wire.eventstream import EventStreamFeeder, Message
from proxy.wire.jsonarray import JsonArrayFeeder
from proxy.wire.ndjson import NdjsonFeeder
from proxy.wire.sse import Event, SseFeeder

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the relay sends it.

    ``path`` is raw, after the upstream, without the query. ``started_at`` is in seconds
    since the epoch, ``began`` the same moment on the monotonic clock of every ``at``.
    ``request_headers`` have lower-case names.
    """

    id: str
    rollout_id: str
    upstream: str
    method: str
    path: bytes
    query: bytes = b""
    role: str = "agent"
    attribution: Attribution = Attribution.PATH
    key_digest: str | None = None
    started_at: float
    began: float
    request_headers: Headers = ()
    injected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TapLimits:
    """How much is held to be understood, in bytes; beyond it the tap goes deaf.

    ``request_bytes`` of a request, decoded; ``line_bytes`` of one stream event;
    ``body_bytes`` of an answer that is no stream; ``inflate_bytes`` of an encoded one.
    """

    request_bytes: int = 8_388_608
    line_bytes: int = 16_777_216
    body_bytes: int = 16_777_216
    inflate_bytes: int = 67_108_864


_DEFAULT_LIMITS = TapLimits()

_SSE = b"text/event-stream"
_EVENT_STREAM = b"application/vnd.amazon.eventstream"
_NDJSON = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl",
           b"application/json-lines", b"application/stream+json")  # fmt: skip
_SSE_STARTS = (b"data", b"event", b":", b"id:", b"retry", b"error:", b"\xef\xbb\xbf")
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)

# Where providers put their request's id (wire-facts §6).
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"x-generation-id",
                b"apim-request-id", b"x-goog-request-id", b"x-ds-trace-id",
                b"x-litellm-call-id")  # fmt: skip
# Counts that ride in headers: Bedrock InvokeModel; LiteLLM's pass-through
# (litellm/proxy/pass_through_endpoints/upstream_usage_headers.py).
_HEADER_COUNTS = {
    b"x-amzn-bedrock-input-token-count": "input_tokens",
    b"x-amzn-bedrock-output-token-count": "output_tokens",
    b"x-amzn-bedrock-cache-read-input-token-count": "cached_input_tokens",
    b"x-amzn-bedrock-cache-write-input-token-count": "cache_write_tokens",
    b"x-litellm-total-tokens": "total_tokens",
}
_HEADER_COST = b"x-litellm-response-cost"
_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens", "input_total", "output_total")  # fmt: skip
_ERROR_KEYS = frozenset(("error", "errors", "base_resp", "detail"))
_ERROR_TYPES = ("error", "response.failed")
_UNFINISHED = ("error", "ERROR", "TIMEOUT")  # finish reasons that name a failure


class Tap:
    """Listens to one exchange.

    Arguments:
        call: what is known when the request's head has been read.
        salt: key of the request's digest; the same in every process of a service.
        limits: how much may be held.
    """

    __slots__ = ("_answer", "_asked", "_call", "_deaf", "_decoder", "_dialect", "_error",
                 "_feeder", "_first_byte", "_first_token", "_headers", "_held", "_last", "_limits",
                 "_pending", "_request", "_request_size", "_route", "_salt", "_size", "_skim",
                 "_spoke", "_status", "_take", "api", "reading")  # fmt: skip

    def __init__(self, call: Call, *, salt: bytes, limits: TapLimits = _DEFAULT_LIMITS) -> None:
        self._call = call
        self._salt = salt
        self._limits = limits
        self._route = route = table.route(call.method, call.path)
        self._dialect = route.dialect
        self.api = route.api
        self.reading = Reading()
        self._request: list[bytes] | None = []
        self._request_size = 0
        self._asked: Asked | None = None
        self._headers: Headers = ()
        self._status: int | None = None
        self._first_byte: float | None = None
        self._first_token: float | None = None
        self._last = call.began
        self._size = 0
        self._pending: list[bytes] = []  # of a body, or of a stream whose framing is not known
        self._answer = 0  # bytes in _pending
        self._feeder: SseFeeder | NdjsonFeeder | JsonArrayFeeder | EventStreamFeeder | None = None
        self._take: Callable[[bytes], None] = self._sniff
        self._skim: Callable[[bytes], object] | None = None
        self._decoder: Decoder | None = None
        self._error: ProviderError | None = None
        self._held: bytes | None = None  # the newest event that only repeats the counts
        self._spoke = False  # a JSON object came, in whatever shape
        self._deaf: str | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect the answer is read in."""
        return self._dialect

    @property
    def kind(self) -> Kind:
        """What the call is for."""
        return self._route.kind

    # -- the request -------------------------------------------------------------------

    def hear_request(self, chunk: bytes) -> None:
        """Take a piece of the request's body, as it was sent."""
        self._request_size += len(chunk)
        if self._request is not None:
            self._asked = None  # a head may come before the request's end
            self._request.append(chunk)
            if self._request_size > self._limits.request_bytes:
                self._request = None

    def opened(self) -> Exchange:
        """The exchange as known before an answer: in flight, ``ending`` None."""
        return self._exchange(None, self._call.began, self.reading, None)

    def _read_request(self) -> None:
        """Read what was asked, once; a request too large for it stays unknown."""
        if self._asked is None:
            self._asked = self._ask() if self._request else Asked()

    def _ask(self) -> Asked:
        body = b"".join(self._request or ())
        values = _values(self._call.request_headers, b"content-encoding")
        try:
            undo = decoder(values, self._limits.request_bytes) if values else None
            return asked(undo.feed(body) if undo else body)
        except Deaf:
            return Asked()

    def _digest(self) -> str | None:
        if self._request is None:
            return None
        digest = hashlib.blake2b(key=self._salt[:64], digest_size=8)
        digest.update(self._call.method.encode() + b" " + self._call.path + b"\n")
        for piece in self._request:
            digest.update(piece)
        return digest.hexdigest()

    # -- the answer --------------------------------------------------------------------

    def hear_head(self, status: int, headers: Headers, at: float) -> None:
        """Take the answer's head; header names in lower case, ``at`` monotonic seconds."""
        self._status = status
        self._headers = headers
        self._first_byte = self._last = at
        try:
            self._prepare()
        except Deaf as deaf:
            self._deafen(str(deaf))
        except Exception as error:  # the house's one broad except, with feed and finish
            self._deafen(f"{type(error).__name__} while the head was read")

    def _prepare(self) -> None:
        self._read_request()
        values = _values(self._headers, b"content-encoding")
        if values:
            self._decoder = decoder(values, self._limits.inflate_bytes)
        kind = _content_type(self._headers)
        if kind == _EVENT_STREAM:
            self._begin(EventStreamFeeder(self._limits.line_bytes), self._take_messages)
        elif kind in _NDJSON:
            self._begin(NdjsonFeeder(self._limits.line_bytes), self._take_documents)
        if self._status == 200 and self._asked and self._asked.streamed and not self._retry():
            # No SDK sends a request again once its stream began, so its body is let go.
            self._request = None

    def feed(self, chunk: bytes, at: float) -> bool:
        """Take a piece of the answer's body as it came, at monotonic seconds.

        Returns:
            Whether this piece completes the stream's terminal event.
        """
        self._size += len(chunk)
        self._last = at
        # Skimming: between events, output already seen, whole events of plain JSON, and
        # nothing in them that a reading would want.
        skim = self._skim
        if skim is not None and chunk[-3:] == b"}\n\n" and skim(chunk) is None:
            return False
        if self._deaf is not None:
            return False
        try:
            return self._hear(chunk, at)
        except Deaf as deaf:
            self._deafen(str(deaf))
        except Exception as error:
            self._deafen(f"{type(error).__name__} while the answer was read")
        return False

    def _hear(self, chunk: bytes, at: float) -> bool:
        if self._decoder is not None:
            chunk = self._decoder.feed(chunk)
        had_ended = self.reading.ended
        output = self.reading.output
        self._take(chunk)
        if self.reading.output and not output and self._feeder is not None:
            self._first_token = at
        self._skim = self._skimming()
        return self.reading.ended and not had_ended

    def _skimming(self) -> Callable[[bytes], object] | None:
        feeder, telling = self._feeder, self._dialect.telling
        if telling is None or self._decoder is not None or not self.reading.output:
            return None
        if self._dialect.cumulative:
            return None
        if not isinstance(feeder, SseFeeder) or not feeder.at_rest:
            return None
        return telling.search

    def _deafen(self, why: str) -> None:
        self._deaf = why
        self._skim = None
        self._pending = []
        self._feeder = None

    # -- which framing -----------------------------------------------------------------

    def _begin(
        self,
        feeder: SseFeeder | NdjsonFeeder | JsonArrayFeeder | EventStreamFeeder,
        take: Callable[[bytes], None],
    ) -> None:
        self._feeder = feeder
        self._take = take

    def _sniff(self, chunk: bytes) -> None:
        """Tell a stream from a body by its first bytes: content types are often wrong."""
        self._keep(chunk)
        start = chunk.lstrip()[:8]
        if len(start) < 6 or len(self._pending) > 1:
            start = b"".join(self._pending).lstrip()[:8]
        if len(start) < 6:
            return
        if self._is_sse(start):
            self._begin(SseFeeder(self._limits.line_bytes), self._take_events)
        elif start[:1] == b"[" and self._route.streams:
            self._begin(JsonArrayFeeder(self._limits.line_bytes), self._take_documents)
        else:
            self._take = self._keep
            return
        pending, self._pending, self._answer = b"".join(self._pending), [], 0
        self._take(pending)

    def _is_sse(self, start: bytes) -> bool:
        if _content_type(self._headers) == _SSE:
            return start[:1] not in (b"{", b"[", b"<")
        return self._status == 200 and start.startswith(_SSE_STARTS)

    def _keep(self, chunk: bytes) -> None:
        self._pending.append(chunk)
        self._answer += len(chunk)
        if self._answer > self._limits.body_bytes:
            raise Deaf(f"a body is over {self._limits.body_bytes} bytes")

    # -- what it says --------------------------------------------------------------------

    def _take_events(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, SseFeeder)
        for event in self._feeder.feed(chunk):
            if event.name == "error" or self._tells(event.data):
                self._event(self.reading, event)
            elif self._dialect.cumulative:
                self._held = event.data

    def _tells(self, data: bytes) -> bool:
        """Whether an event is worth parsing: all are until output was seen."""
        dialect = self._dialect
        if dialect.telling is None or not self.reading.output or data == dialect.done:
            return True
        return dialect.telling.search(data) is not None

    def _event(self, reading: Reading, event: Event) -> None:
        if event.data == self._dialect.done:
            reading.ended = True
            return
        self._document(reading, event.data, event.name)

    def _take_documents(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, NdjsonFeeder | JsonArrayFeeder)
        for line in self._feeder.feed(chunk):
            if self._tells(line):
                self._document(self.reading, line, None)
            elif self._dialect.cumulative:
                self._held = line

    def _take_messages(self, chunk: bytes) -> None:
        assert isinstance(self._feeder, EventStreamFeeder)
        for message in self._feeder.feed(chunk):
            self._message(message)

    def _message(self, message: Message) -> None:
        headers = message.headers
        failure = headers.get(":exception-type") or headers.get(":error-code")
        if failure is None:
            self._document(self.reading, message.payload, headers.get(":event-type"))
            return
        payload = _json(message.payload) or {"message": headers.get(":error-message", "")}
        self._error = self._error or read_error(payload, event=failure)

    def _document(self, reading: Reading, data: bytes, event: str | None) -> None:
        payload = _json(data)
        if isinstance(payload, dict):
            self._payload(reading, payload, event)
        elif event == "error" and self._error is None:
            text = payload if isinstance(payload, str) else data.decode("utf-8", "replace")
            self._error = read_text_error(text)

    def _payload(self, reading: Reading, payload: dict[str, object], event: str | None) -> None:
        if self._route.by_shape and not reading.understood:
            self._dialect, self.api = table.by_shape(payload) or (self._dialect, self.api)
        self._dialect.read(reading, payload, event)
        self._held = None
        first, self._spoke = not self._spoke, True
        strange = first and not reading.understood
        if self._error is None and (strange or _hints_at_error(payload, event)):
            self._error = read_error(payload, event=event)

    # -- the end -------------------------------------------------------------------------

    def finish(self, ending: Ending, at: float) -> Exchange:
        """The exchange as it ended, at monotonic seconds; may be asked for again.

        An answer that was whole before the transport broke is complete.
        """
        try:
            return self._finish(ending, at)
        except Exception as error:
            self._deafen(f"{type(error).__name__} while the end was read")
            return self._exchange(ending, at, Reading(), None)

    def _finish(self, ending: Ending, at: float) -> Exchange:
        self._read_request()
        reading = self.reading
        whole = reading.ended
        html = False
        if self._feeder is not None:
            reading = self._last_events()
            whole = reading.ended
        elif self._deaf is None and self._pending:
            reading, whole, html = self._read_body()
        if whole and ending is not Ending.NEVER_CONNECTED and self._status is not None:
            ending = Ending.COMPLETE
        flaw = self._flaw(ending, reading, whole, html)
        cause = self._cause(ending, at, flaw)
        return self._exchange(ending, at, reading, cause, whole=whole)

    def _last_events(self) -> Reading:
        """The reading with what an unfinished end still says; the own one stays as it is."""
        if self._feeder is None:
            return self.reading
        remains = self._feeder.remains()
        held = self._held
        if not remains and held is None:
            return self.reading
        reading = copy.copy(self.reading)
        reading.calls = set(reading.calls)
        if held is not None:
            self._document(reading, held, None)
        for rest in remains:
            if isinstance(rest, Event):
                self._event(reading, rest)
            elif isinstance(rest, bytes):
                self._document(reading, rest, None)
        return reading

    def _read_body(self) -> tuple[Reading, bool, bool]:
        """The reading of a body that is no stream; whether it is whole; whether HTML."""
        body = b"".join(self._pending)
        reading = Reading()
        payload = _json(body)
        if payload is None:
            if _HTML.match(body):
                return reading, False, True
            return reading, self._read_loose(reading, body), False
        for one in payload if isinstance(payload, list) else (payload,):
            if isinstance(one, dict):
                self._payload(reading, one, None)
        if isinstance(payload, str) and self._failed_status():
            self._error = read_text_error(payload)
        return reading, isinstance(payload, dict | list), False

    def _read_loose(self, reading: Reading, body: bytes) -> bool:
        """A body that is no JSON: one JSON document a line, or a plain sentence."""
        lines = [_json(line) for line in body.split(b"\n") if line.strip()]
        if len(lines) > 1 and all(isinstance(line, dict) for line in lines):
            for line in lines:
                self._payload(reading, line, None)  # type: ignore[arg-type]
            return reading.ended
        if self._failed_status() and not body.lstrip().startswith((b"{", b"[")):
            self._error = read_text_error(body[:4096].decode("utf-8", "replace"))
        return False

    def _failed_status(self) -> bool:
        return self._status is not None and self._status >= 400

    def _flaw(self, ending: Ending, reading: Reading, whole: bool, html: bool) -> Flaw | None:
        """What is wrong with an answer of status 2xx that ended cleanly (verdicts.md)."""
        status = self._status or 0
        fine = ending is Ending.COMPLETE and 200 <= status < 300
        if not fine or self.kind is not Kind.INFERENCE or self._deaf is not None:
            return None
        if html:
            return Flaw.HTML_BODY
        if self._size == 0 or (self._feeder is None and not self._has_text()):
            return Flaw.EMPTY_BODY
        if whole or reading.finish_reason is not None or self._error is not None:
            return None
        if self._dialect.name == "opaque" or self._foreign(reading):
            return None
        return Flaw.TRUNCATED

    def _has_text(self) -> bool:
        return any(piece.strip() for piece in self._pending)

    def _foreign(self, reading: Reading) -> bool:
        """Whether something was said in a shape that the dialect does not know."""
        if self._feeder is None:
            return not self._pending[0].lstrip().startswith((b"{", b"["))
        return self._spoke and not reading.understood

    def _cause(self, ending: Ending, at: float, flaw: Flaw | None) -> Cause | None:
        clean = ending is Ending.COMPLETE and self._error is None and flaw is None
        if clean and self._status is not None and 200 <= self._status < 300:
            return None
        return classify(
            Answer(
                upstream=self._call.upstream,
                api=self.api,
                kind=self.kind,
                status=self._status,
                ending=ending,
                error=self._error,
                flaw=flaw,
                silent_s=max(0.0, at - self._last),
                retry_after_s=retry_after(
                    self._headers, now=self._call.started_at + at - self._call.began
                ),
                stated_type=stated_type(self._headers),
            )
        )

    # -- the record ------------------------------------------------------------------------

    def _exchange(
        self,
        ending: Ending | None,
        at: float,
        reading: Reading,
        cause: Cause | None,
        *,
        whole: bool = False,
    ) -> Exchange:
        call = self._call
        asked_for = self._asked or Asked()
        heard = self._heard(reading)
        return Exchange(
            id=call.id,
            rollout_id=call.rollout_id,
            upstream=call.upstream,
            api=self.api,
            timing=self._timing(ending, at),
            kind=self.kind,
            method=call.method,
            role=call.role,
            model=self._route.model or asked_for.model,
            answered_model=reading.model,
            status=self._status,
            ending=ending,
            streamed=self._streamed(asked_for),
            usage=self._usage(reading, whole),
            finish_reason=reading.finish_reason,
            tool_calls=len(reading.calls) if heard else None,
            output_seen=reading.output if heard or reading.output else None,
            has_tools=asked_for.has_tools,
            cause=cause,
            provider_request_id=self._request_id(),
            request_bytes=self._request_size,
            response_bytes=self._size,
            request_digest=self._digest_if_needed(ending, cause),
            sdk_retry=self._retry(),
            attribution=call.attribution,
            key_digest=call.key_digest,
            injected=call.injected,
            deaf=self._deaf,
        )

    def _heard(self, reading: Reading) -> bool:
        """Whether the answer was followed to where it went: no output then means none."""
        if self._deaf is not None:
            return False
        return reading.understood or self._error is not None or self._failed_status()

    def _timing(self, ending: Ending | None, at: float) -> Timing:
        began = self._call.began
        return Timing(
            started_at=self._call.started_at,
            first_byte_s=_since(began, self._first_byte),
            first_token_s=_since(began, self._first_token),
            duration_s=None if ending is None else at - began,
        )

    def _streamed(self, asked_for: Asked) -> bool | None:
        if self._feeder is not None:
            return True
        if self._status == 200 and self._pending:
            return False
        return self._route.streams or asked_for.streamed

    def _usage(self, reading: Reading, whole: bool) -> Usage:
        source = UsageSource.PROVIDER
        if not (whole or reading.finish_reason is not None):
            source = UsageSource.PARTIAL
        if not _has_counts(reading):
            source = UsageSource.HEADER
        cost = self._header_counts(reading)
        if not _has_counts(reading):
            source = UsageSource.ABSENT
        spent, made = self._dialect.totals(reading)
        return Usage(
            input_tokens=reading.input_tokens,
            output_tokens=reading.output_tokens,
            cached_input_tokens=reading.cached_input_tokens,
            cache_write_tokens=reading.cache_write_tokens,
            reasoning_tokens=reading.reasoning_tokens,
            total_tokens=reading.total_tokens,
            input_total=spent,
            output_total=made,
            source=source,
            cost_usd=reading.cost_usd if reading.cost_usd is not None else cost,
        )

    def _header_counts(self, reading: Reading) -> float | None:
        """Fill from headers what the body left open, each count by itself; give the cost."""
        cost = None
        for header, value in self._headers:
            field = _HEADER_COUNTS.get(header)
            if field is not None and getattr(reading, field) is None:
                setattr(reading, field, count(_number(value)))
            elif header == _HEADER_COST:
                cost = _number(value)
        return cost

    def _request_id(self) -> str | None:
        for wanted in _REQUEST_IDS:
            for header, value in self._headers:
                if header == wanted:
                    return value[:200].decode("latin-1")
        return None

    def _retry(self) -> int | None:
        for header, value in self._call.request_headers:
            if header == b"x-stainless-retry-count":
                return int(value) if value.isdigit() and len(value) < 5 else None
        return None

    def _digest_if_needed(self, ending: Ending | None, cause: Cause | None) -> str | None:
        """Only a call that failed is sent again, so only then is the body's digest taken."""
        if cause is None and ending is Ending.COMPLETE and not self._retry():
            return None
        return self._digest() if ending is not None else None


def _json(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for header, value in headers if header == name]


def _content_type(headers: Headers) -> bytes:
    for header, value in headers:
        if header == b"content-type":
            return value.partition(b";")[0].strip().lower()
    return b""


def _number(value: bytes) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _since(began: float, at: float | None) -> float | None:
    return None if at is None else at - began


def _has_counts(reading: Reading) -> bool:
    return any(getattr(reading, name) is not None for name in _COUNTS)


def _hints_at_error(payload: dict[str, object], event: str | None) -> bool:
    """Whether a payload may hold an error, cheaply: where in it errors are found."""
    if event == "error" or not _ERROR_KEYS.isdisjoint(payload):
        return True
    if payload.get("type") in _ERROR_TYPES or payload.get("finish_reason") in _UNFINISHED:
        return True
    if part(payload.get("response")).get("error"):
        return True
    delta = part(payload.get("delta"))
    if delta.get("error") or delta.get("finish_reason") in _UNFINISHED:
        return True
    return any(
        choice.get("error") or choice.get("finish_reason") in _UNFINISHED
        for choice in parts(payload.get("choices"))
    )
