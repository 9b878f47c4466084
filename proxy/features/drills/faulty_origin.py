"""Fault injection: answers a call in the provider's place, for rollouts registered with a fault.

No provider is called. Nothing is injected into a rollout that was registered without a fault.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

import orjson

from proxy.features.drills.fault_scripts import (
    GEMINI,
    INVALID_ANSWERS,
    NOTHING_SAID,
    SILENT,
    WORDS,
    ErrorAnswer,
    ErrorScript,
    FaultedRequest,
    ReplayedError,
    Reply,
    replayed_message,
    script_for,
)
from proxy.outbound import errors
from proxy.outbound.connection import ResponseHandler
from proxy.outbound.request import ArrivingBody, SerializedRequest, UpstreamRequest
from proxy.routing import headers as http_headers
from proxy.routing.headers import INJECTED_HEADER
from proxy.wire import routes
from proxy.wire.dialect import Payload, part
from proxy.wire.framing import Unreadable, decoder

if TYPE_CHECKING:
    from truezero.models import Fault, FaultKind, ReplayedCall


_REQUEST_LIMIT = 64 * 1024 * 1024
_JSON = ("content-type", "application/json")
_SSE = ("content-type", "text/event-stream; charset=utf-8")


def wants_usage(body: Payload) -> bool:
    """Return True if a chat request asks for its stream's usage."""
    return part(body.get("stream_options")).get("include_usage") is True


