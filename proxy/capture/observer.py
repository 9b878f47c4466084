"""Observe one call: request, response head and chunks go in, an Exchange comes out.

It never changes, delays or keeps a byte that is relayed, and never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from classifier.causes import classify
from classifier.records import Answer, Cause, Ending, Exchange, Flaw, Timing
from proxy.capture.call import Call, CapturedRequest, HeadFacts
from proxy.capture.conversations import Conversations
from proxy.capture.exchange import finished_exchange, opened_exchange
from proxy.capture.response_head import NO_HEAD, ResponseHead
from proxy.capture.silence import SilenceLimits
from proxy.routing import headers as dress
from proxy.wire.dialect import Headers, Payload, Reading
from proxy.wire.framing import Unreadable
from proxy.wire.provider_error import retry_after, stated_type
from proxy.wire.response import ReadLimits, ReadResult, ResponseReader
from proxy.wire.written_call import WrittenCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverLimits(ReadLimits):
    """How much is buffered to be read, in bytes; beyond it the rest goes unread.

    ``request_bytes`` of a request, encoded and decoded; the other limits of its response.
    """

    request_bytes: int = 8_388_608


_DEFAULT_LIMITS = ObserverLimits()
_SILENCE = SilenceLimits()
_BROKEN = (Ending.CUT_UPSTREAM, Ending.TIMED_OUT)
_SUCCESS = frozenset(range(200, 300))
_LAST_TURNS = 16  # of decoding, where a call ends before all of its answer was decoded
_NOTHING_READ: ReadResult = (Reading(), False, None)


class CallObserver:
    """Observe one call.

    Arguments:
        call: what is known when the request's head has been read.
        salt: key of the request's digest; the same in every process of a service.
        limits: how much may be buffered.
        silence: after how long without content a call that its agent left was stalled.
        conversations: those that the call may go on with; None: they are not followed.
        head: what `head_facts` returns of the call; None: it is read here.
    """

    __slots__ = ("_awaited", "_began", "_first_token_s", "_had_ended", "_head", "_quiet_since",
                 "_request", "_response", "_silence", "_size", "_skim", "_unreadable",
                 "behind")  # fmt: skip

    def __init__(
        self,
        call: Call,
        *,
        salt: bytes,
        limits: ObserverLimits = _DEFAULT_LIMITS,
        silence: SilenceLimits = _SILENCE,
        conversations: Conversations | None = None,
        head: HeadFacts | None = None,
    ) -> None:
        self._silence = silence
        self._began = self._quiet_since = call.began
        self._awaited = True  # the provider has the whole request, and the agent reads
        limit = limits.request_bytes
        self._request = CapturedRequest(call, conversations, salt=salt, limit=limit, head=head)
        self._response = ResponseReader(self._request.route, limits)
        self._head = NO_HEAD
        self._first_token_s: float | None = None
        self._size = 0
        self.behind = False  # some of what came is not decoded yet
        self._had_ended = False  # before it came
        self._skim: Callable[[bytes], object] | None = None
        self._unreadable: str | None = None

    def on_request_body(self, chunk: bytes, parsed: Payload | None = None) -> None:
        """Take a piece of the request body, as it was sent; a whole one may be parsed already."""
        self._request.body.feed(chunk, parsed)

    def asked_to_stream(self) -> bool:
        """Whether the request body, as far as it came, asks for a stream."""
        return self._request.body.fields()[1] is True

    @property
    def is_error(self) -> bool:
        """Whether the response's status says that the call failed."""
        return (self._head.status or 0) >= 400

    def opened(self) -> Exchange:
        """Return the exchange of the call in flight: ``ending`` is None."""
        return opened_exchange(self._request, self._response.payloads.api)

    def on_response_head(self, status: int, headers: Headers, at: float) -> None:
        """Take the response's head; header names in lower case, ``at`` monotonic seconds."""
        self._head = head = ResponseHead(status, headers, at - self._began)
        try:
            by_name = dress.named(headers)
            head.take(by_name)
            self._response.head(status, headers, by_name)
            request = self._request
            if status == 200 and request.body.fields()[1] and not request.sdk_retry:
                # No SDK sends a request again once its stream began: its body may go.
                request.body.discard()
            tools = request.facts.tools
            if tools is not None:
                self._response.payloads.written = WrittenCall(tools)
        except Unreadable as error:
            self._mark_unreadable(str(error))
        except Exception as error:  # as everywhere here: observing must not break relaying
            self._mark_unreadable(f"{type(error).__name__} while the head was read")

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
        except Unreadable as error:
            self._mark_unreadable(str(error))
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
            self.behind = response.go_on()
        except Unreadable as error:
            self._mark_unreadable(str(error))
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

    def hold(self) -> None:
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
        for _ in range(_LAST_TURNS if self.behind else 0):  # it was cut, or its agent left
            self.catch_up(at)
        if self.behind:
            self._mark_unreadable("the call ended before its answer was decoded")
        response, status, ended = self._response, self._head.status, ending
        try:
            result = response.end()
            _, complete, flaw = result
            if complete and status is not None and (response.framed or ending not in _BROKEN):
                ended = Ending.COMPLETE
            success = ended is Ending.COMPLETE and status in _SUCCESS
            if success and flaw is None and response.payloads.error is None:
                return self._exchange(ended, at, result, None)
            # A flaw counts only where status and ending are good.
            if not success or self._unreadable is not None:
                flaw = None
            return self._exchange(ended, at, result, self._cause(ended, at, flaw))
        except Exception as error:
            self._mark_unreadable(f"{type(error).__name__} while the end was read")
            response.payloads.error = None
        try:  # by its status alone
            return self._exchange(ending, at, _NOTHING_READ, self._cause(ending, at, None))
        except Exception:
            return self._exchange(ending, at, _NOTHING_READ, None)

    def _cause(self, ending: Ending, at: float, flaw: Flaw | None) -> Cause | None:
        payloads, request, head = self._response.payloads, self._request, self._head
        call = request.call
        request.fail()
        return classify(
            Answer(
                upstream=call.upstream,
                api=payloads.api,
                kind=request.route.kind,
                status=head.status,
                ending=ending,
                error=payloads.error,
                flaw=flaw,
                silent_s=max(0.0, at - self._quiet_since) if self._awaited else 0.0,
                retry_after_s=retry_after(head.headers, now=call.started_at + at - self._began),
                stated_type=stated_type(head.headers),
            ),
            stall_s=self._silence.limit(
                streamed=self._streamed(), has_content=self._first_token_s is not None
            ),
        )

    def _streamed(self) -> bool:
        """Whether the response is a stream; where nothing tells yet, whether one was asked for."""
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
