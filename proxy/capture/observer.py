"""Hears one exchange: request, head and chunks go in, what came of it comes out.

It never changes, holds back or keeps a byte that is relayed, and never raises.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from classifier.causes import classify
from classifier.records import (
    Answer,
    Cause,
    Ending,
    Exchange,
    Flaw,
    Kind,
    Timing,
    Usage,
    UsageSource,
)
from proxy.capture.call import Call, Headers
from proxy.routing import headers as dress
from proxy.wire import routes, usage
from proxy.wire.dialect import Reading, word
from proxy.wire.provider_error import stated_type
from proxy.wire.request import RequestReader
from proxy.wire.response import ReadLimits, ReadResult, ResponseReader
from proxy.wire.retry_after import retry_after
from proxy.wire.unreadable import Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverLimits(ReadLimits):
    """How much is held to be understood, in bytes; beyond it the tap goes deaf.

    ``request_bytes`` of a request, encoded and decoded; the rest of its answer.
    """

    request_bytes: int = 8_388_608


_DEFAULT_LIMITS = ObserverLimits()
STALL_S = 60.0  # policy.stall_s of verdicts.md

# Where providers put the id of their answer, the provider's own before a gateway's.
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"x-generation-id",
                b"apim-request-id", b"x-goog-request-id", b"x-ds-trace-id",
                b"x-litellm-call-id")  # fmt: skip
_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens", "input_total", "output_total")  # fmt: skip
_BROKEN = (Ending.CUT_UPSTREAM, Ending.TIMED_OUT)
_NOTHING: ReadResult = (Reading(), False, None)


class CallObserver:
    """Listens to one exchange.

    Arguments:
        call: what is known when the request's head has been read.
        salt: key of the request's digest; the same in every process of a service.
        limits: how much may be held.
        stall_s: silence in seconds after which a call that its agent left was stalled.
    """

    __slots__ = (
        "_answer",
        "_call",
        "_first_byte_s",
        "_first_token_s",
        "_headers",
        "_last",
        "_request",
        "_request_id",
        "_retry",
        "_route",
        "_salt",
        "_size",
        "_skim",
        "_stall_s",
        "_stated",
        "_status",
        "_traceparent",
        "_unreadable",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        *,
        salt: bytes,
        limits: ObserverLimits = _DEFAULT_LIMITS,
        stall_s: float = STALL_S,
    ) -> None:
        self._call = call
        self._salt = salt
        self._stall_s = stall_s
        self._route = routes.route(call.method, call.path)
        said = dress.named(call.request_headers)
        encodings: Sequence[bytes] = ()
        if b"content-encoding" in said:
            encodings = [v for name, v in call.request_headers if name == b"content-encoding"]
        self._request = RequestReader(encodings, limits.request_bytes)
        self._retry = _retry(said.get(b"x-stainless-retry-count"))
        self._traceparent = said.get(b"traceparent")
        self._answer = ResponseReader(self._route, limits)
        self._headers: Headers = ()
        self._stated: Mapping[str, float] = usage.UNSTATED
        self._request_id: str | None = None
        self._status: int | None = None
        self._first_byte_s: float | None = None
        self._first_token_s: float | None = None
        self._last = call.began  # when the newest byte came
        self._size = 0
        self._skim: Callable[[bytes], object] | None = None
        self._unreadable: str | None = None

    # -- hearing -----------------------------------------------------------------------

    def on_request_body(self, chunk: bytes) -> None:
        """Take a piece of the request's body, as it was sent."""
        self._request.feed(chunk)

    def asked_to_stream(self) -> bool:
        """Whether the request's body, as far as it came, asks for a stream."""
        return self._request.asked()[1] is True

    def opened(self) -> Exchange:
        """The exchange as known when its request's head was read: ``ending`` is None."""
        call, route = self._call, self._route
        model, streamed, has_tools = self._request.asked()
        return Exchange(
            id=call.id,
            rollout_id=call.rollout_id,
            upstream=call.upstream,
            api=self._answer.api,
            timing=Timing(call.started_at),
            kind=route.kind,
            method=call.method,
            role=call.role,
            model=route.model or model,
            streamed=route.streams or streamed,
            has_tools=has_tools,
            request_bytes=self._request.size,
            sdk_retry=self._retry,
            attribution=call.attribution,
            key_digest=call.key_digest,
            injected=call.injected,
        )

    def on_response_head(self, status: int, headers: Headers, at: float) -> None:
        """Take the answer's head; header names in lower case, ``at`` monotonic seconds."""
        self._status = status
        self._headers = headers
        self._last = at
        self._first_byte_s = at - self._call.began
        try:
            said = dress.named(headers)
            self._request_id = _request_id(said)
            self._stated = usage.in_headers(said)
            self._answer.head(status, headers, said)
            if status == 200 and self.asked_to_stream() and not self._retry:
                # No SDK sends a request again once its stream began: its body may go.
                self._request.let_go()
        except Unreadable as deaf:
            self._mark_unreadable(str(deaf))
        except Exception as error:  # the house's one broad except, with feed and finish
            self._mark_unreadable(f"{type(error).__name__} while the head was read")

    def on_response_body(self, chunk: bytes, at: float) -> bool:
        """Take a piece of the answer's body as it came, at monotonic seconds.

        Returns:
            Whether this piece completes the stream's terminal event.
        """
        self._size += len(chunk)
        self._last = at
        # Whole events of plain JSON, output seen before, nothing in them to be read.
        skim = self._skim
        if skim is not None and chunk[-3:] == b"}\n\n" and skim(chunk) is None:
            return False
        if self._unreadable is not None:
            return False
        try:
            return self._hear(chunk, at)
        except Unreadable as deaf:
            self._mark_unreadable(str(deaf))
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the answer was read")
        return False

    def _hear(self, chunk: bytes, at: float) -> bool:
        answer = self._answer
        had_ended = answer.reading.ended
        answer.feed(chunk)
        if not answer.framed:
            return False
        self._skim = answer.skim
        reading = answer.reading
        if reading.output and self._first_token_s is None:
            self._first_token_s = at - self._call.began
        return reading.ended and not had_ended

    def _mark_unreadable(self, why: str) -> None:
        self._unreadable = why
        self._skim = None
        self._answer.forget()

    # -- the end -----------------------------------------------------------------------

    def finish(self, ending: Ending, at: float) -> Exchange:
        """The exchange as it ended, at monotonic seconds; may be asked for again.

        A stream whose terminal event came before the transport broke is complete: the agent
        had it all. A body is not, however whole it looks: its reader still waits for bytes.
        """
        try:
            return self._finish(ending, at)
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the end was read")
            self._answer.error = None
        try:  # by its status alone
            return self._exchange(ending, at, _NOTHING, self._cause(ending, at, None))
        except Exception:
            return self._exchange(ending, at, _NOTHING, None)

    def _finish(self, ending: Ending, at: float) -> Exchange:
        answer, status = self._answer, self._status
        heard = answer.end()
        _, whole, flaw = heard
        if whole and status is not None and (answer.framed or ending not in _BROKEN):
            ending = Ending.COMPLETE
        fine = ending is Ending.COMPLETE and status is not None and 200 <= status < 300
        if fine and flaw is None and answer.error is None:
            return self._exchange(ending, at, heard, None)
        # A flaw is only weighed where status and end say that all is well.
        weighed = fine and self._unreadable is None and self._route.kind is Kind.INFERENCE
        return self._exchange(ending, at, heard, self._cause(ending, at, flaw if weighed else None))

    def _cause(self, ending: Ending, at: float, flaw: Flaw | None) -> Cause | None:
        answer, call = self._answer, self._call
        return classify(
            Answer(
                upstream=call.upstream,
                api=answer.api,
                kind=self._route.kind,
                status=self._status,
                ending=ending,
                error=answer.error,
                flaw=flaw,
                silent_s=max(0.0, at - self._last),
                retry_after_s=retry_after(self._headers, now=call.started_at + at - call.began),
                stated_type=stated_type(self._headers),
            ),
            stall_s=self._stall_s,
        )

    # -- the record --------------------------------------------------------------------

    def _exchange(
        self, ending: Ending, at: float, heard: ReadResult, cause: Cause | None
    ) -> Exchange:
        call, route, answer = self._call, self._route, self._answer
        model, streamed, has_tools = self._request.asked()
        reading, whole, _ = heard
        # Whether the answer was understood to where it went: no output then means none.
        followed = self._unreadable is None and (
            reading.understood or answer.error is not None or (self._status or 0) >= 400
        )
        # Only a call that failed is sent again, so only then is the body's digest taken.
        well = cause is None and ending is Ending.COMPLETE and not self._retry
        return Exchange(  # by position: see the nouns
            call.id,
            call.rollout_id,
            call.upstream,
            answer.api,
            Timing(call.started_at, self._first_byte_s, self._first_token_s, at - call.began),
            route.kind,
            call.method,
            call.role,
            route.model or model,
            reading.model,
            self._status,
            ending,
            self._streamed(streamed),
            self._usage(reading, whole),
            reading.finish_reason,
            len(reading.calls) if followed else None,
            reading.output if followed or reading.output else None,  # output seen
            has_tools,
            cause,
            self._request_id,
            self._request.size,
            self._size,
            None if well else self._digest(),
            self._retry,
            call.attribution,
            call.key_digest,
            call.injected,
            self._unreadable,
            None if self._traceparent is None else _trace(self._traceparent),
        )

    def _streamed(self, asked: bool | None) -> bool | None:
        if self._answer.framed:
            return True
        if self._status == 200 and self._size and self._unreadable is None:
            return False
        return self._route.streams or asked

    def _usage(self, reading: Reading, whole: bool) -> Usage:
        source = UsageSource.ABSENT
        if reading.input_tokens is not None or _has_counts(reading):
            final = whole or reading.finish_reason is not None
            source = UsageSource.PROVIDER if final else UsageSource.PARTIAL
        if self._stated:
            reading = copy.copy(reading)
            usage.fill(reading, self._stated)
            if source is UsageSource.ABSENT and _has_counts(reading):
                source = UsageSource.HEADER
        spent, made = self._answer.dialect.totals(reading)
        return Usage(
            reading.input_tokens,
            reading.output_tokens,
            reading.cached_input_tokens,
            reading.cache_write_tokens,
            reading.reasoning_tokens,
            reading.total_tokens,
            spent,
            made,
            source,
            reading.cost_usd,
        )

    def _digest(self) -> str | None:
        line = self._call.method.encode() + b" " + self._call.path + b"\n"
        return self._request.digest(self._salt, line)


def _retry(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) < 5 else None


def _trace(value: bytes) -> str | None:
    """As sent, where it has a traceparent's length in version 00 (w3.org/TR/trace-context)."""
    return value.decode("latin-1") if len(value) == 55 else None


def _request_id(said: Mapping[bytes, bytes]) -> str | None:
    for name in _REQUEST_IDS:
        if name in said:
            return word(said[name].decode("latin-1"))
    return None


def _has_counts(reading: Reading) -> bool:
    return any(getattr(reading, field) is not None for field in _COUNTS)