class FaultyOrigin:
    """Answers one call as a provider in trouble would: an origin, and its only connection.

    Arguments:
        fault: which trouble.
        method: of the request, upper case.
        path: raw, after the upstream, without the query.
        query: raw.
    """

    closed = False
    reading_paused = False

    def __init__(self, fault: Fault, *, method: str, path: bytes, query: bytes = b"") -> None:
        self.resets = fault.kind == "reset"
        self._fault = fault
        self._route = routes.route(method, path)
        self._framed = script_for(self._route.api) is not GEMINI or b"alt=sse" in query
        self._loop = asyncio.get_running_loop()
        self._response: ResponseHandler | None = None
        self._steps: Iterator[_Step] = iter(())
        self._due: asyncio.Handle | None = None  # the next step

    # the origin's

    def compose(self, request: UpstreamRequest) -> SerializedRequest:
        """Take a request, all of which is there."""
        body = request.body
        assert isinstance(body, bytes), "of a drilled call the body is collected"
        fault = self._fault
        call = _FaultedCall(
            kind=fault.kind,
            script=script_for(self._route.api),
            request=self._faulted_request(_decoded(body, request.headers)),
        )
        self._steps = self._play(call)
        return SerializedRequest(b"", body)

    def take(self) -> FaultyOrigin:
        """Return the connection."""
        return self

    async def connect(self, connect_s: float | None) -> FaultyOrigin:
        """Do as `take` does."""
        return self

    # the connection's

    def begin(self, message: SerializedRequest, exchange: ResponseHandler) -> None:
        """Answer the request, a step at a time."""
        self._response = exchange
        exchange.connection = self
        exchange.sent = True
        self._due = self._loop.call_soon(self._step)

    def write_part(self, body: ArrivingBody, framed: bytes) -> None:
        """Do nothing: of a drilled call the body is collected."""

    def may_repeat(self, message: SerializedRequest) -> bool:
        """Return False: every fault is played once."""
        return False

    def resume_reading(self) -> None:
        """Go on: the reader has caught up."""
        self.reading_paused = False
        self._due = self._loop.call_soon(self._step)

    def abort(self) -> None:
        """Say nothing more."""
        response, self._response, self.closed = self._response, None, True
        if self._due is not None:
            self._due.cancel()
        if response is not None:
            response.connection = None

    def fail(self, error: errors.UpstreamError) -> None:
        """Break off; the reader gets the error."""
        response = self._response
        self.abort()
        if response is not None:
            silent = isinstance(error, errors.ReadTimeout)
            response.error = errors.ReadTimeout("no byte came") if silent else error
            response.wake()

    # the fault

    def _play(self, call: _FaultedCall) -> Iterator[_Step]:
        """Yield what the provider does: seconds of silence, a head, parts of a body, an error."""
        fault = self._fault
        if fault.kind == "replay":
            yield from _replay(fault.calls[0], call)
            return
        if fault.kind in ("slow", "hang"):
            yield fault.delay_s if fault.kind == "slow" else math.inf
        if fault.kind == "reset":
            yield errors.ReadError("connection reset by peer")
        answer = _PLAYS.get(fault.kind, _refuse)(call)
        yield answer
        yield from answer.pieces
        if answer.cut:
            yield errors.RemoteProtocolError("peer closed connection before the body's end")

    def _step(self) -> None:
        """Take the next step; each is a turn of its own, as it would be."""
        response = self._response
        if response is None or self.reading_paused:
            return
        step = next(self._steps, None)
        if isinstance(step, errors.UpstreamError):
            self.fail(step)
        elif step is None:
            response.ended, self._response, response.connection = True, None, None
            response.wake()
        elif isinstance(step, float):
            if step != math.inf:
                self._due = self._loop.call_later(step, self._step)
        else:
            if isinstance(step, _Answer):
                response.message, response.status = None, step.status
                response.headers.extend(step.headers)
                response.wake()
            elif response.arrived(step):
                self.reading_paused = True
            self._due = self._loop.call_soon(self._step)

    def _faulted_request(self, content: bytes) -> FaultedRequest:
        body = _parsed(content)
        named = self._route.model or body.get("model")
        return FaultedRequest(
            model=named if isinstance(named, str) else "unknown",
            streamed=self._route.streams or body.get("stream") is True,
            usage=wants_usage(body),
            framed=self._framed,
            size=len(content),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A response; ``cut``: the connection breaks behind its last piece."""

    status: int
    headers: http_headers.Pairs
    pieces: Sequence[bytes]
    cut: bool = False


_Step = float | bytes | _Answer | errors.UpstreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultedCall:
    """One call to be failed: its fault, its dialect's script, and what it asks for."""

    kind: FaultKind
    script: ErrorScript
    request: FaultedRequest

    @property
    def failure(self) -> ErrorAnswer:
        return self.script.errors(self.request.model)[self.kind]

    def body(self, status: int, payload: object, headers: Mapping[str, str]) -> _Answer:
        """Return a complete JSON answer."""
        content = json.dumps(payload).encode()
        stated = {"content-length": str(len(content)), **headers}
        return self._answer(status, _JSON, stated, [content])

    def raw(self, status: int, content_type: tuple[str, str], content: bytes) -> _Answer:
        """Return a complete answer of these bytes."""
        return self._answer(status, content_type, {"content-length": str(len(content))}, [content])

    def half(self, payload: object) -> _Answer:
        """Return a JSON answer that is truncated below its content-length."""
        content = json.dumps(payload).encode()
        stated = {"content-length": str(len(content))}
        return self._answer(200, _JSON, stated, [content[: len(content) // 2]], cut=True)

    def events(self, events: Sequence[bytes], *, cut: bool = False) -> _Answer:
        """Return a stream, complete or truncated."""
        return self._answer(200, _SSE if self.request.framed else _JSON, {}, events, cut=cut)

    def _answer(
        self,
        status: int,
        content_type: tuple[str, str],
        headers: Mapping[str, str],
        pieces: Sequence[bytes],
        *,
        cut: bool = False,
    ) -> _Answer:
        named = [content_type, *headers.items()]
        pairs = [(name.encode("ascii"), value.encode("ascii")) for name, value in named]
        pairs.append((INJECTED_HEADER, self.kind.encode("ascii")))
        return _Answer(status=status, headers=pairs, pieces=pieces, cut=cut)


def _refuse(call: _FaultedCall) -> _Answer:
    failure = call.failure
    return call.body(failure.status, failure.body, failure.headers)


def _break(call: _FaultedCall) -> _Answer:
    """Return an error inside a 200, after the first words if the request streams."""
    if not call.request.streamed:
        return _refuse(call)
    return call.events([*call.script.begun(call.request), call.script.breaking(call.request)])


def _truncate(call: _FaultedCall) -> _Answer:
    if call.request.streamed:
        return call.events(call.script.begun(call.request), cut=True)
    return call.half(call.script.whole(call.request, Reply(words=WORDS)))


def _say_nothing(call: _FaultedCall) -> _Answer:
    """Return a complete, valid answer without content."""
    return _say(call, SILENT)


def _spoil(call: _FaultedCall) -> _Answer:
    """Return a complete, valid answer by which the measurement is spoilt."""
    request, reply = INVALID_ANSWERS[call.kind](call.request)
    return _say(replace(call, request=request), reply)


def _say(call: _FaultedCall, reply: Reply) -> _Answer:
    if call.request.streamed:
        return call.events(call.script.stream(call.request, reply))
    return call.body(200, call.script.whole(call.request, reply), {})


_PLAYS: Mapping[FaultKind, Callable[[_FaultedCall], _Answer]] = {
    "stream_error": _break,
    "truncation": _truncate,
    "empty": _say_nothing,
    **dict.fromkeys(INVALID_ANSWERS, _spoil),
}


# --- replays -------------------------------------------------------------------------------------


_HTML = ("content-type", "text/html")
_PLACEHOLDER_WORDS = 4_096  # at most; an answer counts as many tokens as were recorded


def _replay(played: ReplayedCall, call: _FaultedCall) -> Iterator[_Step]:
    """Yield what a provider did before: its waits, status, kind of error and end, no word of it."""
    head_s = whole_s = played.duration_s or 0.0
    if played.status is not None:
        head_s = min(played.first_byte_s or 0.0, whole_s)
        yield head_s
        answer = _replayed(played, call)
        yield answer
        *pieces, last = answer.pieces or (b"",)
        yield from pieces
        yield whole_s - head_s
        if played.ending == "complete":
            yield last
            return
        yield last if pieces else last[: len(last) // 2]
    elif played.ending in _BROKEN:
        yield whole_s
    broken = _BROKEN.get(played.ending)
    yield broken() if broken else math.inf  # its agent left, or ended, first


_BROKEN: Mapping[str, Callable[[], errors.UpstreamError]] = {
    "timed_out": lambda: errors.ReadTimeout("no byte came"),
    "never_connected": lambda: errors.ConnectError("connection refused"),
    "cut_upstream": lambda: errors.RemoteProtocolError("peer closed connection before its end"),
    "lost": lambda: errors.ReadError("connection reset by peer"),
}
"""By the ending of a call that its agent did not leave."""


def _replayed(played: ReplayedCall, call: _FaultedCall) -> _Answer:
    """Return the response that stands for the one that came; one that broke off ends too late."""
    assert played.status is not None
    request = call.request
    if played.status >= 300 or _names_error(played):
        return _replayed_error(played, call)
    if played.reason == "empty_body":
        return call.raw(played.status, _JSON, b"")
    if played.reason == "html_body":
        return call.raw(played.status, _HTML, b"<html>As recorded.</html>")
    if played.reason == "foreign_body":
        return call.raw(played.status, _JSON, b"null")
    if played.ending != "complete" or played.reason == "truncated":
        if request.streamed and played.spoke:
            return call.events(call.script.begun(request))
        if request.streamed:
            return call.events([])
    reply = _recorded(played, request)
    if played.answered_model is not None:
        call = replace(call, request=replace(request, model=played.answered_model))
    answer = _say(call, reply)
    if played.reason == "truncated":
        return call.raw(played.status, _JSON, answer.pieces[0][: len(answer.pieces[0]) // 2])
    return replace(answer, status=played.status)


_WITHOUT_ERROR = frozenset(
    ("truncated", "empty_body", "html_body", "foreign_body", "aborted")
)  # flaws


def _names_error(played: ReplayedCall) -> bool:
    return (
        played.ending == "complete"
        and played.subcategory is not None
        and played.reason not in _WITHOUT_ERROR
    )


def _replayed_error(played: ReplayedCall, call: _FaultedCall) -> _Answer:
    status = played.status or 200
    worded = played.worded and played.subcategory is not None
    error = ReplayedError(
        status=status,
        code=played.error_code,
        message=replayed_message(played.subcategory or "", played.reason) if worded
        else NOTHING_SAID,
        wait_s=played.retry_after_s,
    )  # fmt: skip
    body = call.script.error(error)
    if status < 300 and call.request.streamed:
        begun = call.script.begun(call.request) if played.spoke else []
        return call.events([*begun, call.script.error_event(call.request, body)])
    wait = {} if error.wait_s is None else {"retry-after": f"{error.wait_s:g}"}
    return call.body(status, body, wait)


def _recorded(played: ReplayedCall, request: FaultedRequest) -> Reply:
    """Return placeholder words of the length and for the count of tokens that were recorded."""
    if played.input_tokens is None or not played.request_bytes:
        read = max(1, request.size // 4)
    else:
        read = round(played.input_tokens * request.size / played.request_bytes)
    written = len(WORDS) if played.output_tokens is None else played.output_tokens
    words = tuple(islice(cycle(WORDS), min(max(written, 1), _PLACEHOLDER_WORDS)))
    return Reply(
        words=words if played.spoke else (),
        finish=played.finish,
        input_tokens=read,
        output_tokens=written,
    )


def _decoded(body: bytes, headers: http_headers.Pairs) -> bytes:
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    try:
        undo = decoder(encodings, _REQUEST_LIMIT)
        return undo.feed(body) if undo else body
    except Unreadable:
        return b""


def _parsed(content: bytes) -> Payload:
    try:
        payload = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return payload if isinstance(payload, dict) else {}
