"""The observer of one call: request, response head and chunks go in, an Exchange comes out.

It never changes, delays or keeps a byte that is relayed, and never raises.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from classifier.causes import Classify, classify
from classifier.error_texts import MAY_TELL, reads_as
from classifier.logical_calls import cuts, is_answer, used_up
from classifier.records import (
    READ_REQUEST_BYTES,
    AnswerState,
    Cause,
    Ending,
    Exchange,
    FailureEvidence,
    Flaw,
    Kind,
    Timing,
    Usage,
    UsageSource,
    check_order,
)
from proxy.capture.answer_content import NOTHING, WORD, content_of, keyed_hash
from proxy.capture.request import Call, CapturedRequest, Conversations, HeadFacts, id_hash
from proxy.routing import headers as http_headers
from proxy.wire import dialect, jobs, routes, usage
from proxy.wire.dialect import Headers, Payload, ResponseFacts, Totals, word
from proxy.wire.framing import Unreadable
from proxy.wire.provider_error import nothing_left, retry_after, stated_type
from proxy.wire.request import Selected
from proxy.wire.response import PayloadReader, ReadLimits, ReadResult, ResponseReader
from proxy.wire.written_call import WrittenCall

# --- response head -----------------------------------------------------------------------------


# Where providers put the id of their response, the provider's own before a gateway's.
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"x-generation-id",
                b"apim-request-id", b"x-goog-request-id", b"x-ds-trace-id",
                b"x-litellm-call-id")  # fmt: skip
_NAMING = frozenset(_REQUEST_IDS)

# Headers of which any states something of the call.
_STATING = usage.HEADERS | dialect.HEADERS | {b"grpc-status"}


@dataclass(slots=True)
class ResponseHead:
    """The head of one response.

    ``headers`` have lower-case names; ``first_byte_s`` is in seconds since the call began;
    ``stated_usage`` are the counts that headers state, ``served_by`` and ``fallback`` who
    answered, as they say, ``tier`` the service tier, None for the standard one.
    """

    status: int | None = None  # None: no response came
    headers: Headers = ()
    first_byte_s: float | None = None
    request_id: str | None = None
    stated_usage: Mapping[str, float] | None = None
    served_by: str | None = None
    fallback: bool | None = None
    tier: str | None = None

    def take(self, by_name: Mapping[bytes, bytes]) -> bool:
        """Take what the headers say, by name; return True if they have a status of gRPC's."""
        if not _NAMING.isdisjoint(by_name):
            self.request_id = request_id(by_name)
        if not _STATING.isdisjoint(by_name):
            self.stated_usage = usage.in_headers(by_name)
            self.served_by = dialect.served_by(by_name)
            self.fallback = dialect.fallback(by_name)
            self.tier = dialect.tier(by_name)
            return b"grpc-status" in by_name
        return False


NO_HEAD = ResponseHead()


def request_id(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the provider's own id of the response, from its headers by name."""
    if _NAMING.isdisjoint(headers):
        return None
    name = next(name for name in _REQUEST_IDS if name in headers)
    return word(headers[name].decode("latin-1"))


# --- the record of a call ----------------------------------------------------------------------


_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens", "input_total", "output_total")  # fmt: skip
# Of every good call.
_COMPLETE, _READ = Ending.COMPLETE, AnswerState.READ
_PROVIDER, _ABSENT = UsageSource.PROVIDER, UsageSource.ABSENT
_BEYOND = "a count or a cost that no call can have"


def exchange_in_flight(request: CapturedRequest, api: str) -> Exchange:
    """Build the exchange of a call in flight: ``ending`` is None."""
    call, route = request.call, request.route
    model, streamed, has_tools = request.body.fields()
    return Exchange(
        id=call.id,
        rollout_id=call.rollout_id,
        upstream=call.upstream,
        api=api,
        timing=Timing(call.started_at),
        kind=route.kind,
        method=call.method,
        role=call.role,
        model=route.model or model,
        streamed=route.streams or streamed,
        has_tools=has_tools,
        request_bytes=request.body.size,
        sdk_retry=request.sdk_retry,
        attribution=call.attribution,
        key_digest=call.key_digest,
        injected=call.injected,
    )


# `finished_exchange` and `_usage` build by position: names take four times the time. Their values
# stand in these rows.
REQUEST_ORDER = (
    "id", "rollout_id", "upstream", "api", "timing", "kind", "method",
    "role", "model", "answered_model", "status", "ending", "streamed",
)  # fmt: skip
ANSWER_ORDER = (
    "usage",
    "finish_reason",
    "tool_calls",
    "output_seen",
    "content_seen",
    "has_tools", "cause", "provider_request_id", "request_bytes", "response_bytes",
    "request_digest",
    "sdk_retry",
    "response_digest",
    "pending",
)  # fmt: skip
CHECKED_ORDER = (
    "attribution", "key_digest", "injected", "unreadable_reason",
    "selector_digest",
    "key_source",
    "model_ambiguous",
    "held", "output_limit", "prompt_words", "continues", "begun_elsewhere",
    "written_call",
    "fallback",
    "served_by",
    "system_fingerprint",
    "weight_version",
    "answer_state", "inferred", "output_digest", "output_reads_as",
    "held_s",
    "billed_as",
    "traceparent",
)  # fmt: skip
USAGE_ORDER = (
    "input_tokens", "output_tokens", "cached_input_tokens",
    "cache_write_tokens", "reasoning_tokens", "total_tokens",
    "input_total", "output_total", "source", "cost_usd",
)  # fmt: skip
check_order(Exchange, REQUEST_ORDER + ANSWER_ORDER + CHECKED_ORDER)
check_order(Usage, USAGE_ORDER)


def finished_exchange(
    request: CapturedRequest,
    head: ResponseHead,
    response: ResponseReader,
    result: ReadResult,
    *,
    ending: Ending,
    cause: Cause | None,
    timing: Timing,
    size: int,
    unreadable: str | None,
    held: bool,
) -> Exchange:
    """Build the exchange of a call that ended.

    Arguments:
        result: what the response said, as ``response.end()`` returned it.
        size: bytes of the response body.
        unreadable: why the response could not be read; None if it could.
        held: the request was not whole, or the agent did not read, as it ended.
    """
    call, route = request.call, request.route
    model, streamed, has_tools = request.body.fields()
    facts = request.facts
    reading, complete, _ = result
    payloads = response.payloads
    # Whether the response was understood to where it went: no output then means none.
    understood = unreadable is None and (
        reading.understood or payloads.error is not None or (head.status or 0) >= 400
    )
    # Only a call that failed is sent again: the body's digest is taken of it and of what follows.
    succeeded = (
        cause is None and ending is _COMPLETE and not request.sdk_retry and not facts.compared
    )
    if response.framed:
        streamed = True
    elif head.status == 200 and size and unreadable is None:
        streamed = False
    else:
        streamed = route.streams or streamed
    stated = head.stated_usage
    if reading.unreadable or stated:
        if reading.unreadable or (stated and not usage.plausible(stated)):
            unreadable = unreadable or _BEYOND
        reading = usage.readable(reading)
    kind = route.kind
    if payloads.finder is not None:
        if route.infers and unreadable is None:
            payloads.settle(reading, request.body.payload())
        kind = payloads.kind(reading, head.status)
    response_id = route.continues or reading.response_id
    counts = _usage(reading, complete, stated, payloads.dialect.totals)
    if reading.content and head.status == 200 and route.answers:
        state: AnswerState | None = _READ
    elif route.answers and kind is not Kind.EMBEDDING:
        unseen = unreadable is not None and unreadable is not _BEYOND
        state = _state(
            reading, counts, facts.output_limit, head.status, payloads, ending, cause,
            unseen=unseen,
        )  # fmt: skip
        response_id = _offered(
            request, head, payloads, reading, kind, route.model or model,
            none=state is _READ or cause is not None,
        )  # fmt: skip
        asks = kind is Kind.OTHER and routes.asks(request.body.keys)
        payloads.api = routes.unread(call.path) if asks else payloads.api
    else:
        state = None
    text = reading.text
    if text is None or response.framed:
        digest, tells = content_of(request, response, reading, size) if state is _READ else NOTHING
    else:  # a chat completion, as most are: in place, at half the cost
        hashed = keyed_hash(request.salt)(f"{call.rollout_id}\n{text}".encode("utf-8", "replace"))
        digest = hashed.hexdigest() if " " in text or len(text) >= WORD else None
        tells = None if MAY_TELL.search(text) is None else reads_as(text)
    # In parts, since Python collects over thirty arguments in a list one by one.
    request_fields = (
        call.id, call.rollout_id, call.upstream, payloads.api, timing, kind, call.method,
        call.role, route.model or model, reading.model, head.status, ending, streamed,
    )  # fmt: skip
    answered = (
        counts,
        reading.finish_reason,
        len(reading.calls) if understood or reading.calls else None,
        reading.output or (False if understood else None),
        reading.content or (False if understood else None),
        has_tools, cause, head.request_id, request.body.size, size,
        None if succeeded else request.digest(),
        request.sdk_retry,
        None if response_id is None
        else request.begun(response_id, kind, route.model or model) if reading.pending is not None
        else id_hash(request.salt)(response_id.encode("utf-8", "replace")).hexdigest(),
        reading.pending,
    )  # fmt: skip
    checked = (
        call.attribution, call.key_digest, call.injected, unreadable,
        request.selector_digest() if request.selected or request.body.selected else None,
        call.key_source,
        request.body.ambiguous and request.ambiguous(),
        held, facts.output_limit, facts.prompt_words, facts.continues, facts.begun_elsewhere,
        None if payloads.written is None or not understood else payloads.written_call(reading),
        head.fallback,
        head.served_by or reading.served_by,
        reading.system_fingerprint,
        reading.weight_version,
        state, payloads.inferred, digest, tells,
        None,  # a call that waited for its turn adds how long
        reading.billed_as if head.tier is None else dialect.billed_as(reading, head.tier),
        None if request.traceparent is None else _trace(request.traceparent),
    )  # fmt: skip
    return Exchange(*(request_fields + answered + checked))


def _state(
    reading: ResponseFacts,
    counts: Usage,
    limit: int | None,
    status: int | None,
    payloads: PayloadReader,
    ending: Ending,
    cause: Cause | None,
    *,
    unseen: bool,
) -> AnswerState | None:
    """Say what was found in an answer; None if it failed, was refused, or is not whole.

    Arguments:
        limit: tokens that the request allows.
        unseen: it could not be read to its end.
    """
    if status is None or not 200 <= status < 300:
        redirected = status is not None and 300 <= status < 400 and cause is None
        return AnswerState.UNREAD if redirected and ending is Ending.COMPLETE else None
    made = _made(counts)
    if reading.content or (made and not reading.has_part):
        return AnswerState.READ
    ended = reading.finish_reason is not None
    if is_answer(reading.finish_reason) or (ended and used_up(limit, made)):
        barren = made == 0 and not reading.output and cuts(reading.finish_reason)
        return AnswerState.EMPTY if barren else AnswerState.READ
    if cause is not None or payloads.error is not None:
        return None
    if unseen:  # of a picture or a sound there is nothing to be read
        return AnswerState.READ if payloads.route.media else AnswerState.UNSEEN
    if ending is not Ending.COMPLETE:
        return None
    if not payloads.seen:
        return AnswerState.UNSEEN
    empty = reading.has_part or reading.pending
    return AnswerState.EMPTY if empty else AnswerState.UNREAD


def _offered(
    request: CapturedRequest,
    head: ResponseHead,
    payloads: PayloadReader,
    reading: ResponseFacts,
    kind: Kind,
    model: str | None,
    *,
    none: bool,
) -> str | None:
    """Return the id of an answer in which nothing was read, and note all by which it is echoed.

    Arguments:
        none: it failed, or was read.
    """
    status, goes_on = head.status or 0, request.route.continues
    known = goes_on or reading.response_id
    if none or not 200 <= status < 300 or (request.call.method != "POST" and not goes_on):
        return known
    ids = jobs.offered(payloads.newest or {}, head.headers, named=kind is Kind.OTHER)
    if not ids:
        return known
    known = known or ids[0]
    if reading.pending is None and request.call.method == "POST":
        reading.pending = False  # it may be fetched, though nothing says that it is to come
    request.offers(ids, known, kind, model)
    return known


def _made(counts: Usage) -> int | None:
    """Return how many tokens were generated; 0 also where the total is the input's alone."""
    made = counts.output_tokens if counts.output_total is None else counts.output_total
    whole = counts.total_tokens
    if made is None and whole is not None and whole == counts.input_total:
        return 0  # Gemini leaves a count of 0 out
    return made


def _usage(
    reading: ResponseFacts, complete: bool, stated: Mapping[str, float] | None, totals: Totals
) -> Usage:
    source = _ABSENT
    if reading.input_tokens is not None or _has_counts(reading):
        final = complete or reading.finish_reason is not None
        source = _PROVIDER if final else UsageSource.PARTIAL
    if stated:
        reading = copy.copy(reading)
        usage.fill(reading, stated)
        if source is _ABSENT and _has_counts(reading):
            source = UsageSource.HEADER
    input_total, output_total = totals(reading)
    return Usage(
        reading.input_tokens, reading.output_tokens, reading.cached_input_tokens,
        reading.cache_write_tokens, reading.reasoning_tokens, reading.total_tokens,
        input_total, output_total, source, reading.cost_usd,
    )  # fmt: skip


def _has_counts(reading: ResponseFacts) -> bool:
    return any(getattr(reading, field) is not None for field in _COUNTS)


def _trace(value: bytes) -> str | None:
    """As sent, where it has a traceparent's length in version 00 (w3.org/TR/trace-context)."""
    return value.decode("latin-1") if len(value) == 55 else None


# --- silence of a provider ---------------------------------------------------------------------
# How long it may last before an abandoned call counts as stalled.


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceLimits:
    """Seconds without content, by what was waited for; pings and comments are no content.

    ``stall_s`` between two content events of a stream, ``first_content_s`` before its first:
    models that reason in secret are silent for minutes. ``whole_answer_s`` until an answer that
    is not streamed is whole.
    """

    stall_s: float = 60.0
    first_content_s: float = 300.0
    whole_answer_s: float = 600.0

    def limit(self, *, streamed: bool, has_content: bool) -> float:
        """Return the limit of one answer, in seconds."""
        if not streamed:
            return self.whole_answer_s
        return self.stall_s if has_content else self.first_content_s


# --- causes of failures ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRules:
    """The classifier of failed calls, and how long a provider may be silent.

    ``on_failure`` is called with the exchange of each call that failed or was left by its agent,
    in the event loop; again where more is known of it. What it raises changes nothing.
    """

    silence: SilenceLimits
    classify: Classify
    on_failure: Callable[[Exchange], object] | None = None


TABLE_ONLY = CauseRules(silence=SilenceLimits(), classify=classify)


# --- observer ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverLimits(ReadLimits):
    """The number of bytes that are buffered to be read; the rest goes unread.

    ``request_bytes`` of a request, encoded and decoded; the other limits of its response.
    """

    request_bytes: int = READ_REQUEST_BYTES


_DEFAULT_LIMITS = ObserverLimits()
# No more than the host of where an answer redirects to: what follows may hold anything.
_HOST = re.compile(
    rb"https?://(?:[^/?#@]*@)?([A-Za-z0-9.:\[\]_-]{1,56})(?=[/?#]|\Z)", re.IGNORECASE
)
_BROKEN = (Ending.CUT_UPSTREAM, Ending.TIMED_OUT)
_SUCCESS = frozenset(range(200, 300))
_LAST_TURNS = 16  # of decoding, where a call ends before all of its answer was decoded
_NOTHING_READ: ReadResult = (ResponseFacts(), False, None)


def _tells(request: CapturedRequest) -> bool:
    """Return True if an error inside a 2xx is the call's own: what a GET fetches may hold any."""
    route = request.route
    return request.call.method == "POST" or route.kind is not Kind.OTHER or bool(route.continues)


def _without_output(result: ReadResult) -> ReadResult:
    """Return the counts and names of an answer whose output its agent cannot read."""
    reading = copy.copy(result[0])
    reading.understood = reading.has_part = True
    reading.output = reading.content = False
    reading.calls, reading.finish_reason, reading.text = frozenset(), None, None
    return reading, result[1], None


class CallObserver:
    """Observe one call.

    Arguments:
        call: what is known when the request's head has been read.
        salt: key of the request's digest; the same in every process of a service.
        limits: how much may be buffered.
        causes: what names the cause where the call fails.
        conversations: those that the call may go on with; None: they are not followed.
        head: what `head_facts` returns of the call; None: it is read here.
    """

    __slots__ = ("_awaited", "_began", "_causes", "_first_token_s", "_had_ended", "_head",
                 "_quiet_since", "_request", "_response", "_size", "_skim", "_unreadable",
                 "behind")  # fmt: skip

    def __init__(
        self,
        call: Call,
        *,
        salt: bytes,
        limits: ObserverLimits = _DEFAULT_LIMITS,
        causes: CauseRules = TABLE_ONLY,
        conversations: Conversations | None = None,
        head: HeadFacts | None = None,
    ) -> None:
        self._causes = causes
        self._began = self._quiet_since = call.began
        self._awaited = True  # the provider has the whole request, and the agent reads
        self._request = CapturedRequest(
            call, conversations, salt=salt, limit=limits.request_bytes, head=head
        )
        self._response = ResponseReader(self._request.route, limits)
        self._head = NO_HEAD
        self._first_token_s: float | None = None
        self._size = 0
        self.behind = False  # some of what came is not decoded yet
        self._had_ended: bool  # before it came
        self._skim: Callable[[bytes], object] | None = None
        self._unreadable: str | None = None

    def on_request_body(self, chunk: bytes, parsed: Payload | None = None) -> None:
        """Take a piece of the request body, as it was sent; a whole one may be parsed already."""
        self._request.body.feed(chunk, parsed)

    def asked_to_stream(self) -> bool:
        """Return True if the request body, as far as it came, asks for a stream."""
        return self._request.body.fields()[1] is True

    def asked_model(self) -> str | None:
        """Return the model that the request asks for, as far as the body came."""
        request = self._request
        return request.route.model or request.body.fields()[0]

    def chosen(self) -> tuple[Selected, Selected]:
        """Return what the request's head, and what its body chose beside the model."""
        return self._request.selected, self._request.body.asked_with

    def start_over(self, at: float) -> None:
        """Take that the call begins now, at monotonic seconds: it has waited for its turn."""
        self._began = self._quiet_since = at

    @property
    def is_error(self) -> bool:
        """True if the response's status says that the call failed."""
        return (self._head.status or 0) >= 400

    def in_flight(self) -> Exchange:
        """Return the exchange of the call in flight: ``ending`` is None."""
        return exchange_in_flight(self._request, self._response.payloads.api)

    def on_response_head(self, status: int, headers: Headers, at: float) -> None:
        """Take the response's head; header names in lower case, ``at`` monotonic seconds."""
        self._head = head = ResponseHead(status, headers, at - self._began)
        try:
            by_name = http_headers.named(headers)
            if head.take(by_name):
                self._response.payloads.take_grpc(by_name)
            self._response.head(status, headers, by_name)
            request = self._request
            if (
                status == 200
                and request.body.fields()[1]
                and not request.sdk_retry
                and not request.route.infers
                and not request.facts.compared
            ):
                # No SDK sends a request again once its stream began: its body may go.
                request.body.discard()
            tools = request.facts.tools
            if tools is not None:
                self._response.payloads.written = WrittenCall(tools)
        except Unreadable as unreadable:  # a name of its own: compiled, a name has one type
            self._mark_unreadable(str(unreadable))
        except Exception as error:  # as everywhere here: observing must not break relaying
            self._mark_unreadable(f"{type(error).__name__} while the head was read")

    def on_redirect(self, status: int, url: bytes) -> None:
        """Take, before the head, that it sends the agent to another origin."""
        host = _HOST.match(url)
        self._unreadable = f"{status} to {'another place' if host is None else host[1].decode()}"

    def on_trailers(self, trailers: Headers) -> None:
        """Take what stands behind the body, where gRPC has its status."""
        self._response.payloads.take_grpc(http_headers.named(trailers))

    def on_refused_head(self, why: str) -> None:
        """Take that the proxy could not pass the response's head on."""
        self._unreadable = why

    def on_response_body(self, chunk: bytes, at: float) -> bool:
        """Take a piece of the response body as it came, at monotonic seconds.

        Returns:
            Whether this piece completes the stream's terminal event, or is not decoded yet
            (``behind``): then the piece has to wait.
        """
        self._size += len(chunk)
        # Whole events of plain JSON, output seen before, nothing in them to be read.
        skim = self._skim
        if skim is not None and chunk[-3:] == b"}\n\n" and skim(chunk) is None:
            self._quiet_since = at
            return False
        if self._unreadable is not None:
            self._quiet_since = at  # any byte may be content
            return False
        response = self._response
        had_ended = response.reading.ended
        try:
            if response.feed(chunk):
                self.behind = True
                self._had_ended = had_ended
                return True
        except Unreadable as unreadable:
            self._quiet_since = at
            self._mark_unreadable(str(unreadable))
            return False
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the answer was read")
            return False
        return response.framed and self._note_progress(had_ended, at)

    def catch_up(self, at: float) -> bool:
        """Decode for another turn, at monotonic seconds; whether the stream has ended since.

        To be called in turns of the event loop while ``behind``: others have theirs between.
        """
        response = self._response
        if not self.behind:
            return False
        try:
            self.behind = response.decode_more()
        except Unreadable as unreadable:
            self._mark_unreadable(str(unreadable))
            return False
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the answer was read")
            return False
        return response.framed and self._note_progress(self._had_ended, at)

    def _note_progress(self, had_ended: bool, at: float) -> bool:
        """Note what a stream said; whether its terminal event is new."""
        response = self._response
        if response.progressed:
            response.progressed = False
            self._quiet_since = at
        self._skim = response.skim
        reading = response.reading
        if reading.output and self._first_token_s is None:
            self._first_token_s = at - self._began
        return reading.ended and not had_ended

    def await_agent(self) -> None:
        """Take that silence is not the provider's: the request is not whole, or nobody reads."""
        self._awaited = False

    def await_provider(self, at: float) -> None:
        """Take that silence is the provider's from now on, at monotonic seconds."""
        self._awaited = True
        self._quiet_since = at

    def _mark_unreadable(self, why: str) -> None:
        self._unreadable = why
        self.behind = False
        self._skim = None
        self._response.forget()

    def finish(self, ending: Ending, at: float) -> Exchange:
        """Return the exchange as it ended, at monotonic seconds; may be called again.

        A stream whose terminal event came before the transport broke is complete: the agent
        had it all. A body is not, however whole it looks: its reader still waits for bytes.
        """
        if self.behind:  # it was cut, or its agent left
            for _ in range(_LAST_TURNS):
                self.catch_up(at)
            if self.behind:
                self._mark_unreadable("the call ended before its answer was decoded")
        response, status, ended = self._response, self._head.status, ending
        try:
            result = response.end()
            _, complete, flaw = result
            finder = response.payloads.finder
            if finder is not None and finder.misshapen:
                result, flaw = _without_output(result), Flaw.WRONG_SHAPE
            if complete and status is not None and (response.framed or ending not in _BROKEN):
                ended = _COMPLETE
            success = ended is _COMPLETE and status in _SUCCESS
            if success and flaw is None and response.payloads.error is None:
                return self._exchange(ended, at, result, None)
            # A flaw counts only where status and ending are good.
            if not success or self._unreadable is not None:
                flaw = None
            hollow = flaw is Flaw.EMPTY_BODY or flaw is Flaw.FOREIGN_BODY
            if hollow and status == 202 and jobs.places(self._head.headers):
                result[0].pending = True  # its head says where it will be
                return self._exchange(ended, at, result, None)
            cause = self._cause(result[0], ended, at, flaw)
            return self._failed(self._exchange(ended, at, result, cause))
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the end was read")
            response.payloads.error = None
        try:  # by its status alone
            cause = self._cause(_NOTHING_READ[0], ending, at, None)
            return self._failed(self._exchange(ending, at, _NOTHING_READ, cause))
        except Exception:
            return self._exchange(ending, at, _NOTHING_READ, None)

    def _failed(self, exchange: Exchange) -> Exchange:
        """Return an exchange that is no plain success, announced as one."""
        if self._causes.on_failure is not None:
            with contextlib.suppress(Exception):
                self._causes.on_failure(exchange)
        return exchange

    def _cause(
        self, reading: ResponseFacts, ending: Ending, at: float, flaw: Flaw | None
    ) -> Cause | None:
        payloads = self._response.payloads
        causes = self._causes
        request = self._request
        head = self._head
        call = request.call
        request.fail()
        refused = (head.status or 0) >= 400
        error = payloads.error if refused or _tells(request) else None
        limits = head.headers if error is None else (*error.headers, *head.headers)
        return causes.classify(
            FailureEvidence(
                upstream=call.upstream,
                api=payloads.api,
                kind=payloads.kind(reading, head.status),
                status=head.status,
                ending=ending,
                error=error,
                flaw=flaw,
                silent_s=max(0.0, at - self._quiet_since) if self._awaited else 0.0,
                retry_after_s=retry_after(limits, now=call.started_at + at - self._began),
                used_up=nothing_left(limits),
                stated_type=stated_type(head.headers),
                answered=bool(reading.output),
                request_keys=request.body.keys,
            ),
            stall_s=causes.silence.limit(
                streamed=self._streamed(), has_content=self._first_token_s is not None
            ),
        )

    def _streamed(self) -> bool:
        """Return True if the response is a stream or, before anything tells, one was asked for."""
        if self._response.framed or self._size:
            return self._response.framed
        return self._request.route.streams or self.asked_to_stream()

    def _exchange(
        self, ending: Ending, at: float, result: ReadResult, cause: Cause | None
    ) -> Exchange:
        request, head = self._request, self._head
        return finished_exchange(
            request,
            head,
            self._response,
            result,
            ending=ending,
            cause=cause,
            timing=Timing(
                request.call.started_at, head.first_byte_s, self._first_token_s, at - self._began
            ),
            size=self._size,
            unreadable=self._unreadable,
            held=not self._awaited,
        )
